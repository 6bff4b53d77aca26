"""The entries of source logs after a batch, which a loss of power may have torn: a new lineage leaves them out.

All files of a checkpoint were forced to the disk, so damaged entries of a log are later (`rekindle.storage.forcing`).
If it is certain which line of a plan a log belongs to, that line says which entries are later. A plan that reads one
source twice has a line more than there are logs: its last line has no log of that number. Then a log is kept as far as
it is whole.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

from rekindle.progress.directory import COMPACTED, Offsets, file_log, log_numbers
from rekindle.storage.port import Store


def later_logs(store: Store, folder: str, offsets: Offsets, inboxes: Collection[int]) -> dict[str, list[str]]:
    """Return folder below ``sources/`` → names of log files that a query does not need after these offsets.

    Args:
        inboxes: sources that are fed by an inbox, whose logs are not read.
    """
    if not store.boot_id:
        return {}
    sources = {int(name) for name in store.names(f"{folder}/sources") if name.isdigit()}
    is_certain = max(sources, default=-1) == len(offsets.sources) - 1
    found = {}
    for source in sources.difference(inboxes):
        log = f"{folder}/sources/{source}"
        offset = log_offset(offsets.sources[source]) if is_certain else None
        found[f"{source}"] = [*(_after_damage(store, log) if offset is None else _after(store, log, offset))]
    return found


def log_offset(end: str | None) -> int | None:
    """Return the log offset of a file source in a plan; None: it has read nothing, or is of another kind."""
    offset = json.loads(end) if end is not None else None
    return offset.get("logOffset") if isinstance(offset, dict) else None


def _after(store: Store, log: str, offset: int) -> Iterator[str]:
    """Yield the names of log files after an offset; none if the log up to it has gaps."""
    numbers = log_numbers(store.names(log))
    compacted = max((n for name, n in numbers.items() if name.endswith(COMPACTED) and n <= offset), default=-1)
    if {*numbers.values()}.issuperset(range(compacted + 1, offset + 1)):
        yield from (name for name, number in numbers.items() if number > offset)


def _after_damage(store: Store, log: str) -> Iterator[str]:
    """Yield the names of log files from the first that is not whole; none if all are whole."""
    numbers = log_numbers(store.names(log))
    whole: dict[int, str] = {}
    for name in sorted(numbers, key=lambda name: numbers[name]):
        data = store.read(f"{log}/{name}")
        if _is_torn(data):
            continue
        if file_log(data, name) is None:
            return  # not a log of files: the relation of its entries is not known here
        whole[numbers[name]] = name
    last = max((n for n, name in whole.items() if name.endswith(COMPACTED)), default=-1)
    while last + 1 in whole:
        last += 1
    yield from (name for name, number in numbers.items() if number > last or whole.get(number) != name)


def _is_torn(data: bytes) -> bool:
    """Return True if the last line is not whole; a version alone is none: Spark writes no entry without files."""
    try:
        json.loads(data.rpartition(b"\n")[2])
    except ValueError:
        return True
    return False
