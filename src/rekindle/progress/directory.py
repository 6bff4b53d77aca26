"""Spark's checkpoint directory (our `spark_progress_dir`), read and edited as files.

    metadata              {"id": query id}
    offsets/<N>           batch N is planned: the watermark it runs with and the end offset of every source
    commits/<N>           batch N is committed: the watermark of the next one
    sources/<i>/<L>       entry of source i for its offset L; in a log of files, `<L>.compact` at every tenth offset
    state/<operator>/<partition>[/<store>]/<version>.*    batch N writes version N + 1

A directory is edited only while no query runs on it; reading is harmless at any time. All access goes through a
`Store`, so this module must not import pyspark, and it knows neither jobs nor checkpoints. `files` lists the files that
a batch needs, `copies` copies them, `retention` deletes others.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from rekindle.channels.inbox import unstamp
from rekindle.errors import StorageError
from rekindle.storage.port import NotFound, Store

COMPACTED = ".compact"
_LOG_FILE = re.compile(r"[0-9]+(\.compact)?")


@dataclass(frozen=True, slots=True)
class Offsets:
    """The content of ``offsets/<N>``: Spark's plan of a batch."""

    #: the query's watermark while the batch runs, ms since the epoch
    batch_watermark_ms: int
    #: the whole second line: watermark, time of planning, the settings that are fixed for the query
    metadata: Mapping[str, Any]
    #: end offset of each source as Spark's own JSON; None: nothing has been read from it yet
    sources: tuple[str | None, ...]
    #: SHA-256 of the file, hexadecimal
    hash: str
    #: the whole file
    text: str
    #: name of each source in version 2 of the log: its number, or the name that the user has given; () in version 1
    names: tuple[str, ...] = ()

    def to_bytes(self, **metadata: Any) -> bytes:
        """Return the content of the file, with some of its metadata replaced."""
        ends = [source or "-" for source in self.sources]
        if self.names:
            ends = [f"{name}:{end}" for name, end in zip(self.names, ends, strict=True)]
        return "\n".join(["v2" if self.names else "v1", _compact({**self.metadata, **metadata}), *ends]).encode()


def last_planned(store: Store, folder: str) -> int:
    """Return the newest batch in ``offsets/``, -1 if there is none."""
    return max(numbered(store, f"{folder}/offsets"), default=-1)


def last_committed(store: Store, folder: str) -> int:
    """Return the newest batch in ``commits/``, -1 if there is none."""
    return max(numbered(store, f"{folder}/commits"), default=-1)


def is_committed(store: Store, folder: str, batch: int) -> bool:
    """Return whether Spark has committed `batch`."""
    return store.exists(f"{folder}/commits/{batch}")


def read_offsets(store: Store, folder: str, batch: int) -> Offsets:
    """Return Spark's plan of `batch`.

    Raises:
        NotFound: Spark has not planned the batch, or the plan was purged.
        StorageError: ``PROGRESS_FORMAT_UNKNOWN`` for another format than ``v1`` and ``v2``, ``OBJECT_CORRUPT`` for a
            damaged file.
    """
    path = f"{folder}/offsets/{batch}"
    data = store.read(path)
    lines = _lines(data, path, ("v1", "v2"))
    if len(lines) < 2:
        raise StorageError("OBJECT_CORRUPT", path=path, reason="it ends before its metadata")
    metadata = _json(lines[1], path)
    watermark_ms = metadata.get("batchWatermarkMs")
    if not isinstance(watermark_ms, int):
        raise StorageError("OBJECT_CORRUPT", path=path, reason="it has no batchWatermarkMs")
    names, ends = _named_sources(lines[2:]) if lines[0] == "v2" else ((), lines[2:])
    sources = tuple(None if end == "-" else end for end in ends)
    return Offsets(watermark_ms, metadata, sources, hashlib.sha256(data).hexdigest(), data.decode(), names)


def read_commit(store: Store, folder: str, batch: int) -> dict[str, Any]:
    """Return the metadata that Spark has written for a committed batch.

    Raises:
        NotFound: Spark has not committed the batch, or the commit was purged.
        StorageError: ``PROGRESS_FORMAT_UNKNOWN``, ``OBJECT_CORRUPT``.
    """
    path = f"{folder}/commits/{batch}"
    return _json("\n".join(_lines(store.read(path), path, ("v1", "v2"))[1:]), path)


def _named_sources(lines: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Return the names and the ends of ``name:end`` lines, in any order; names that are all numbers are sorted."""
    found = [line.partition(":")[::2] for line in lines]
    if all(name.isascii() and name.isdigit() for name, _ in found):
        found.sort(key=lambda each: int(each[0]))
    return tuple(name for name, _ in found), [end for _, end in found]


def plant(store: Store, folder: str, watermark_ms: int) -> int:
    """Plan a batch without input that runs with `watermark_ms` and so flushes Spark's state; return its number.

    The query runs this batch first when it is started next. A natural end and a drain use the same flush.

    Raises:
        StorageError: ``PROGRESS_BATCH_PLANNED`` if a batch is planned and not committed, ``PROGRESS_BATCH_MISSING`` if
            no batch was ever committed, so that there is nothing to flush.
    """
    batch = last_committed(store, folder)
    if batch < 0:
        raise StorageError("PROGRESS_BATCH_MISSING", folder=folder, batch=0)
    planted = read_offsets(store, folder, batch).to_bytes(batchWatermarkMs=watermark_ms)
    if last_planned(store, folder) > batch or not store.create(f"{folder}/offsets/{batch + 1}", planted):
        raise StorageError("PROGRESS_BATCH_PLANNED", folder=folder, batch=batch + 1)
    return batch + 1


def plant_due(store: Store, folder: str, timers_at_ms: Callable[[], int | None] = lambda: None) -> bool:
    """Plan the batch without input that emits the rows that the last batch has made due; return True if it is planned.

    Spark itself plans this batch right after the batch that moved the watermark, and batch after batch for timers of
    processing time. After a restart it does not: it waits for data, however long that takes.

    Args:
        timers_at_ms: returns the time now, where timers of processing time may be due.
    """
    batch = last_committed(store, folder)
    if batch < 0 or last_planned(store, folder) > batch or not store.names(f"{folder}/state"):
        return False
    last, at_ms = read_offsets(store, folder, batch), timers_at_ms()
    due_ms = max(read_commit(store, folder, batch).get("nextBatchWatermarkMs", 0), last.batch_watermark_ms)
    if due_ms == last.batch_watermark_ms and at_ms is None:
        return False
    time = {} if at_ms is None else {"batchTimestampMs": at_ms}
    store.create(f"{folder}/offsets/{batch + 1}", last.to_bytes(batchWatermarkMs=due_ms, **time))
    return True


def unplant(store: Store, folder: str, keep: int | None = None) -> tuple[int, ...]:
    """Remove every batch that is planned and not committed, except `keep`; return their numbers.

    Nothing is lost: Spark plans their input again, even if a source's own log is ahead. A recorded batch must
    not be removed: a new plan of it could differ from its batch record.
    """
    last = last_committed(store, folder)
    planned = tuple(batch for batch in numbered(store, f"{folder}/offsets") if batch > last and batch != keep)
    for batch in reversed(planned):
        store.delete(f"{folder}/offsets/{batch}")
    return planned


def set_watermark(store: Store, folder: str, batch: int, watermark_ms: int) -> None:
    """Let the query continue after the committed `batch` with `watermark_ms`: rows after a drain are not late."""
    store.replace(
        f"{folder}/offsets/{batch}", read_offsets(store, folder, batch).to_bytes(batchWatermarkMs=watermark_ms)
    )
    path = f"{folder}/commits/{batch}"
    lines = _lines(store.read(path), path)
    commit = {**_json("\n".join(lines[1:]), path), "nextBatchWatermarkMs": watermark_ms}
    store.replace(path, f"v1\n{_compact(commit)}".encode())


def plan_at(
    store: Store, folder: str, batch: int, watermark_ms: int, ends: Mapping[int, str | None] = MappingProxyType({})
) -> None:
    """Let the planned `batch` run with `watermark_ms`, and read some sources up to other ends."""
    planned = read_offsets(store, folder, batch)
    sources = tuple(ends.get(source, end) for source, end in enumerate(planned.sources))
    wanted = replace(planned, sources=sources).to_bytes(batchWatermarkMs=watermark_ms)
    if planned.batch_watermark_ms != watermark_ms or planned.sources != sources:
        store.replace(f"{folder}/offsets/{batch}", wanted)


class SourceInputs:
    """The inputs of Spark's sources: for each the index of the input whose inbox it reads.

    The order of a query's sources never changes, so each is looked up until it has read something, and then no more.
    """

    def __init__(self, store: Store, folder: str) -> None:
        self._store = store
        self._folder = folder
        #: source → index of its input; None: it is not fed by an inbox
        self._found: dict[int, int | None] = {}

    def of(self, source_count: int) -> tuple[int | None, ...]:
        """Return the index of the input of each source; None: it reads no inbox, or has read nothing yet."""
        for source in set(range(source_count)) - self._found.keys():
            first = first_entry(self._store, f"{self._folder}/sources/{source}")
            if first is not None:
                stamped = unstamp(first["timestamp"]) if "timestamp" in first else None
                self._found[source] = stamped[0] if stamped else None
        return tuple(self._found.get(source) for source in range(source_count))


def inputs_of_sources(store: Store, folder: str, source_count: int) -> tuple[int | None, ...]:
    """Return the index of the input of each source, by one look; see `SourceInputs`."""
    return SourceInputs(store, folder).of(source_count)


def log_numbers(names: Iterable[str]) -> dict[str, int]:
    """Return name → number of the files of a source's log among these names."""
    return {name: int(name.removesuffix(COMPACTED)) for name in names if _LOG_FILE.fullmatch(name)}


def first_entry(store: Store, log: str) -> dict[str, Any] | None:
    """Return the first entry of a source's newest log file that is whole; the others, maybe a million, are not read.

    A loss of power may have torn the newest files. None: there is no log; an empty entry: it is no log of files.
    """
    found = {number: name for name, number in log_numbers(store.names(log)).items()}
    met = False
    for number in sorted(found, reverse=True):
        try:
            with store.open(f"{log}/{found[number]}") as file:
                head = [file.readline(), file.readline()]
        except NotFound:
            continue
        met = True
        if entries := file_log(b"".join(head).rstrip(b"\n"), f"{log}/{found[number]}"):
            return entries[0]
    return {} if met else None


def log_entries(store: Store, log: str, log_offset: int) -> list[dict[str, Any]]:
    """Return the entries of one offset, from its own log file or, once that is gone, from the next compacted one."""
    compacted = [f"{n}.compact" for n in numbered(store, log, ".compact", plain=False) if n >= log_offset]
    for name in (str(log_offset), *compacted[:1]):
        try:
            data = store.read(f"{log}/{name}")
        except NotFound:
            continue
        entries = file_log(data, f"{log}/{name}")
        if entries is None:
            return []
        if own := [entry for entry in entries if entry["batchId"] == log_offset]:
            return own
    raise NotFound(f"{log}/{log_offset}")


def file_log(data: bytes, path: str) -> list[dict[str, Any]] | None:
    """Return the entries ``{"path", "timestamp", "batchId"}`` of a file source's log; None: another source's log."""
    try:
        entries = [json.loads(line) for line in _lines(data, path)[1:]]
    except (StorageError, ValueError):
        return None
    is_file_log = all(isinstance(entry, dict) and {"path", "timestamp", "batchId"} <= entry.keys() for entry in entries)
    return entries if is_file_log else None


def encode_file_log(entries: list[dict[str, Any]]) -> bytes:
    """Return a file source's log with these entries."""
    return "\n".join(["v1", *map(_compact, entries)]).encode()


def numbered(store: Store, folder: str, suffix: str = "", *, plain: bool = True) -> list[int]:
    """Return the numbers of the files ``<n>`` (if `plain`) and ``<n><suffix>`` in `folder`, ascending."""
    names = store.names(folder)
    bare = [name for name in names if plain] + [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
    return sorted({int(name) for name in bare if name.isascii() and name.isdigit()})


def _lines(data: bytes, path: str, versions: Sequence[str] = ("v1",)) -> list[str]:
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise StorageError("OBJECT_CORRUPT", path=path, reason=error) from error
    if lines[0] not in versions:
        code = "PROGRESS_FORMAT_UNKNOWN" if lines[0].startswith("v") else "OBJECT_CORRUPT"
        known = " or ".join(map(repr, versions))
        raise StorageError(code, path=path, reason=f"it begins with {lines[0][:20]!r}, not with {known}")
    return lines


def _json(text: str, path: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise StorageError("OBJECT_CORRUPT", path=path, reason=error) from error
    if not isinstance(value, dict):
        raise StorageError("OBJECT_CORRUPT", path=path, reason="its metadata is not an object")
    return value


def _compact(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
