"""What the logs of sources hold beyond a batch, where a loss of power may have torn it: a new lineage does without.

All that a checkpoint names was forced to the disk, so what is damaged in a log came later (`rekindle.storage.forcing`).
Where it is certain which line of a plan a log belongs to, the line tells what is later. A plan that reads one source
twice has a line more than there are logs: its last line has no log of that number. Then a log is kept as far as it is
whole.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

from rekindle.progress.directory import COMPACTED, Offsets, file_log, log_numbers
from rekindle.storage.port import Store


def later_logs(store: Store, folder: str, offsets: Offsets, inboxes: Collection[int]) -> dict[str, list[str]]:
    """Return folder below ``sources/`` → names of log files that a query which stands at these offsets does without.

    Args:
        inboxes: sources that are fed by one, whose logs are not looked at.
    """
    if not store.boot_id:
        return {}
    sources = {int(name) for name in store.names(f"{folder}/sources") if name.isdigit()}
    is_certain = max(sources, default=-1) == len(offsets.sources) - 1
    found = {}
    for source in sources.difference(inboxes):
        log, offset = f"{folder}/sources/{source}", log_offset(offsets.sources[source]) if is_certain else None
        found[f"{source}"] = [*(_after_damage(store, log) if offset is None else _after(store, log, offset))]
    return found


def log_offset(end: str | None) -> int | None:
    """How far a file source was read, by what a plan says of it; None for any other."""
    offset = json.loads(end) if end is not None else None
    return offset.get("logOffset") if isinstance(offset, dict) else None


def _after(store: Store, log: str, offset: int) -> Iterator[str]:
    """Names of what comes after an offset; none where the log up to it is not all there."""
    numbers = log_numbers(store.names(log))
    compacted = max((n for name, n in numbers.items() if name.endswith(COMPACTED) and n <= offset), default=-1)
    if {*numbers.values()}.issuperset(range(compacted + 1, offset + 1)):
        yield from (name for name, number in numbers.items() if number > offset)


def _after_damage(store: Store, log: str) -> Iterator[str]:
    """Names of what comes after the first entry that is not whole, with that one; none where all are."""
    numbers = log_numbers(store.names(log))
    whole: dict[int, str] = {}
    for name in sorted(numbers, key=lambda name: numbers[name]):
        data = store.read(f"{log}/{name}")
        if _is_torn(data):
            continue
        if file_log(data, name) is None:
            return  # not a log of files: how its entries hang together is not known here
        whole[numbers[name]] = name
    last = max((n for n, name in whole.items() if name.endswith(COMPACTED)), default=-1)
    while last + 1 in whole:
        last += 1
    yield from (name for name, number in numbers.items() if number > last or whole.get(number) != name)


def _is_torn(data: bytes) -> bool:
    try:
        json.loads(data.rpartition(b"\n")[2])
    except ValueError:
        return data != b"v1"
    return False
