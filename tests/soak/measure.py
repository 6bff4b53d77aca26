"""What a job keeps on disk and in memory, taken again and again while it runs, and what may not rise."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from rekindle.history.log import CHECKPOINTS, EVENTS, RATES
from rekindle.logs.job_log import LogLimits
from rekindle.storage.local import LocalStore
from tests.soak.curves import Bound, Verdict, growers, verdicts

HISTOGRAMS = 3
"""Of the JVM's heap, for each sample: the smallest counts."""

FILLING = ("history", "logs")
"""Folders of a job that fill up to a size of their own and stay there."""
SEGMENTS = sum(kind.keep + 1 for kind in (EVENTS, CHECKPOINTS, RATES)) + LogLimits().pieces + 1
"""The most that they hold, in files of at most 256 KB, one of each being deleted."""

BOUNDS = {
    "filling_files": Bound(-1, SEGMENTS),
    "filling_bytes": Bound(-1, SEGMENTS * EVENTS.segment_bytes),
    "files": Bound(0.10, 60),
    "bytes": Bound(0.10, 200_000),
    "reads_a_checkpoint": Bound(0.20, 10),
    "driver_rss": Bound(0.05, 4_000_000),
    "driver_objects": Bound(0.03, 3_000),
    "driver_blocks": Bound(0.03, 10_000),
    "driver_threads": Bound(0.10, 5),
    "driver_handles": Bound(0.10, 5),
    "jvm_heap": Bound(0.05, 2_000_000),
    "jvm_classes": Bound(0.03, 300),
    "jvm_threads": Bound(0.10, 5),
    "jvm_handles": Bound(0.10, 20),
}
"""What has to stay flat."""

_KINDS_SHOWN = 8


class Reads:
    """Counts what Rekindle reads and lists of tasks and checkpoints; not what it looks at by the clock."""

    def __init__(self, job: str) -> None:
        self.number = 0
        self._counted = (f"{job}/tasks", f"{job}/checkpoints")
        for name in ("open", "names", "walk"):
            self._count(name, getattr(LocalStore, name))

    def _count(self, name: str, original: Callable[..., Any]) -> None:
        def counted(store: LocalStore, path: str) -> Any:
            ours = path.startswith(self._counted)
            if ours and not threading.current_thread().name.startswith(("soak", "Main")):
                self.number += 1
            return original(store, path)

        setattr(LocalStore, name, counted)


class Meter:
    """Takes every figure of one job of this process.

    Args:
        folder: gets ``samples.jsonl`` and the histograms of the JVM's heap.
        outputs: what the sinks write; what they keep beside the user's rows counts.
    """

    def __init__(self, job: str, spark: Any, folder: Path, storage: Path, outputs: Sequence[Path]) -> None:
        self.samples: list[dict[str, Any]] = []
        self._job, self._spark = job, spark
        self._folder, self._storage, self._outputs = folder, storage, outputs
        self._reads = Reads(job)
        self._read_before = self._checkpoints_before = 0
        self._began = time.monotonic()

    def sample(self, checkpoints: int, **counts: int) -> None:
        """Take every figure; `counts` says how far the job is."""
        this = psutil.Process()
        java = next(one for one in this.children(recursive=True) if one.name() == "java")
        gc.collect()
        _jcmd(java.pid, "GC.run")
        time.sleep(2)  # what only weak references lead to is cleaned up after a collection, in the background
        histogram = self._least_histogram(java.pid)
        kinds, sizes = self._kept()
        filling = {kind for kind in kinds if kind.startswith(tuple(f"storage/{self._job}/{name}" for name in FILLING))}
        taken = max(checkpoints - self._checkpoints_before, 1)
        reads, self._read_before = self._reads.number - self._read_before, self._reads.number
        self._checkpoints_before = checkpoints
        self.samples.append(
            {
                **counts,
                "seconds": round(time.monotonic() - self._began, 1),
                "checkpoints": checkpoints,
                "files": sum(number for kind, number in kinds.items() if kind not in filling),
                "bytes": sum(size for kind, size in sizes.items() if kind not in filling),
                "filling_files": sum(kinds[kind] for kind in filling),
                "filling_bytes": sum(sizes[kind] for kind in filling),
                "reads_a_checkpoint": round(reads / taken, 1),
                "driver_rss": this.memory_info().rss,
                "driver_objects": _objects(),
                "driver_blocks": sys.getallocatedblocks(),
                "driver_threads": this.num_threads(),
                "driver_handles": this.num_fds(),
                "jvm_heap": sum(histogram.values()) or self._heap(),
                "jvm_rss": java.memory_info().rss,
                "jvm_threads": java.num_threads(),
                "jvm_handles": java.num_fds(),
                "jvm_classes": _loaded_classes(java.pid),
                "load": os.getloadavg()[0],
            }
        )
        # What is kept here counts as the driver's.
        sample = {**self.samples[-1], "kinds": dict(kinds.most_common()), "sizes": dict(sizes.most_common())}
        with (self._folder / "samples.jsonl").open("a") as report:
            report.write(json.dumps(sample) + "\n")

    def _kept(self) -> tuple[Counter[str], Counter[str]]:
        """Files and bytes of the storage by kind, side files included, and what the sinks keep beside their output."""
        kinds: Counter[str] = Counter()
        sizes: Counter[str] = Counter()
        for root in (self._storage, *self._outputs):
            for place, _, files in os.walk(root):
                for file in files:
                    path = Path(place, file)
                    parts = path.relative_to(root).parts
                    if root != self._storage and not any(part.startswith(("_", ".")) for part in parts):
                        continue  # the user's data
                    kind = "/".join("#" if part.isdigit() else part for part in parts[:-1])
                    try:
                        size = path.stat().st_size
                    except FileNotFoundError:
                        continue
                    kinds[f"{root.name}/{kind}"] += 1
                    sizes[f"{root.name}/{kind}"] += size
        return kinds, sizes

    def _heap(self) -> int:
        """Bytes on the JVM's heap after a collection, where nothing tells them more exactly."""
        jvm: Any = self._spark._jvm
        runtime, found = jvm.java.lang.Runtime.getRuntime(), []
        for _ in range(3):
            jvm.java.lang.System.gc()
            found.append(runtime.totalMemory() - runtime.freeMemory())
        return int(min(found))

    def _least_histogram(self, pid: int) -> dict[str, int]:
        """The JVM skips a collection while native code holds an array, and counts what it would have collected."""
        least = min((_histogram(pid) for _ in range(HISTOGRAMS)), key=lambda found: sum(found.values()))
        (self._folder / f"histogram-{len(self.samples):03d}.json").write_text(json.dumps(least))
        return least

    def verdicts(self) -> list[Verdict]:
        """Judge each figure that has a bound."""
        return verdicts({name: [sample[name] for sample in self.samples] for name in BOUNDS}, BOUNDS)

    def lines(self, found: Sequence[Verdict]) -> Iterator[str]:
        """Yield what a person reads: the figures, and what grew."""
        yield "| figure | from 25 % | at the end | at most | |"
        yield "| --- | ---: | ---: | ---: | --- |"
        for one in found:
            word = "flat" if one.flat else "**grows**"
            yield f"| {one.name} | {one.before:,.0f} | {one.after:,.0f} | {one.most:,.0f} | {word} |"
        written = [json.loads(line) for line in (self._folder / "samples.jsonl").read_text().splitlines()]
        quarter = written[len(written) // 4]
        for name in ("kinds", "sizes"):
            yield f"\nWhat grew of the storage, {'files' if name == 'kinds' else 'bytes'}:\n"
            for kind, before, after in growers(quarter[name], written[-1][name], _KINDS_SHOWN):
                yield f"- {kind}: {before:,} → {after:,}"
        early, late = (
            json.loads((self._folder / f"histogram-{number:03d}.json").read_text())
            for number in (len(self.samples) // 4, len(self.samples) - 1)
        )
        if late:
            yield "\nWhat grew on the JVM's heap, bytes at 25 % and at the end:\n"
            for name, before, after in growers(early, late):
                yield f"- {name}: {before:,} → {after:,}"


def _objects() -> int:
    """How many objects the garbage collector knows of.

    They are counted where they lie: ``gc.get_objects()`` holds each of them for a moment, and a tuple that another
    thread is just making fails then (SystemError).
    """
    gc.freeze()
    try:
        return gc.get_freeze_count()
    finally:
        gc.unfreeze()


def _histogram(pid: int) -> dict[str, int]:
    """What is on the JVM's heap after a collection, class → bytes; empty where the JDK has no jcmd."""
    found: dict[str, int] = {}
    for line in _jcmd(pid, "GC.class_histogram"):
        parts = line.split()
        if len(parts) >= 4 and parts[0].endswith(":") and parts[2].isdigit():
            found[parts[3]] = found.get(parts[3], 0) + int(parts[2])
    return found


def _loaded_classes(pid: int) -> int:
    table = _jcmd(pid, "VM.classloader_stats")
    totals = [line.split() for line in table if line.startswith("Total =")]
    return int(totals[0][3]) if totals else 0


def _jcmd(pid: int, command: str) -> list[str]:
    jcmd = shutil.which("jcmd")
    if jcmd is None:
        return []
    done = subprocess.run([jcmd, str(pid), command], capture_output=True, text=True, check=False, timeout=300)
    return done.stdout.splitlines()
