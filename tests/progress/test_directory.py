"""Reading, editing, copying and purging Spark's progress directory: on files alone."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

import pytest

from rekindle.channels.inbox import stamp_ms
from rekindle.errors import StorageError
from rekindle.progress import directory as pd
from rekindle.progress.copies import InboxStart, copy_for_lineage, copy_for_savepoint
from rekindle.progress.files import files_needed
from rekindle.progress.plans import plan_again, put_back
from rekindle.progress.retention import SourceLogs
from rekindle.storage.folder import Folder
from rekindle.storage.local import LocalStore
from rekindle.storage.port import NotFound, Store

FLUSH_MS = 253_402_300_790_000
NEW_ID = "00000000-0000-0000-0000-00000000000{}"


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path / "storage"))


def offsets(watermark_ms: int, *sources: str) -> bytes:
    return "\n".join(["v1", json.dumps({"batchWatermarkMs": watermark_ms, "conf": {"a": "b"}}), *sources]).encode()


def put(store: LocalStore, files: Mapping[str, bytes | str]) -> None:
    for path, data in files.items():
        store.replace(path, data if isinstance(data, bytes) else data.encode())


def batches(store: LocalStore, count: int, *sources: str) -> None:
    for n in range(count):
        put(store, {f"p/offsets/{n}": offsets(n, *sources), f"p/commits/{n}": f'v1\n{{"nextBatchWatermarkMs":{n}}}'})
    put(store, {"p/metadata": '{"id":"x"}'})


def snapshot(*immutable: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        files = [{"localFileName": "1.sst", "dfsSstFileName": name, "sizeBytes": 1} for name in immutable]
        archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": files, "numKeys": 1}))
    return buffer.getvalue()


def code(call: Callable[[], object]) -> str:
    with pytest.raises(StorageError) as caught:
        call()
    assert caught.value.next_step
    return caught.value.code


def test_a_planned_batch_is_given_another_watermark_and_keeps_all_else(store: LocalStore) -> None:
    put(store, {"p/offsets/0": offsets(0, "7", "-")})

    pd.plan_at(store, "p", 0, 5_000)

    planned = pd.read_offsets(store, "p", 0)
    assert (planned.batch_watermark_ms, planned.sources, planned.metadata["conf"]) == (5_000, ("7", None), {"a": "b"})


def test_an_unused_directory_has_no_batches(store: LocalStore) -> None:
    assert pd.last_planned(store, "p") == pd.last_committed(store, "p") == -1
    assert not pd.is_committed(store, "p", 0)
    with pytest.raises(NotFound):
        pd.read_offsets(store, "p", 0)


def test_offsets_are_read_with_their_watermark_sources_and_hash(store: LocalStore) -> None:
    batches(store, 11, '{"logOffset":3}', "-", "17")
    put(store, {"p/offsets/11": offsets(5), "p/offsets/.12.x.tmp": "", "p/offsets/notes": ""})
    assert (pd.last_planned(store, "p"), pd.last_committed(store, "p")) == (11, 10)
    assert pd.is_committed(store, "p", 10) and not pd.is_committed(store, "p", 11)
    found = pd.read_offsets(store, "p", 10)
    assert found.batch_watermark_ms == 10
    assert found.metadata["conf"] == {"a": "b"}
    assert found.sources == ('{"logOffset":3}', None, "17")
    assert found.hash != pd.read_offsets(store, "p", 9).hash and len(found.hash) == 64


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"v3\n{}\n0:{}", "PROGRESS_FORMAT_UNKNOWN"),
        (b"", "OBJECT_CORRUPT"),
        (b"v1", "OBJECT_CORRUPT"),
        (b"v1\n{", "OBJECT_CORRUPT"),
        (b"v1\n[]", "OBJECT_CORRUPT"),
        (b"v1\n{}", "OBJECT_CORRUPT"),
        (b"\xff\xfe", "OBJECT_CORRUPT"),
    ],
)
def test_an_offsets_file_of_an_unknown_format_is_refused(store: LocalStore, data: bytes, expected: str) -> None:
    put(store, {"p/offsets/0": data})
    assert code(lambda: pd.read_offsets(store, "p", 0)) == expected


def test_sources_of_version_2_stand_in_their_order_and_are_written_as_they_were(store: LocalStore) -> None:
    numbered = 'v2\n{"batchWatermarkMs":1}\n10:-\n2:{"logOffset":3}\n0:17'
    put(store, {"p/offsets/0": numbered, "p/offsets/1": 'v2\n{"batchWatermarkMs":1}\nlive:1\nbase:{"a:b":"c"}'})
    found, named = pd.read_offsets(store, "p", 0), pd.read_offsets(store, "p", 1)
    assert found.names == ("0", "2", "10") and found.sources == ("17", '{"logOffset":3}', None)
    assert named.names == ("live", "base") and named.sources == ("1", '{"a:b":"c"}')
    assert found.to_bytes() == b'v2\n{"batchWatermarkMs":1}\n0:17\n2:{"logOffset":3}\n10:-'
    assert named.to_bytes(batchWatermarkMs=2) == b'v2\n{"batchWatermarkMs":2}\nlive:1\nbase:{"a:b":"c"}'


def test_planting_plans_the_last_batch_again_with_another_watermark(store: LocalStore) -> None:
    batches(store, 3, '{"logOffset":1}', "-")
    assert pd.plant(store, "p", FLUSH_MS) == 3
    before, planted = pd.read_offsets(store, "p", 2), pd.read_offsets(store, "p", 3)
    assert planted.batch_watermark_ms == FLUSH_MS
    assert planted.sources == before.sources
    assert planted.metadata == {**before.metadata, "batchWatermarkMs": FLUSH_MS}
    assert code(lambda: pd.plant(store, "p", FLUSH_MS)) == "PROGRESS_BATCH_PLANNED"
    assert pd.unplant(store, "p") == (3,)
    assert pd.unplant(store, "p") == ()
    assert pd.last_planned(store, "p") == 2


def test_nothing_can_be_planted_before_the_first_batch(store: LocalStore) -> None:
    assert code(lambda: pd.plant(store, "p", FLUSH_MS)) == "PROGRESS_BATCH_MISSING"


def test_what_the_last_batch_has_made_due_is_planned_once_and_only_where_there_is_state(store: LocalStore) -> None:
    batches(store, 3, '{"logOffset":3}')
    put(store, {"p/state/0/0/3.zip": snapshot()})
    assert not pd.plant_due(store, "p")

    put(store, {"p/commits/2": 'v1\n{"nextBatchWatermarkMs":7}'})
    assert pd.plant_due(store, "p")
    planned = pd.read_offsets(store, "p", 3)
    assert (planned.batch_watermark_ms, planned.sources) == (7, ('{"logOffset":3}',))
    assert not pd.plant_due(store, "p")  # it is planned, and not yet committed

    # Where timers of processing time may be due, it does not need another watermark, but the time that it is.
    put(store, {"p/commits/3": 'v1\n{"nextBatchWatermarkMs":7}'})
    assert not pd.plant_due(store, "p")
    assert pd.plant_due(store, "p", lambda: 1_900_000_000_000)
    planned = pd.read_offsets(store, "p", 4)
    assert (planned.batch_watermark_ms, planned.metadata["batchTimestampMs"]) == (7, 1_900_000_000_000)

    pd.unplant(store, "p")
    store.delete_tree("p/state")
    assert not pd.plant_due(store, "p")
    assert not pd.plant_due(store, "elsewhere")


def test_a_plan_is_put_back_where_it_is_gone_or_another_and_left_where_it_is_the_same(store: LocalStore) -> None:
    batches(store, 2)
    recorded = pd.read_offsets(store, "p", 1)

    for now in (None, offsets(99)):
        store.delete("p/offsets/1") if now is None else put(store, {"p/offsets/1": now})
        put_back(store, "p", 1, recorded.hash, recorded.text)
        assert pd.read_offsets(store, "p", 1) == recorded

    put_back(store, "p", 1, recorded.hash, "not to be written")
    assert pd.read_offsets(store, "p", 1) == recorded


def test_the_plan_of_a_committed_batch_is_what_it_was_and_its_commit_stays(store: LocalStore) -> None:
    batches(store, 2)
    recorded = pd.read_offsets(store, "p", 0)
    put(store, {"p/offsets/0": offsets(99)})
    plan_again(store, "p", 0, recorded.hash, recorded.text)
    plan_again(store, "p", 7, recorded.hash, recorded.text)
    assert pd.read_offsets(store, "p", 0) == recorded
    assert store.names("p/offsets") == ["0", "1"]
    assert store.exists("p/commits/0")


def test_unplanting_removes_hadoops_checksum_too(store: LocalStore) -> None:
    batches(store, 1)
    put(store, {"p/offsets/1": offsets(1)})
    side_file = Path(store.path("p/offsets")) / ".1.crc"
    side_file.write_bytes(b"crc")
    assert pd.unplant(store, "p") == (1,)
    assert not side_file.exists()


def test_a_plan_that_is_to_be_kept_is_not_removed(store: LocalStore) -> None:
    batches(store, 1)
    put(store, {"p/offsets/1": offsets(1)})
    assert pd.unplant(store, "p", keep=1) == ()
    assert pd.last_planned(store, "p") == 1
    assert pd.unplant(store, "p", keep=0) == (1,)


def test_set_watermark_changes_only_the_watermarks(store: LocalStore) -> None:
    batches(store, 2, "7")
    put(store, {"p/commits/1": 'v1\n{"nextBatchWatermarkMs":9,"other":[1]}'})
    pd.set_watermark(store, "p", 1, 1234)
    assert pd.read_offsets(store, "p", 1).batch_watermark_ms == 1234
    assert pd.read_offsets(store, "p", 1).sources == ("7",)
    assert store.read("p/commits/1") == b'v1\n{"nextBatchWatermarkMs":1234,"other":[1]}'
    assert pd.read_offsets(store, "p", 0).batch_watermark_ms == 0


def entry(log_offset: int, time_ms: int) -> str:
    return json.dumps({"path": f"file:///{log_offset}", "timestamp": time_ms, "batchId": log_offset})


def inbox_log(count: int, input_index: int, first: int = 0) -> dict[str, str]:
    """A file source's log over an inbox: plain files and the newest compacted one, as Spark leaves them."""
    lines = {n: entry(n, stamp_ms(n, input_index)) for n in range(first, first + count)}
    files = {str(n): "v1\n" + line for n, line in lines.items()}
    for n in lines:
        if (n + 1) % 10 == 0:
            del files[str(n)]
            files[f"{n}.compact"] = "\n".join(["v1", *(line for m, line in lines.items() if m <= n)])
    return files


def test_a_source_log_tells_input_and_admission(store: LocalStore) -> None:
    put(store, {f"p/sources/0/{name}": data for name, data in inbox_log(23, 7).items()})
    put(store, {"p/sources/1/0": "v1\n1795253835689", "p/sources/2/3": "v1\n" + entry(3, 1_795_253_835_645)})
    assert pd.inputs_of_sources(store, "p", 5) == (7, None, None, None, None)


class Opened(LocalStore):
    """A store that notes what is opened."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.opened: list[str] = []

    def open(self, path: str) -> BinaryIO:
        self.opened.append(path)
        return super().open(path)


def test_of_a_million_files_in_a_sources_log_only_the_first_is_read_and_that_once(tmp_path: Path) -> None:
    store = Opened(str(tmp_path))
    unread = ["no entry: who reads it fails"] * 1_000
    put(store, {"p/sources/0/99999.compact": "\n".join(["v1", entry(99_999, 1_795_253_835_645), *unread])})
    sources = pd.SourceInputs(store, "p")
    assert sources.of(2) == (None, None)
    put(store, {f"p/sources/1/{name}": data for name, data in inbox_log(1, 6).items()})
    assert [sources.of(2) for _ in range(20)] == [(None, 6)] * 20, "what had read nothing is looked at again"
    assert store.opened == ["p/sources/0/99999.compact", "p/sources/1/0"]


@pytest.mark.parametrize(
    ("log_offset", "time_ms", "expected"),
    [
        (50_000, stamp_ms(50_000, 999), 999),
        (50_000, stamp_ms(50_000, 0) + 1_000, None),
        (12, 1_795_252_724_031, None),
        (12, 0, None),
        (12, stamp_ms(11_000, 0), 0),
    ],
)
def test_real_times_are_distinguished_from_admissions(
    store: LocalStore, log_offset: int, time_ms: int, expected: object
) -> None:
    put(store, {f"p/sources/0/{log_offset}": "v1\n" + entry(log_offset, time_ms)})
    assert pd.inputs_of_sources(store, "p", 1) == (expected,)


def operator_metadata(home: str) -> str:
    store = {"storeName": "default", "stateSchemaFilePaths": [f"{home}/state/0/_stateSchema/default/0_ab"]}
    return "v2\n" + json.dumps({"operatorInfo": {"operatorId": 0}, "stateStoreInfo": [store]}, separators=(",", ":"))


def rocks_directory(store: LocalStore) -> None:
    """Batches 0 to 29, snapshots at versions 5, 15 and 25; `b` is shared by two, `up` belongs to one on its way."""
    batches(store, 30, '{"logOffset":9}')
    state = "p/state/0/0/left-keyToNumValues"
    put(store, {f"{state}/{v}.changelog": "x" for v in range(1, 31)})
    put(store, {f"{state}/5.zip": snapshot("a.sst", "b.sst"), f"{state}/15.zip": snapshot("b.sst", "c.sst")})
    put(store, {f"{state}/25.zip": snapshot("d.sst")})
    put(store, {f"{state}/SSTs/{name}.sst": "x" for name in ("a", "b", "c", "d", "up")})
    put(
        store,
        {
            "p/state/0/0/_metadata/schema": "s",
            "p/state/0/_metadata/v2/0": operator_metadata("file:/p"),
            "p/state/0/_metadata/v2/12": "m",
        },
    )
    put(store, {f"{state}/.31.changelog.tmp": "t", f"{state}/30.changelog.crc": "c", "p/sources/0/5.crc": "c"})
    put(store, {f"p/sources/0/{name}": data for name, data in inbox_log(23, 1).items()})


def test_a_batch_needs_its_newest_snapshot_and_what_follows_it(store: LocalStore) -> None:
    rocks_directory(store)
    state = "state/0/0/left-keyToNumValues"
    assert files_needed(store, "p", 10) == [
        *("metadata", "offsets/9", "offsets/10", "commits/9", "commits/10"),
        *("sources/0/19.compact", "sources/0/20", "sources/0/21", "sources/0/22", "sources/0/9.compact"),
        *("state/0/0/_metadata/schema", f"{state}/10.changelog", f"{state}/11.changelog", f"{state}/5.zip"),
        *(f"{state}/{v}.changelog" for v in range(6, 10)),
        *(f"{state}/SSTs/a.sst", f"{state}/SSTs/b.sst", "state/0/_metadata/v2/0"),
    ]
    assert f"{state}/1.changelog" in files_needed(store, "p", 2)
    assert f"{state}/5.zip" not in files_needed(store, "p", 2)


def test_a_savepoint_holds_the_files_needed_and_counts_their_bytes(store: LocalStore, tmp_path: Path) -> None:
    rocks_directory(store)
    target = LocalStore(str(tmp_path / "elsewhere"))
    size_bytes = copy_for_savepoint(Folder(store, "p"), Folder(target, "sp/spark"), 10)
    copied = list(target.walk("sp/spark"))
    assert sorted(e.path.removeprefix("sp/spark/") for e in copied) == sorted(files_needed(store, "p", 10))
    assert size_bytes == sum(e.size_bytes for e in copied)
    assert files_needed(target, "sp/spark", 10) == files_needed(store, "p", 10), "a copy of the copy is the same"
    named = len(target.spark_path("sp/spark")) - len(store.spark_path("q"))
    assert copy_for_savepoint(Folder(store, "p"), Folder(store, "q"), 10) == size_bytes - named, (
        "one file names its place"
    )


class CutFirst(LocalStore):
    """Spark compacts and cuts a log of its source just before a copy takes a file of it."""

    def copy_from(self, source: Store, path: str, target: str) -> int:
        if path == "p/sources/0/20" and source.exists(path):
            for number in (20, 21, 22):
                source.delete(f"p/sources/0/{number}")
            source.replace("p/sources/0/29.compact", source.read("p/sources/0/19.compact"))
        return super().copy_from(source, path, target)


def test_a_log_that_is_cut_while_it_is_copied_is_looked_up_again(store: LocalStore, tmp_path: Path) -> None:
    rocks_directory(store)
    target = CutFirst(str(tmp_path / "elsewhere"))
    copy_for_savepoint(Folder(store, "p"), Folder(target, "sp/spark"), 10)
    assert files_needed(target, "sp/spark", 10) == files_needed(store, "p", 10)


def test_a_batch_that_is_not_committed_or_was_purged_cannot_be_copied(store: LocalStore) -> None:
    batches(store, 3)
    put(store, {"p/offsets/3": offsets(3)})
    assert code(lambda: copy_for_savepoint(Folder(store, "p"), Folder(store, "q"), 3)) == "PROGRESS_BATCH_MISSING"
    store.delete_many(["p/offsets/0", "p/commits/0"])  # as Spark does
    assert code(lambda: copy_for_savepoint(Folder(store, "p"), Folder(store, "q"), 1)) == "PROGRESS_BATCH_MISSING"
    assert copy_for_savepoint(Folder(store, "p"), Folder(store, "q"), 2) > 0


class Losing(LocalStore):
    """A file is gone when it is to be copied."""

    def copy_from(self, source: Store, path: str, target: str) -> int:
        if path.endswith("/7.changelog"):
            raise NotFound(path)
        return super().copy_from(source, path, target)


def test_a_needed_file_that_vanishes_fails_the_copy(tmp_path: Path) -> None:
    store = Losing(str(tmp_path / "storage"))
    rocks_directory(store)
    assert code(lambda: copy_for_savepoint(Folder(store, "p"), Folder(store, "q"), 10)) == "OBJECT_CORRUPT"


def test_a_new_lineage_starts_its_inboxes_from_empty_and_keeps_other_sources(store: LocalStore) -> None:
    batches(store, 1, "-", '{"logOffset":8}', "55", "-")
    put(store, {"p/offsets/1": offsets(1, '{"logOffset":12}', '{"logOffset":9}', "55", "-"), "p/commits/1": "v1\n{}"})
    put(
        store,
        {"p/sources/0/12": "v1\n" + entry(12, stamp_ms(12, 0)), "p/sources/1/9": "v1", "p/sources/2/0": "v1"},
    )
    starts = {0: InboxStart("file:///start/a", stamp_ms(0, 4)), 3: InboxStart("file:///start/b", stamp_ms(0, 5))}
    copy_for_lineage(Folder(store, "p"), Folder(store, "q"), 1, query_id=NEW_ID.format(1), inbox_sources=starts)
    assert json.loads(store.read("q/metadata")) == {"id": NEW_ID.format(1)}
    assert pd.read_offsets(store, "q", 0).sources == (None, '{"logOffset":8}', "55", None)
    assert pd.read_offsets(store, "q", 1).sources == ('{"logOffset":0}', '{"logOffset":9}', "55", None)
    assert [e.path for e in store.walk("q/sources")] == ["q/sources/0/0", "q/sources/1/9", "q/sources/2/0"]
    assert pd.inputs_of_sources(store, "q", 1) == (4,)
    assert store.read("p/offsets/1") == offsets(1, '{"logOffset":12}', '{"logOffset":9}', "55", "-")


def test_in_a_new_lineage_an_operator_names_the_files_of_its_own_folder(store: LocalStore) -> None:
    rocks_directory(store)
    copy_for_savepoint(Folder(store, "p"), Folder(store, "sp"), 10)
    assert store.read("sp/state/0/_metadata/v2/0").decode() == operator_metadata(store.spark_path("sp"))
    copy_for_lineage(Folder(store, "sp"), Folder(store, "q"), 10, query_id=NEW_ID.format(1), inbox_sources={})
    assert store.read("q/state/0/_metadata/v2/0").decode() == operator_metadata(store.spark_path("q"))
    for damaged in ("v2", "v2\n[]", "v2\n{}"):
        put(store, {"sp/state/0/_metadata/v2/0": damaged})
        assert code(
            lambda: copy_for_lineage(
                Folder(store, "sp"), Folder(store, "r"), 10, query_id=NEW_ID.format(2), inbox_sources={}
            )
        ) == ("OBJECT_CORRUPT")


def test_a_lineage_before_the_first_batch_is_empty_but_for_its_id(store: LocalStore) -> None:
    copy_for_lineage(Folder(store, "p"), Folder(store, "q"), -1, query_id=NEW_ID.format(1), inbox_sources={})
    assert [e.path for e in store.walk("q")] == ["q/metadata"]


def test_only_the_source_logs_of_inboxes_are_cut(store: LocalStore) -> None:
    batches(store, 60)
    for source in (0, 1):
        put(store, {f"p/sources/{source}/{name}": data for name, data in inbox_log(53, 1).items()})
    other = store.names("p/sources/1")
    SourceLogs(store, "p", None).cut((1, None, 1), ('{"logOffset":52}',) * 3)
    # With one compaction alone Spark would guess how often to compact, and for the second one guess wrong.
    assert store.names("p/sources/0") == ["39.compact", "49.compact", "50", "51", "52"]
    entries = pd.file_log(store.read("p/sources/0/49.compact"), "")
    assert entries and [e["batchId"] for e in entries] == list(range(39, 50))
    assert store.names("p/sources/1") == other
    assert pd.inputs_of_sources(store, "p", 1) == (1,)
