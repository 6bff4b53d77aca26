"""`mend`: what a loss of power has left of Spark's files, and what is left of it afterwards."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from rekindle.progress.mending import mend
from rekindle.storage.documents.batch import BatchRecord
from rekindle.storage.local import LocalStore
from rekindle.storage.port import Store
from rekindle.testing.memory_store import MemoryStore

F = "job/spark"


def plan(*ends: int) -> bytes:
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}
    lines = [json.dumps({"logOffset": end}) if end >= 0 else "-" for end in ends]
    return "\n".join(["v1", json.dumps(metadata), *lines]).encode()


def entry(number: int) -> bytes:
    return b"v1\n" + json.dumps({"path": f"file:///{number}", "timestamp": 1, "batchId": number}).encode()


COMMIT = b'v1\n{"nextBatchWatermarkMs":0}'
WHOLE = {
    "metadata": b'{"id":"3e222f"}',
    **{f"offsets/{batch}": plan(batch, -1) for batch in range(3)},
    **{f"commits/{batch}": COMMIT for batch in range(2)},
    **{f"sources/0/{number}": entry(number) for number in range(3)},
    "state/0/0/2.zip": b"state",
}
"""Batch 1 is recorded and committed, batch 2 planned."""

RECORD = BatchRecord(batch=1, run=1, offsets=plan(1, -1).decode(), offsets_hash=hashlib.sha256(plan(1, -1)).hexdigest())

PLANNED = {"offsets/2"}


def left_of(damage: Mapping[str, bytes | None], record: BatchRecord | None = RECORD) -> set[str]:
    """The files that are gone once what is damaged so was mended, beside those that were."""
    store = MemoryStore()
    for path, data in {**WHOLE, **damage}.items():
        if data is not None:
            store.create(f"{F}/{path}", data)
    before = files(store)
    mend(store, F, record)
    return before - files(store)


def files(store: Store) -> set[str]:
    return {entry.path.removeprefix(f"{F}/") for entry in store.walk(F)}


def test_what_is_whole_stays_as_it_is() -> None:
    assert left_of({}) == set()
    assert left_of({"offsets/2": None, "sources/0/2": None}) == set()
    assert left_of({"offsets/2": None}) == set(), "a log may be ahead of its plan"


@pytest.mark.parametrize("torn", [b"", b"v", b"v1", b"v1\n", b"v1\n{", plan(2, -1)[:-3], plan(2, -1)[:-2]])
def test_a_plan_that_is_torn_is_forgotten(torn: bytes) -> None:
    assert left_of({"offsets/2": torn}) == PLANNED


@pytest.mark.parametrize("torn", [None, b"", b"v1", b"v1\n", entry(2)[:-1]])
def test_a_plan_whose_entry_of_a_source_is_not_whole_is_forgotten_or_its_files_would_be_lost(
    torn: bytes | None,
) -> None:
    gone = PLANNED | ({"sources/0/2"} if torn is not None else set())
    assert left_of({"sources/0/2": torn}) == gone


@pytest.mark.parametrize("torn", [b"", b"v1", b'v1\n{"next'])
def test_a_commit_that_is_torn_is_deleted_and_the_plan_after_it_so_that_its_batch_is_replayed(torn: bytes) -> None:
    assert left_of({"commits/1": torn}) == {"commits/1"} | PLANNED
    assert left_of({"commits/1": None}) == PLANNED
    assert left_of({"commits/1": torn, "offsets/2": None}) == {"commits/1"}


def test_an_entry_after_one_that_is_missing_or_torn_is_deleted_with_it() -> None:
    gap = {"offsets/2": None, "sources/0/2": None, "sources/0/3": entry(3)}
    assert left_of(gap) == {"sources/0/3"}
    assert left_of({**gap, "sources/0/2": b""}) == {"sources/0/2", "sources/0/3"}


def test_a_compacted_entry_has_all_before_it() -> None:
    compacted = {"sources/0/2": None, "sources/0/4.compact": entry(4), "offsets/2": plan(4, -1)}
    assert left_of(compacted) == set()
    assert left_of({**compacted, "sources/0/5": entry(5), "offsets/2": plan(5, -1)}) == set()
    gap = {**compacted, "sources/0/6": entry(6), "offsets/2": plan(6, -1)}
    assert left_of(gap) == PLANNED | {"sources/0/6"}
    assert left_of({**compacted, "sources/0/4.compact": b"v1"}) == PLANNED | {"sources/0/4.compact"}


def test_what_is_recorded_is_never_deleted() -> None:
    recorded = {"offsets/0": b"", "offsets/1": b"", "commits/0": b"", "sources/0/0": b"", "sources/0/1": b""}
    assert left_of(recorded) <= PLANNED


def test_before_the_first_record_all_that_is_torn_is_deleted() -> None:
    first = dict[str, bytes | None](dict.fromkeys(WHOLE)) | {
        "metadata": b"",
        "offsets/0": plan(0, -1),
        "sources/0/0": b"",
    }
    assert left_of(first, None) == {"metadata", "offsets/0", "sources/0/0"}


def test_the_note_of_a_source_without_files_is_whole() -> None:
    assert left_of({"offsets/2": plan(2, 5), "sources/1/0": b"v1\n1735689600000", "sources/0/2": entry(2)}) == PLANNED
    ends = {f"offsets/{batch}": plan(batch, 0) for batch in range(3)}
    assert left_of({**ends, "sources/1/0": b"v1\n1735689600000"}) == set()


def test_a_sum_of_hadoops_which_may_be_torn_too_goes_and_its_file_stays(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    for path, data in WHOLE.items():
        store.create(f"{F}/{path}", data)
    sums = [tmp_path / F / path for path in ("offsets/.2.crc", "commits/.1.crc", "sources/0/.2.crc", "offsets/.0.crc")]
    for path in sums:
        path.write_bytes(b"torn")
    mend(store, F, RECORD)
    assert files(store) == WHOLE.keys()
    assert [path.exists() for path in sums] == [False, False, False, True], "what is recorded was forced with its sum"


def test_what_is_in_a_bucket_is_not_looked_at() -> None:
    class Bucket(MemoryStore):
        pace = 10  # type: ignore[assignment]

    store = Bucket()
    store.create(f"{F}/offsets/2", b"")
    mend(store, F, RECORD)
    assert files(store) == {"offsets/2"}
