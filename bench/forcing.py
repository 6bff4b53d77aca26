"""The cost of forcing a checkpoint to the disk: its two documents, after files of a batch.

    python bench/forcing.py [FOLDER]

With and without forcing in turn, so that what else the machine does befalls both alike. FOLDER: on the disk to measure.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from rekindle.storage import layout
from rekindle.storage.open import open_store
from rekindle.storage.port import Store

ROUNDS = 30
FILES = (10, 200, 2_000)
FILE_BYTES = 4_096


def checkpoint_ms(store: Store, number: int, files: int) -> float:
    """Write a batch's files as Spark does, and return how long the documents of a checkpoint take after that."""
    folder = Path(store.location, "job/tasks/count/0/000001/spark/state", f"{number}")
    folder.mkdir(parents=True)
    for name in range(files):
        (folder / f"{name}").write_bytes(os.urandom(FILE_BYTES))
    began_s = time.perf_counter()
    checkpoint = layout.checkpoint("job", number)
    store.create(layout.manifest(checkpoint), b"{}" * 500)
    store.create(layout.committed(checkpoint), b"{}")
    return (time.perf_counter() - began_s) * 1_000


def main() -> None:
    """Measure, and print a row for each number of files."""
    above = sys.argv[1] if len(sys.argv) > 1 else None
    print(
        f"{'files':>6} {'forced, ms':>22} {'not forced, ms':>22}   (median, and from the 10th to the 90th percentile)"
    )
    for files in FILES:
        took: dict[bool, list[float]] = {True: [], False: []}
        for number in range(ROUNDS):
            for forced in (True, False) if number % 2 else (False, True):
                with tempfile.TemporaryDirectory(dir=above) as folder:
                    took[forced].append(checkpoint_ms(open_store(folder, forced=forced), number, files))
        print(f"{files:>6} {_shown(took[True]):>22} {_shown(took[False]):>22}")


def _shown(times_ms: list[float]) -> str:
    deciles = statistics.quantiles(times_ms, n=10)
    return f"{statistics.median(times_ms):.1f} ({deciles[0]:.1f} to {deciles[-1]:.1f})"


if __name__ == "__main__":
    main()
