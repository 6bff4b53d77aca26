from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from rekindle.errors import DefinitionError, RestoreError, StorageError
from rekindle.storage import layout, read_layout
from rekindle.storage.checkpoint_documents import newest_checkpoint, read_manifest
from rekindle.storage.codec import encode
from rekindle.storage.disk import SYSTEM
from rekindle.storage.documents.batch import BatchRecord, ChannelPosition, Drain, End, InputPosition
from rekindle.storage.documents.checkpoint import Manifest, SubtaskSnapshot, Transaction
from rekindle.storage.documents.control import Answer, Request
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.runs import Identity, Result, Run
from rekindle.storage.documents.sources import FrozenFile, FrozenFiles
from rekindle.storage.documents.status import CREATED, LOST, RUNNING, Status
from rekindle.storage.forgetting import forget_job
from rekindle.storage.forwarding import ForwardingStore
from rekindle.storage.job_storage import JobStorage, jobs
from rekindle.storage.liveness import Process, this_process
from rekindle.storage.local import LocalStore
from rekindle.storage.run_documents import last_begun
from rekindle.testing.memory_store import MemoryStore
from tests.claims import claim

FOLDER = layout.subtask("job", "hourly", 0, 1)
GONE = Process("another-host", 1, "")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def storage(store: MemoryStore) -> JobStorage:
    return JobStorage(store, "job")


def ended_process() -> Process:
    """A process of this machine that is gone."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return this_process()._replace(pid=process.pid)


def make_run(number: int, process: Process | None = None) -> Run:
    return Run(run=number, started_ms=0, lineage=1, **(process or this_process())._asdict())


def make_status(run: int, beat: int = 1, process: Process | None = None) -> Status:
    return Status(
        job="job", state="STOPPING", run=run, beat=beat, written_ms=0, **(process or this_process())._asdict()
    )


def make_manifest(checkpoint: int, lineage: int = 1) -> Manifest:
    position = InputPosition(admission=3, offset={"a": [1, None]}, channels={1: ChannelPosition(batches=4, segment=2)})
    end = End(batch=9, run=1, drained=True, watermark_before_flush_ms=5, notes=("note",))
    snapshot = SubtaskSnapshot(batch=9, inputs={"live": position}, watermark_ms=17, end=end)
    transaction = Transaction(task="hourly", subtask=0, batch=9, committables=[{"file": "ü"}])
    return Manifest(
        checkpoint=checkpoint,
        job="job",
        kind="periodic",
        run=1,
        lineage=lineage,
        triggered_ms=1,
        completed_ms=2,
        graph={"hourly": ["live"]},
        tasks={"hourly": {0: snapshot}},
        finished_tasks=("hourly",),
        unread={"hourly": {"live": ((2, 4),)}},
        transactions={"out": [transaction]},
    )


def put_manifest(storage: JobStorage, manifest: Manifest) -> None:
    storage.create(layout.manifest(layout.checkpoint("job", manifest.checkpoint)), manifest)


def make_request(request_id: str, created_ms: int = 0) -> Request:
    return Request(id=request_id, run=1, verb="stop", created_ms=created_ms, drain=True, savepoint="/x")


class CutShort(ForwardingStore):
    """A store of a process that dies before it deletes the folder of the job, or several folders at once."""

    def delete_tree(self, folder: str) -> None:
        if folder != "job":
            super().delete_tree(folder)

    def delete_trees(self, folder: str, names: Collection[str]) -> None:
        """See above."""


# -- documents --------------------------------------------------------------------------------------------------------


def test_every_document_is_read_as_it_was_written(storage: JobStorage) -> None:
    run, status, manifest = make_run(1), make_status(1), make_manifest(7)
    files = FrozenFiles(source="live", files=(FrozenFile(path="file:///a%20b", size=3),), schema={"fields": []})
    record = BatchRecord(
        batch=2, offsets_hash="00", run=1, inputs={"live": InputPosition()}, committables={"out": [{}]}
    )
    answer = Answer(id="r", job="job", state="STOPPED", answered_ms=1, notes=("note",), error={"code": "X"})
    written = [
        (layout.identity("job"), Identity(job="job", created_ms=1), storage.identity),
        (layout.run("job", 1), run, lambda: storage.run(1)),
        (layout.result("job", 1), Result(run=1, state="STOPPED", ended_ms=1), lambda: storage.result(1)),
        (layout.lineage("job", 1), Lineage(lineage=1, run=1, created_ms=1), storage.lineage),
        (layout.frozen_files(layout.source("job", "live")), files, lambda: storage.frozen_files("live")),
        (layout.batch(FOLDER, 2), record, lambda: storage.record(FOLDER, 2)),
        (layout.end(FOLDER), End(batch=2, run=1, drained=False), lambda: storage.end(FOLDER)),
        (layout.drain(FOLDER), Drain(run=1, begun_ms=1), lambda: storage.drain(FOLDER)),
        (layout.manifest(layout.checkpoint("job", 7)), manifest, lambda: storage.manifest(7)),
        (layout.answer("job", "r"), answer, lambda: storage.answer_to("r")),
        (layout.status("job"), status, storage.status),
    ]
    for path, document, read in written:
        assert read() is None
        assert storage.create(path, document) is True
        assert read() == document


def test_a_document_is_created_once_and_the_loser_adopts_it(storage: JobStorage) -> None:
    path = layout.batch(FOLDER, 0)
    first = BatchRecord(batch=0, offsets_hash="a", run=1)
    second = replace(first, run=2)
    assert storage.adopt(path, first) == first
    assert storage.create(path, second) is False
    assert storage.adopt(path, second) == first
    assert storage.record(FOLDER, 0) == first


def test_adopting_what_is_deleted_meanwhile_writes_again(storage: JobStorage, store: MemoryStore) -> None:
    path = layout.batch(FOLDER, 0)
    mine = BatchRecord(batch=0, offsets_hash="a", run=1)
    create, answers = store.create, iter([False])
    store.create = lambda *given: next(answers, None) is None and create(*given)  # type: ignore[method-assign]
    assert storage.adopt(path, mine) == mine
    assert storage.record(FOLDER, 0) == mine


def test_replace_writes_over(storage: JobStorage) -> None:
    for beat in (1, 2):
        storage.replace(layout.status("job"), make_status(1, beat))
    status = storage.status()
    assert status is not None
    assert status.beat == 2


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "OBJECT_CORRUPT"),
        (b'{"format": 1', "OBJECT_CORRUPT"),
        (b"\xff\xfe", "OBJECT_CORRUPT"),
        (b"[]", "OBJECT_CORRUPT"),
        (b'{"format": 1, "job": 3, "created_ms": 0}', "OBJECT_CORRUPT"),
        (b'{"format": 1}', "OBJECT_CORRUPT"),
        (b'{"format": 2, "something": "else"}', "FORMAT_NEWER"),
    ],
)
def test_damaged_and_newer_documents_are_named_with_their_place(
    storage: JobStorage, store: MemoryStore, data: bytes, code: str
) -> None:
    store.create("job/job.json", data)
    with pytest.raises(StorageError) as caught:
        storage.identity()
    assert caught.value.code == code
    assert caught.value.parameters["path"] == "memory:/job/job.json"


@pytest.mark.parametrize("name", ["..", "a/b", "", ".hidden"])
def test_a_name_that_cannot_be_a_job_is_refused(store: MemoryStore, name: str) -> None:
    with pytest.raises(DefinitionError):
        JobStorage(store, name)


# -- runs and state ---------------------------------------------------------------------------------------------------


def test_runs_are_claimed_one_after_the_other(storage: JobStorage) -> None:
    assert storage.latest_run() is None
    assert [claim(storage, make_run).run for _ in range(12)] == list(range(1, 13))
    assert storage.latest_run() == storage.run(12)


def test_of_racing_drivers_each_gets_its_own_run_and_all_but_the_newest_are_fenced(storage: JobStorage) -> None:
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda pid: claim(storage, lambda n: replace(make_run(n), pid=pid)), range(64)))
    assert sorted(run.run for run in runs) == list(range(1, 65))
    for run in runs:
        assert storage.run(run.run) == run
        assert storage.fence.newer_than(run.run) == (64 if run.run < 64 else None)


def test_of_two_that_claim_one_number_the_second_is_refused(storage: JobStorage) -> None:
    assert storage.fence.claim(make_run(1))
    assert not storage.fence.claim(replace(make_run(1), pid=2))
    assert storage.run(1) == make_run(1)


def test_a_claim_takes_back_what_an_earlier_heartbeat_says_and_no_other(storage: JobStorage) -> None:
    claim(storage, make_run)
    first, second = (replace(make_status(number), state=RUNNING) for number in (1, 2))
    storage.replace(layout.status("job"), first)
    claim(storage, make_run)
    assert storage.status() == replace(first, state=LOST)
    storage.replace(layout.status("job"), second)
    assert not storage.fence.claim(replace(make_run(2), pid=2)), "it comes second"
    assert storage.status() == second


def test_a_run_that_ended_before_it_began_does_not_count(storage: JobStorage) -> None:
    assert last_begun(storage) == (None, None)
    for number in (1, 2, 3):
        storage.fence.claim(make_run(number))
    finished = Result(run=1, state="FINISHED", ended_ms=0)
    storage.create(layout.result("job", 1), finished)
    assert last_begun(storage) == (make_run(3), None)
    storage.create(layout.result("job", 3), Result(run=3, state="FAILED", ended_ms=0, began=False))
    assert last_begun(storage) == (make_run(2), None)
    assert last_begun(storage, before=2) == (make_run(1), finished)


def test_results_are_not_taken_for_runs(storage: JobStorage) -> None:
    claim(storage, make_run)
    storage.create(layout.result("job", 1), Result(run=1, state="FINISHED", ended_ms=0))
    assert storage.fence.newer_than(1) is None
    assert claim(storage, make_run).run == 2


def test_a_job_without_a_run_is_created(storage: JobStorage) -> None:
    storage.create(layout.identity("job"), Identity(job="job", created_ms=0))
    assert storage.state() == CREATED


def test_a_job_is_running_from_its_claim_on_before_the_first_heartbeat(storage: JobStorage) -> None:
    claim(storage, make_run)
    assert storage.state() == RUNNING
    storage.replace(layout.status("job"), make_status(1))
    assert storage.state() == RUNNING


def test_the_state_is_that_of_the_latest_run(storage: JobStorage) -> None:
    claim(storage, make_run)
    storage.create(layout.result("job", 1), Result(run=1, state="STOPPED", ended_ms=0))
    assert storage.state() == "STOPPED"
    claim(storage, make_run)
    assert storage.state() == RUNNING
    storage.create(layout.result("job", 2), Result(run=2, state="FAILED", ended_ms=0))
    assert storage.state() == "FAILED"


def test_a_heartbeat_of_an_earlier_run_says_nothing_of_this_one(storage: JobStorage) -> None:
    dead = ended_process()
    claim(storage, make_run)
    storage.replace(layout.status("job"), make_status(1))
    run = claim(storage, lambda number: make_run(number, dead))
    assert storage.driver() == run
    assert storage.state() == LOST


def test_a_driver_killed_on_this_machine_is_lost_at_once(storage: JobStorage) -> None:
    dead = ended_process()
    claim(storage, lambda number: make_run(number, dead))
    storage.replace(layout.status("job"), make_status(1, process=dead))
    assert storage.state() == LOST


def test_a_driver_on_another_machine_is_running_until_two_reads_show_the_same_beat(storage: JobStorage) -> None:
    claim(storage, lambda number: make_run(number, GONE))
    started = storage.driver()
    assert storage.state() == RUNNING
    storage.replace(layout.status("job"), make_status(1, 1, GONE))
    assert storage.state(started) == RUNNING
    earlier = storage.driver()
    storage.replace(layout.status("job"), make_status(1, 2, GONE))
    assert storage.state(earlier) == RUNNING
    assert storage.state(storage.driver()) == LOST


def test_the_lineage_in_force_is_the_highest(storage: JobStorage) -> None:
    assert storage.lineage() is None
    for number in (1, 2, 10):
        storage.create(layout.lineage("job", number), Lineage(lineage=number, run=number, created_ms=0))
    lineage = storage.lineage()
    assert lineage is not None
    assert lineage.lineage == 10


# -- records and checkpoints ------------------------------------------------------------------------------------------


def test_records_are_listed_by_number_and_the_last_is_the_highest(storage: JobStorage, store: MemoryStore) -> None:
    assert storage.records(FOLDER) == []
    assert storage.last_record(FOLDER) is None
    for batch in (10, 9, 11, 1_000_000_000):
        storage.create(layout.batch(FOLDER, batch), BatchRecord(batch=batch, offsets_hash="", run=1))
    store.create(f"{layout.batches(FOLDER)}/notes.txt", b"")
    storage.create(
        layout.batch(layout.subtask("job", "hourly", 0, 2), 99), BatchRecord(batch=99, offsets_hash="", run=1)
    )
    assert storage.records(FOLDER) == [9, 10, 11, 1_000_000_000]
    last = storage.last_record(FOLDER)
    assert last is not None
    assert last.batch == 1_000_000_000


def test_manifests_come_newest_first_without_checkpoints_that_never_completed(
    storage: JobStorage, store: MemoryStore
) -> None:
    for number in (9, 10, 2):
        put_manifest(storage, make_manifest(number))
    store.create(f"{layout.checkpoint('job', 11)}/half", b"")
    assert [manifest.checkpoint for manifest in storage.manifests()] == [10, 9, 2]


def test_the_latest_manifest_is_of_the_lineage_asked_for(storage: JobStorage) -> None:
    for number, lineage in ((1, 1), (2, 1), (3, 2)):
        put_manifest(storage, make_manifest(number, lineage))
    assert storage.latest_manifest(1) == make_manifest(2, 1)
    assert storage.latest_manifest(2) == make_manifest(3, 2)
    assert storage.latest_manifest(3) is None


def test_an_old_damaged_manifest_does_not_hide_the_latest(storage: JobStorage, store: MemoryStore) -> None:
    store.create(layout.manifest(layout.checkpoint("job", 1)), b"damaged")
    put_manifest(storage, make_manifest(2))
    assert storage.latest_manifest(1) == make_manifest(2)
    with pytest.raises(StorageError):
        storage.manifests()


@pytest.mark.parametrize("folder", ["", "savepoints/one", layout.checkpoint("job", 3)])
def test_a_manifest_is_read_from_any_folder(store: MemoryStore, folder: str) -> None:
    with pytest.raises(RestoreError) as caught:
        read_manifest(store, folder)
    assert caught.value.code == "CHECKPOINT_UNKNOWN"
    assert caught.value.parameters["path"] == f"memory:/{folder}".rstrip("/")
    store.create(layout.manifest(folder), encode(make_manifest(3)))
    assert read_manifest(store, folder) == make_manifest(3)


@pytest.mark.parametrize(
    ("change", "code"), [({"format": 2, "tasks": 1}, "FORMAT_NEWER"), ({"tasks": 1}, "OBJECT_CORRUPT")]
)
def test_a_manifest_that_is_damaged_or_newer_is_refused(
    store: MemoryStore, change: dict[str, object], code: str
) -> None:
    store.create("s/manifest.json", json.dumps(json.loads(encode(make_manifest(3))) | change).encode())
    with pytest.raises(StorageError) as caught:
        read_manifest(store, "s")
    assert caught.value.code == code
    assert caught.value.next_step


# -- requests ---------------------------------------------------------------------------------------------------------


def test_requests_are_those_without_an_answer_oldest_first(storage: JobStorage) -> None:
    for request_id, created_ms in (("b", 1), ("c", 3), ("a", 2)):
        storage.create(layout.request("job", request_id), make_request(request_id, created_ms))
    assert [request.id for request in storage.control().requests] == ["b", "a", "c"]
    storage.answer(Answer(id="a", job="job", state="RUNNING", answered_ms=0))
    assert [request.id for request in storage.control().requests] == ["b", "c"]


def test_the_first_answer_stands(storage: JobStorage) -> None:
    first = Answer(id="a", job="job", state="STOPPED", answered_ms=0, savepoint="/x")
    assert storage.answer(first) == first
    assert storage.answer(replace(first, state="FAILED", savepoint=None)) == first
    assert storage.answer_to("a") == first


def test_requests_that_cannot_be_read_are_set_apart_and_can_be_answered(
    storage: JobStorage, store: MemoryStore
) -> None:
    storage.create(layout.request("job", "good"), make_request("good"))
    storage.create(layout.request("job", "posing"), make_request("../other"))
    store.create(layout.request("job", "newer"), b'{"format": 2}')
    store.create(layout.request("job", "damaged"), b"")
    assert [request.id for request in storage.control().requests] == ["good"]
    codes = {request_id: error.code for request_id, error in storage.control().unreadable.items()}
    assert codes == {"posing": "OBJECT_CORRUPT", "newer": "FORMAT_NEWER", "damaged": "OBJECT_CORRUPT"}
    for request_id in codes:
        storage.answer(Answer(id=request_id, job="job", state="RUNNING", answered_ms=0))
    assert storage.control().unreadable == {}


def test_a_request_that_cannot_be_read_is_not_taken_for_a_damaged_one_and_hides_no_other(
    storage: JobStorage, store: MemoryStore
) -> None:
    for one in ("a", "b"):
        storage.create(layout.request("job", one), make_request(one))

    def unavailable(path: str) -> bytes:
        if path == layout.request("job", "a"):
            raise StorageError("STORAGE_UNAVAILABLE", uri=store.location, reason=path)
        return MemoryStore.read(store, path)

    store.read = unavailable  # type: ignore[method-assign]
    found = storage.control()
    assert [request.id for request in found.requests] == ["b"]
    assert not found.unreadable
    assert {one: error.code for one, error in found.refused.items()} == {"a": "STORAGE_UNAVAILABLE"}


# -- jobs and forgetting ----------------------------------------------------------------------------------------------


def test_jobs_are_the_folders_with_an_identity(store: MemoryStore) -> None:
    for name in ("b", "a"):
        JobStorage(store, name).create(layout.identity(name), Identity(job=name, created_ms=0))
    store.create("savepoint/manifest.json", b"")
    store.create("notes.txt", b"")
    assert jobs(store) == ["a", "b"]


def test_a_forgotten_checkpoint_is_gone_and_half_way_it_is_no_checkpoint(
    storage: JobStorage, store: MemoryStore
) -> None:
    for number in (1, 2):
        put_manifest(storage, make_manifest(number))
        store.create(f"{layout.checkpoint('job', number)}/more", b"")
    JobStorage(CutShort(store), "job").forget_checkpoints([1])
    assert [manifest.checkpoint for manifest in storage.manifests()] == [2]
    storage.forget_checkpoints([1])
    assert store.names(layout.checkpoints("job")) == ["000000002"]


def test_a_forgotten_job_is_gone_and_half_way_it_can_be_forgotten_again(
    storage: JobStorage, store: MemoryStore
) -> None:
    other = JobStorage(store, "job2")
    for each in (storage, other):
        each.create(layout.identity(each.job), Identity(job=each.job, created_ms=0))
        each.record_result(Result(run=claim(each, make_run).run, state="STOPPED", ended_ms=0))
        each.create(
            layout.batch(layout.subtask(each.job, "hourly", 0, 1), 1), BatchRecord(batch=1, offsets_hash="", run=1)
        )
    forget_job(JobStorage(CutShort(store), "job"), 0)
    assert list(store.walk("job")) == [("job/job.json", len(store.read("job/job.json")))]
    forget_job(storage, 0)
    assert jobs(store) == ["job2"]
    assert store.names("") == ["job2"]
    assert other.latest_run() is not None


def test_reading_needs_no_heavy_module() -> None:
    code = (
        "import sys; import rekindle.storage.job_storage, rekindle.storage.open; "
        "print([m for m in ('pyspark', 'pyarrow', 'fsspec', 'pandas', 'numpy', 'asyncio') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_threads_that_read_a_kind_of_document_for_the_first_time_do_not_crash_python() -> None:
    """Python's own threads switch so often here that msgspec is met in the middle of making out a class."""
    code = """
import sys, threading
from dataclasses import make_dataclass
from rekindle.storage.codec import decode
sys.setswitchinterval(1e-6)
for _ in range(40):
    inner = make_dataclass("Inner", [("a", "dict[str, int]"), ("b", "tuple[str, ...]")])
    kind = make_dataclass("Outer", [(name, inner) for name in "abc"] + [("format", int)])
    part = '{"a": {"x": 1}, "b": ["y"]}'
    data = f'{{"a": {part}, "b": {part}, "c": {part}, "format": 1}}'.encode()
    threads = [threading.Thread(target=decode, args=(data, kind, "path")) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""
    run = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


def test_a_damaged_heartbeat_counts_for_none(storage: JobStorage) -> None:
    storage.store.replace(layout.status(storage.job), b"{half")
    assert storage.status() is None


def test_a_run_is_gone_where_its_job_is_or_where_another_process_has_its_number(storage: JobStorage) -> None:
    run = replace(make_run(1), token="mine")
    storage.create(layout.identity("job"), Identity(job="job", created_ms=0))
    assert storage.fence.is_deleted(run)
    storage.create(layout.run("job", 1), run)
    assert not storage.fence.is_deleted(run)
    assert storage.fence.is_deleted(replace(run, token="another's")), "deleted, and begun again under the same number"
    storage.store.delete_tree(layout.identity("job"))
    assert storage.fence.is_deleted(run)


@pytest.mark.parametrize(
    ("left", "number"),
    [
        ([], 0),
        ([layout.result("job", 7)], 7),
        ([layout.batch(layout.subtask("job", "hourly", 1, 5), 3)], 5),
        ([read_layout.split_assignment(read_layout.splits("job", "hourly", 4, "source"), 1), layout.run("job", 2)], 4),
    ],
)
def test_the_highest_number_left_is_of_anything_that_a_run_writes(
    storage: JobStorage, left: list[str], number: int
) -> None:
    for path in left:
        storage.store.create(path, b"")
    assert storage.fence.highest_number_left() == number


def test_the_newest_checkpoint_is_found_without_reading_those_before(storage: JobStorage, store: MemoryStore) -> None:
    """A job may retain thousands of them, and each start asks for the newest."""
    read: list[str] = []

    class Noted(ForwardingStore):
        def read(self, path: str) -> bytes:
            read.append(path)
            return super().read(path)

    for number in range(1, 10):
        put_manifest(storage, make_manifest(number))
    storage.use_up(10, run=2)
    noted = JobStorage(Noted(store), storage.job)
    assert newest_checkpoint(noted) == 9
    assert len(read) == 2, "the number that is only used up, and the newest"
    assert noted.checkpoints() == [*range(9, 0, -1)]


def test_a_driver_that_hangs_while_it_creates_a_manifest_is_found_or_comes_too_late(tmp_path: Path) -> None:
    """In a directory the folder of the checkpoint is there first, and then the disk may take its time."""
    newer = JobStorage(LocalStore(str(tmp_path)), "job")
    for number in (1, 2):
        newer.create(layout.run("job", number), make_run(number))
        put_manifest(newer, make_manifest(number))

    def take_over(temporary: str, target: str) -> None:
        newer.fence_checkpoints(2)
        assert newest_checkpoint(newer) == 2
        SYSTEM.link(temporary, target)

    hanging = JobStorage(LocalStore(str(tmp_path), calls=SYSTEM._replace(link=take_over)), "job")
    assert not hanging.create(layout.manifest(layout.checkpoint("job", 3)), make_manifest(3))
    assert newest_checkpoint(newer) == 2
    assert newer.numbers_used() == [1, 2, 3], "its number is void"
