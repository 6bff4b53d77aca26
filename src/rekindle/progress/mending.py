"""What a loss of power leaves of Spark's files that no batch record speaks of: it is put right before a query starts.

All that a record rests on was on the disk before the record was (`rekindle.storage.forcing`). Of what Spark wrote
after it, any part may be gone, or torn: the commit of that batch, the plan of the next, the entries of its sources.
What is torn is deleted. A plan whose entries are not all there is forgotten, or the batch would run without their
files; Spark plans it again, with all of them. So it is where Spark's commit of the batch before is gone: that batch is
replayed first.

Without a loss of power nothing is found here, and nothing changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from rekindle.errors import StorageError
from rekindle.progress.directory import COMPACTED, Offsets, file_log, log_numbers, numbered, read_commit, read_offsets
from rekindle.storage.documents.batch import BatchRecord
from rekindle.storage.port import NotFound, Store


def mend(store: Store, folder: str, record: BatchRecord | None) -> None:
    """Put right what lies in a `spark_progress_dir`.

    Args:
        record: the last batch record of its subtask; None: it has none.
    """
    if store.pace != 1:
        return  # what is in a bucket is on its disks
    last = record.batch if record is not None else -1
    _drop_torn_metadata(store, folder)
    read = _recorded_ends(store, folder, record)
    for batch in numbered(store, f"{folder}/commits"):
        if batch >= last and not _is_whole_commit(store, folder, batch):
            store.delete(f"{folder}/commits/{batch}")
    planned = [batch for batch in numbered(store, f"{folder}/offsets") if batch > last]
    replayed = last >= 0 and store.names(f"{folder}/offsets") and not store.exists(f"{folder}/commits/{last}")
    doomed = next((one for one in planned if replayed or not _is_whole_plan(store, folder, one, read)), None)
    for batch in reversed(planned):
        if doomed is not None and batch >= doomed:
            store.delete(f"{folder}/offsets/{batch}")
    for source in store.names(f"{folder}/sources"):
        _cut_torn_log(store, f"{folder}/sources/{source}", read.get(source, -1))
    _drop_sums(store, folder, last, read)


def _drop_torn_metadata(store: Store, folder: str) -> None:
    try:
        json.loads(store.read(f"{folder}/metadata"))
    except NotFound:
        return
    except ValueError:
        store.delete(f"{folder}/metadata")


def _recorded_ends(store: Store, folder: str, record: BatchRecord | None) -> Mapping[str, int]:
    """Source → how far the last record has read its log."""
    if record is None:
        return {}
    ends: Sequence[str | None]
    if record.offsets:
        ends = [None if line == "-" else line for line in record.offsets.split("\n")[2:]]
    else:
        try:
            ends = read_offsets(store, folder, record.batch).sources
        except NotFound:  # it has finished for good
            ends = ()
    return {str(source): _log_offset(end) for source, end in enumerate(ends)}


def _log_offset(end: str | None) -> int:
    """How far a file source is read; -1 for any other, and for one that has read nothing."""
    try:
        offset = json.loads(end) if end is not None else None
    except ValueError:  # Spark's own lines may be anything
        return -1
    number = offset.get("logOffset") if isinstance(offset, dict) else None
    return number if isinstance(number, int) else -1


def _is_whole_commit(store: Store, folder: str, batch: int) -> bool:
    try:
        read_commit(store, folder, batch)
    except (StorageError, NotFound):
        return False
    return True


def _is_whole_plan(store: Store, folder: str, batch: int, read: Mapping[str, int]) -> bool:
    """Whether a plan can be read, and all entries of sources that it goes by."""
    plan, before = (_plan(store, folder, one) for one in (batch, batch - 1))
    if plan is None:
        return False
    if before is not None and len(before.sources) != len(plan.sources):
        return False  # its last lines are cut off
    for source, end in enumerate(plan.sources):
        if end is not None and not _is_json(end):
            return False
        upto, after = _log_offset(end), read.get(str(source), -1)
        if upto > after and not _has_entries(store, f"{folder}/sources/{source}", after, upto):
            return False
    return True


def _plan(store: Store, folder: str, batch: int) -> Offsets | None:
    try:
        return read_offsets(store, folder, batch)
    except (NotFound, StorageError):
        return None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _has_entries(store: Store, log: str, after: int, upto: int) -> bool:
    """Whether all entries of a log in that range are there; a compacted one has all before it."""
    names = {number: name for name, number in log_numbers(store.names(log)).items() if after < number <= upto}
    whole = {number for number, name in names.items() if _is_whole_entry(store, f"{log}/{name}")}
    start = max((number for number in whole if names[number].endswith(COMPACTED)), default=after)
    return whole.issuperset(range(start + 1, upto + 1))


def _is_whole_entry(store: Store, path: str) -> bool:
    try:
        data = store.read(path)
    except NotFound:
        return False
    return bool(file_log(data, path)) or _is_of_another_kind(data)


def _is_of_another_kind(data: bytes) -> bool:
    """Whether it is what a source without files notes: when it began."""
    version, _, rest = data.partition(b"\n")
    return version == b"v1" and rest.isdigit()


def _cut_torn_log(store: Store, log: str, read: int) -> None:
    """Delete the entries after what was read, from the first on that is torn, or has none before it."""
    names = sorted((number, name) for name, number in log_numbers(store.names(log)).items() if number > read)
    expected = read + 1
    for index, (number, name) in enumerate(names):
        follows = number == expected or name.endswith(COMPACTED)
        if not follows or not _is_whole_entry(store, f"{log}/{name}"):
            store.delete_many([f"{log}/{late}" for _, late in names[index:]])
            return
        expected = number + 1


def _drop_sums(store: Store, folder: str, last: int, read: Mapping[str, int]) -> None:
    """Write what is whole again where Hadoop keeps a sum of it, which may be torn itself: the sum goes."""
    paths = ["metadata", *(f"{log}/{batch}" for log in ("offsets", "commits") for batch in (last, last + 1))]
    for source in store.names(f"{folder}/sources"):
        names = log_numbers(store.names(f"{folder}/sources/{source}"))
        paths += [f"sources/{source}/{name}" for name, number in names.items() if number > read.get(source, -1)]
    for path in paths:
        above, _, name = f"{folder}/{path}".rpartition("/")
        if store.exists(f"{above}/.{name}.crc") and store.exists(f"{above}/{name}"):
            store.replace(f"{above}/{name}", store.read(f"{above}/{name}"))
