"""The driver from a start to each of its ends, with a fake query and fake sinks."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rekindle.errors import ControlError, InputError, JobError, RekindleError, StorageError
from rekindle.storage import layout
from rekindle.storage.documents.runs import Run
from rekindle.storage.forwarding import ForwardingStore
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.liveness import this_process
from rekindle.storage.local import LocalStore
from rekindle.testing.fake_sink import FakeSink
from tests.claims import claim
from tests.runtime.kit import HURRY, JOB, NEVER, OFTEN, Faulty, Refusal, World, ended, until


class Looked(LocalStore):
    """A store that says what is listed before it is and what was found, and lets a test say what is there."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.listed: Callable[[str], None] = lambda folder: None
        self.found: Callable[[str, list[str]], None] = lambda folder, names: None
        self.is_there: Callable[[str], bool] = lambda path: True

    def names(self, folder: str) -> list[str]:
        self.listed(folder)
        names = super().names(folder)
        self.found(folder, names)
        return names

    def exists(self, path: str) -> bool:
        return self.is_there(path) and super().exists(path)


def code(error: dict[str, Any] | None) -> str | None:
    return error["code"] if error else None


def fence(world: World) -> int:
    """Another driver claims the next run."""
    process = this_process()._asdict()
    return claim(world.storage, lambda number: Run(run=number, started_ms=0, lineage=1, **process)).run


# -- ends -------------------------------------------------------------------------------------------------------------


def test_a_job_whose_input_ends_flushes_its_state_and_ends_with_one_checkpoint(world: World) -> None:
    world.rows.available = 20

    result = world.run(**NEVER)

    assert (result.state, result.error, result.checkpoint) == ("FINISHED", None, 1)
    assert world.all_committed()
    assert [manifest.kind for manifest in world.manifests()] == ["final"]
    assert world.manifests()[0].finished_tasks == ("task",)
    status = world.storage.status()
    assert status is not None and status.state == "FINISHED" and status.tasks[0].status == "closed"


def test_a_job_without_a_row_ends_too(world: World) -> None:
    assert world.run(**NEVER).state == "FINISHED"
    assert world.all_committed()


def test_a_stopped_job_keeps_its_state_and_goes_on_without_reading_anything_again(world: World) -> None:
    world.rows.available, world.rows.ended = 10, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 10)
    answer = handle.stop()
    assert ended(handle).state == answer.state == "STOPPED"
    assert sorted(world.sinks["out"].rows) == list(range(8)), "the last two are in its state"
    assert world.manifests()[-1].kind == "stop" and not world.manifests()[-1].drained
    records = world.records()

    world.rows.available, world.rows.ended = 15, True
    assert world.run(**NEVER).state == "FINISHED"

    assert world.all_committed()
    assert {batch: record for batch, record in world.records().items() if batch in records} == records


def test_a_drained_job_has_emitted_everything_and_says_what_it_left_unread(world: World) -> None:
    world.rows.available, world.rows.ended = 10, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 10)

    answer = handle.stop(drain=True)

    result = ended(handle)
    assert (result.state, result.notes) == ("DRAINED", ("numbers: some was not read",))
    assert answer.notes == result.notes
    assert world.all_committed()
    assert world.manifests()[-1].drained


def test_a_savepoint_and_a_stop_with_one_name_the_same_cut_and_no_transaction(world: World, tmp_path: Path) -> None:
    world.rows.available, world.rows.ended = 10, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 10)
    first = handle.savepoint(str(tmp_path / "savepoints")).path
    answer = handle.stop(savepoint=str(tmp_path / "savepoints"))
    result = ended(handle)

    assert result.savepoint == answer.savepoint is not None
    for path in (first, result.savepoint):
        assert '"savepoint": true' in Path(path, "manifest.json").read_text()
        assert '"transactions": {}' in Path(path, "manifest.json").read_text()
        assert Path(path, "tasks/task/0/spark/commits").is_dir()
    assert [manifest.kind for manifest in world.manifests()] == ["savepoint", "stop"]


def test_a_savepoint_of_which_a_part_is_missing_is_refused_before_anything_is_written(
    world: World, tmp_path: Path
) -> None:
    world.rows.available, world.rows.ended = 10, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 10)
    path = handle.stop(savepoint=str(tmp_path / "savepoints")).savepoint
    assert path is not None
    assert world.launch(**NEVER).prepare(path) is None
    manifest = Path(path, "manifest.json")
    made = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**made, "size_bytes": made["size_bytes"] + 10_000}))  # as if a file were not there
    before = world.files()

    with pytest.raises(StorageError, match=r"is damaged: it has \d+ bytes, and was made with \d+") as refused:
        world.launch(**NEVER).prepare(path)

    assert refused.value.code == "OBJECT_CORRUPT"
    assert world.files() == before


def test_a_second_stop_is_answered_like_the_first_and_another_stop_is_refused(world: World) -> None:
    world.rows.available, world.rows.ended = 4, False
    held = threading.Event()
    world.before["suspend"] = lambda: held.wait(30) and None
    handle = world.start(**NEVER)
    until(lambda: world.read() == 4)
    answers: list[Any] = []
    stops = [threading.Thread(target=lambda: answers.append(handle.stop())) for _ in range(2)]
    for stop in stops:
        stop.start()
    until(lambda: handle.status().state == "STOPPING" and len(world.storage.control().requests) == 2)

    with pytest.raises(ControlError, match="STOP_REFUSED"):
        handle.stop(drain=True)
    with pytest.raises(ControlError, match="CHECKPOINT_REFUSED"):
        handle.checkpoint()
    held.set()

    assert ended(handle).state == "STOPPED"
    for stop in stops:
        stop.join(10)
    assert [(answer.state, answer.checkpoint) for answer in answers] == [("STOPPED", 1)] * 2


def test_cancel_is_durable_while_an_order_hangs_and_the_stop_that_waits_hears_of_it(world: World) -> None:
    world.rows.available, world.rows.ended = 4, False
    held = threading.Event()
    world.before["suspend"] = lambda: held.wait(30) and None
    handle = world.start(**NEVER)
    until(lambda: world.read() == 4)
    told: list[RekindleError] = []

    def stop() -> None:
        with pytest.raises(ControlError) as caught:
            handle.stop()
        told.append(caught.value)

    waiting = threading.Thread(target=stop)
    waiting.start()
    until(lambda: handle.status().state == "STOPPING")

    handle.cancel()

    assert world.storage.state() == "CANCELED"
    assert not held.is_set()
    assert ended(handle).state == "CANCELED"
    waiting.join(10)
    assert [error.code for error in told] == ["CANCELED_MEANWHILE"]
    held.set()
    world.before.clear()
    world.rows.ended = True
    assert world.run(**NEVER).state == "FINISHED"
    assert world.all_committed()


def test_a_job_in_which_everything_has_finished_ends_at_once(world: World) -> None:
    world.rows.available = 10
    refuse = Faulty(1, StorageError("STORAGE_UNAVAILABLE", uri="x", reason="away"))
    with pytest.raises(StorageError):
        world.run(lambda name: refuse() if name == "result.create/before" else None, **NEVER)
    assert world.manifests()[-1].kind == "final"
    world.storage.store.delete(layout.result(JOB, 1))  # the driver that failed may have left its word
    world.before["start"] = Faulty(1000)

    result = world.run(**NEVER)

    assert (result.state, result.run) == ("FINISHED", 2)
    assert len(world.manifests()) == 1, "nothing was left to checkpoint"
    assert world.all_committed()


def test_a_drain_that_a_crash_cut_short_is_carried_through(world: World) -> None:
    world.rows.available, world.rows.ended = 10, False
    refuse = Faulty(1000, StorageError("STORAGE_UNAVAILABLE", uri="x", reason="away"))
    handle = world.start(lambda name: refuse() if name == "end.create/before" else None, **NEVER)
    until(lambda: world.read() == 10)
    with pytest.raises(RekindleError):
        handle.stop(drain=True)
    assert code(ended(handle).error) == "RESTARTS_EXHAUSTED"
    world.rows.available = 30

    result = world.run(**NEVER)

    assert result.state == "DRAINED"
    assert sorted(world.sinks["out"].rows) == list(range(10)), "nothing is read once a drain has begun"


def test_a_drain_that_a_batch_fails_says_so_and_reads_it_once_the_cause_is_gone(world: World) -> None:
    world.rows.available, world.rows.ended = 10, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 10)
    away = threading.Event()

    def fail() -> None:
        if not away.is_set():
            raise StorageError("STORAGE_UNAVAILABLE", uri="x", reason="away")

    world.before["batch"] = fail
    world.rows.available = 12
    until(lambda: handle.status().restarts > 0)

    with pytest.raises(ControlError, match="away") as drain:
        handle.stop(drain=True)

    assert drain.value.code == "DRAIN_FAILING"
    away.set()
    handle.stop(drain=True)
    assert ended(handle).state == "DRAINED"
    assert sorted(world.sinks["out"].rows) == list(range(12))


# -- failures ---------------------------------------------------------------------------------------------------------


def test_a_failed_task_starts_again_and_loses_nothing(world: World) -> None:
    world.rows.available = 20
    world.before |= {"batch": Faulty(2), "start": Faulty(1), "finish": Faulty(1)}

    assert world.run(**NEVER).state == "FINISHED"
    assert world.all_committed()


def test_failures_in_a_row_end_the_job_and_a_later_run_goes_on(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.rows.available = 20
    batches = world.before["batch"] = Faulty(1000, ValueError("no such thing"))

    result = world.run(**NEVER, **{"restart.attempts": "3"})

    assert (result.state, code(result.error)) == ("FAILED", "RESTARTS_EXHAUSTED")
    assert result.error is not None
    assert result.error["parameters"]["attempts"] == batches.calls == 4
    assert "no such thing" in result.error["message"]
    said = [line for line in caplog.messages if line.startswith("Task ") and "no such thing" in line]
    assert len(said) == 4, "each failure is logged: by default a task is tried again for ever"
    assert world.storage.state() == "FAILED"
    world.before.clear()
    assert world.run(**NEVER).state == "FINISHED"
    assert world.all_committed()


class SpeechlessError(Exception):
    """An error of a user's class that fails to say what it is."""

    def __str__(self) -> str:
        raise KeyError("reason")


@pytest.mark.parametrize("where", ["start", "finish", "commit"])
def test_an_error_that_cannot_say_what_it_is_fails_a_task_like_any_other(world: World, where: str) -> None:
    world.rows.available = 20
    breaks = world.sinks["out"].before if where == "commit" else world.before
    breaks[where] = Faulty(1000, SpeechlessError())

    result = world.run(**NEVER, **{"restart.attempts": "1"})

    assert result.state == "FAILED"
    assert result.error is not None and result.error["message"].endswith("SpeechlessError")


def test_a_failure_that_repeating_cannot_mend_ends_the_job_at_once_under_its_own_name(world: World) -> None:
    world.rows.available = 20
    starts = world.before["start"] = Faulty(1000, InputError("PATH_MISSING", source="numbers", path="/nowhere"))

    result = world.run(**NEVER)

    assert code(result.error) == "PATH_MISSING"
    assert starts.calls == 1


def test_a_failed_commit_is_repeated_until_it_succeeds(world: World) -> None:
    world.rows.available = 20
    world.sinks["second"].before["commit"] = Faulty(3)

    assert world.run(**NEVER).state == "FINISHED"
    assert world.all_committed()


def test_a_commit_that_never_succeeds_fails_the_job_and_a_later_run_begins_with_it(world: World) -> None:
    world.rows.available = 20
    world.sinks["second"].before["commit"] = Faulty(1000, ConnectionError("no database"))

    result = world.run(**NEVER, **{"restart.attempts": "2"})

    assert (result.state, code(result.error)) == ("FAILED", "SINK_COMMIT_FAILED")
    assert result.error is not None
    assert result.error["parameters"]["sink"] == "second"
    assert "no database" in result.error["message"]
    world.sinks["second"].before.clear()
    assert world.run(**NEVER).state == "FINISHED"
    assert world.all_committed()
    assert set(world.sinks["second"].permits) == {1}


def test_a_checkpoint_that_fails_starts_the_tasks_again_and_the_job_goes_on(world: World) -> None:
    world.rows.available = 20
    refused = StorageError("STORAGE_UNAVAILABLE", uri="x", reason="away")
    snapshots = world.before["snapshot"] = Faulty(3, refused)

    assert world.run(**OFTEN).state == "FINISHED"
    assert snapshots.calls > 3
    assert world.all_committed()


def test_checkpoints_that_keep_failing_fail_the_job(world: World) -> None:
    world.rows.available, world.rows.ended = 20, False
    refused = StorageError("STORAGE_UNAVAILABLE", uri="x", reason="away")
    world.before["snapshot"] = Faulty(1000, refused)

    result = world.run(**OFTEN, **{"checkpoint.tolerable_failures": "2", "restart.attempts": "1"})

    assert code(result.error) == "CHECKPOINTS_FAILING"
    assert result.error is not None and result.error["parameters"]["failures"] == 3
    assert "CHECKPOINT_DECLINED" in result.error["message"]
    world.before.clear()
    world.rows.ended = True
    assert world.run(**NEVER).state == "FINISHED"
    assert world.all_committed()


def test_a_stop_whose_savepoint_fails_is_given_up_and_the_job_goes_on(world: World, tmp_path: Path) -> None:
    world.rows.available, world.rows.ended = 4, False
    (tmp_path / "file").write_text("in the way")
    handle = world.start(**NEVER)
    until(lambda: world.read() == 4)

    with pytest.raises(ControlError, match="STOP_FAILED") as stop:
        handle.stop(savepoint=str(tmp_path / "file"))
    with pytest.raises(ControlError, match="SAVEPOINT_FAILED"):
        handle.savepoint(str(tmp_path / "file"))

    assert stop.value.code == "STOP_FAILED"
    world.rows.available = 9
    until(lambda: world.read() == 9)
    handle.stop(drain=True)
    assert ended(handle).state == "DRAINED"
    assert world.all_committed()


def test_a_stop_that_fails_after_its_savepoint_says_so_in_its_answer_and_in_the_result(
    world: World, tmp_path: Path
) -> None:
    world.rows.available, world.rows.ended = 4, False
    world.before["close"] = Faulty(1000)
    handle = world.start(**NEVER)
    until(lambda: world.read() == 4)

    with pytest.raises(ControlError) as caught:
        handle.stop(savepoint=str(tmp_path / "savepoints"))

    result = ended(handle)
    assert caught.value.code == code(result.error) == "STOP_FAILED_AFTER_SAVEPOINT"
    assert result.state == "FAILED"
    assert result.savepoint == caught.value.parameters["savepoint"] is not None
    assert Path(result.savepoint, "manifest.json").exists()


# -- the storage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refused", ["STORAGE_FULL", "STORAGE_READ_ONLY"])
def test_a_storage_that_refuses_writes_ends_the_driver_and_a_later_run_goes_on(world: World, refused: str) -> None:
    world.rows.available, world.rows.ended = 10, False
    refusal = Refusal()
    handle = world.start(refusal, **OFTEN)
    until(lambda: world.read() == 10 and handle.status().checkpoints_completed > 0)

    refusal.error = StorageError(refused, uri=world.location, reason="injected")
    world.rows.available = 12  # a job that is at rest has nothing to write
    with pytest.raises(StorageError) as caught:
        ended(handle)

    assert caught.value.code == refused
    world.rows.available, world.rows.ended = 15, True
    assert world.run(**OFTEN).state == "FINISHED"
    assert world.all_committed()


def test_what_no_one_has_foreseen_ends_the_driver_and_is_recorded_and_a_later_run_goes_on(world: World) -> None:
    world.rows.available, world.rows.ended = 10, False
    world.store = store = Looked(world.location)
    handle = world.start(**NEVER)
    until(lambda: world.read() == 10)

    def listed(folder: str) -> None:
        if folder == layout.control(JOB):
            store.listed = lambda folder: None
            raise KeyError("no such luck")

    store.listed = listed
    with pytest.raises(JobError) as caught:
        ended(handle)

    assert caught.value.code == "DRIVER_FAILED" and isinstance(caught.value.__cause__, KeyError)
    assert caught.value.parameters == {"job": JOB, "reason": "KeyError: 'no such luck'"}
    result = world.storage.result(1)
    assert result is not None and (result.state, code(result.error)) == ("FAILED", "DRIVER_FAILED")
    world.rows.available, world.rows.ended = 15, True
    assert world.run(**OFTEN).state == "FINISHED"
    assert world.all_committed()


def test_a_disk_that_is_full_for_a_while_is_survived_where_the_tries_have_no_end(world: World) -> None:
    world.rows.available, world.rows.ended = 4, False
    full, refused = Refusal(), Faulty(0)

    def steps(name: str) -> None:
        try:
            full(name)
        except StorageError:
            refused()
            raise

    handle = world.start(steps, **{**OFTEN, "restart.attempts": "unlimited"})
    until(lambda: world.read() == 4 and handle.status().checkpoints_completed > 0)
    full.error = StorageError("STORAGE_FULL", uri=world.location, reason="injected")
    world.rows.available = 10
    until(lambda: refused.calls > 20)
    assert handle.is_running()

    full.error = None
    world.rows.ended = True

    assert ended(handle).state == "FINISHED"
    assert world.all_committed()


def test_a_job_that_ends_because_the_disk_is_full_says_so_with_the_room_that_it_has_kept(world: World) -> None:
    world.rows.available, world.rows.ended = 4, False
    full, reserve = Refusal(), Path(world.location, layout.reserve("job"))

    def steps(name: str) -> None:
        if reserve.exists() or not name.startswith("result"):
            full(name)

    handle = world.start(steps, **{**NEVER, "restart.attempts": "0"})
    until(lambda: world.read() == 4)
    assert reserve.stat().st_blocks, "it takes up room"
    full.error = StorageError("STORAGE_FULL", uri=world.location, reason="injected")
    world.rows.available = 10

    result = ended(handle)

    assert (result.state, result.error and "injected" in result.error["message"]) == ("FAILED", True)
    assert world.storage.state() == "FAILED" and not reserve.exists()
    full.error, world.rows.ended = None, True
    assert world.run().state == "FINISHED" and reserve.exists()
    assert world.all_committed()


def test_a_cancel_that_cannot_be_recorded_ends_the_driver_rather_than_be_forgotten(world: World) -> None:
    world.rows.available, world.rows.ended = 4, False
    full = Faulty(1000, StorageError("STORAGE_FULL", uri=world.location, reason="injected"))
    handle = world.start(lambda name: full() if name == "result.create/before" else None, **NEVER)
    until(lambda: world.read() == 4)

    with pytest.raises(ControlError, match="JOB_NOT_RUNNING"):
        handle.cancel()

    with pytest.raises(StorageError, match="STORAGE_FULL"):
        ended(handle)


def test_a_start_that_the_storage_refuses_leaves_no_thread(world: World) -> None:
    world.rows.available, world.rows.ended = 4, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 4)
    handle.stop()
    ended(handle)
    until(lambda: not any(thread.name in ("sinks", "savepoints") for thread in threading.enumerate()))

    class Away(ForwardingStore):
        """A storage that is away when the driver is made, after the claim."""

        def read(self, path: str) -> bytes:
            if path == layout.identity(JOB) and world.context is not None and world.context.run.run == 2:
                raise StorageError("STORAGE_UNAVAILABLE", uri=self.location, reason=path)
            return super().read(path)

    world.store = Away(world.store)  # type: ignore[assignment]
    with pytest.raises(StorageError):
        world.driver(**NEVER)

    assert not any(thread.name in ("sinks", "savepoints") for thread in threading.enumerate())


def test_a_storage_that_cannot_be_read_for_a_while_is_survived(world: World) -> None:
    world.store = store = Looked(world.location)
    world.rows.available, world.rows.ended = 4, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 4)
    away = Faulty(5, StorageError("STORAGE_UNAVAILABLE", uri="x", reason="away"))
    store.listed = lambda folder: away() if folder in (layout.control(JOB), layout.runs(JOB)) else None
    until(lambda: away.left == 0)

    assert handle.checkpoint().number == 1
    assert handle.stop().state == "STOPPED"


def test_a_job_that_is_deleted_while_it_runs_ends_under_that_name_and_records_nothing(
    world: World, tmp_path: Path
) -> None:
    world.rows.available, world.rows.ended = 4, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 4)

    Path(world.location).rename(tmp_path / "deleted")

    with pytest.raises(StorageError) as caught:
        ended(handle)
    assert caught.value.code == "STORAGE_GONE"
    assert caught.value.permanent
    assert world.storage.identity() is world.storage.result(1) is None
    (tmp_path / "deleted").rename(tmp_path / "back")
    world.storage = JobStorage(LocalStore(str(tmp_path / "back")), JOB)
    assert world.storage.result(1) is None, "it can go on, once it is back"


def test_a_job_that_is_deleted_and_begun_again_at_once_shares_nothing_with_the_driver_that_goes_on(
    world: World, tmp_path: Path
) -> None:
    world.pauses = replace(HURRY, heartbeat_s=3600)  # the first driver looks for nothing of itself
    world.rows.available, world.rows.ended = 4, False
    first = world.start(**NEVER)
    until(lambda: world.read() == 4)
    late = [layout.batch(world.folder, 0), layout.result(JOB, 2)]

    Path(world.location).rename(tmp_path / "deleted")
    for path in late:  # what it was about to write when the folder went
        (Path(world.location) / path).parent.mkdir(parents=True, exist_ok=True)  # or it just has
        (Path(world.location) / path).write_bytes(b"{}")
    world.sinks = {uid: FakeSink() for uid in world.sinks}
    world.rows.ended = True
    world.pauses = HURRY
    second = world.run()

    assert (second.state, world.all_committed()) == ("FINISHED", True)
    assert [run.run for run in [world.storage.latest_run()] if run] == [3], "a number that the first left no trace of"
    assert world.folder.endswith("/000003")
    with pytest.raises((ControlError, StorageError), match=r"DRIVER_FENCED|STORAGE_GONE"):
        ended(first)


@pytest.mark.parametrize("doing", ["fail", "checkpoint"])
def test_what_goes_wrong_because_the_job_is_deleted_is_not_blamed_on_anything_else(
    world: World, tmp_path: Path, doing: str
) -> None:
    world.pauses = replace(HURRY, heartbeat_s=3600 if doing == "fail" else 0.3)
    world.rows.available, world.rows.ended = 4, False
    handle = world.start(**(NEVER if doing == "fail" else {**OFTEN, "checkpoint.interval": "200 ms"}))
    until(lambda: world.read() == 4)

    Path(world.location).rename(tmp_path / "deleted")
    completed = handle.status().checkpoints_completed
    if doing == "fail":
        world.before["batch"] = Faulty(1000, InputError("FILE_VANISHED", source="s", path="p"))
        world.rows.available = 8

    with pytest.raises(StorageError, match="STORAGE_GONE"):
        ended(handle)
    assert handle.status().checkpoints_completed <= completed + 1  # one may have been at its commit point


def test_a_storage_in_which_the_job_seems_to_be_missing_for_a_moment_is_survived(world: World) -> None:
    world.store = store = Looked(world.location)
    world.rows.available, world.rows.ended = 4, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 4)
    away = StorageError("STORAGE_UNAVAILABLE", uri="x", reason="away")
    looks: list[bool | StorageError] = [False, False, away, False, False, True, False, away, away]

    def is_there(path: str) -> bool:
        look = looks.pop(0) if path == layout.identity(JOB) and looks else True
        if isinstance(look, StorageError):
            raise look
        return look

    store.is_there = is_there
    until(lambda: not looks)

    assert handle.checkpoint().number == 1
    assert handle.stop().state == "STOPPED"


def test_an_answer_that_the_storage_refuses_is_given_a_moment_later(world: World) -> None:
    world.rows.available, world.rows.ended = 4, False
    away = Faulty(3, StorageError("STORAGE_UNAVAILABLE", uri="x", reason="away"))
    handle = world.start(lambda name: away() if name == "answer.create/before" else None, **NEVER)
    until(lambda: world.read() == 4)

    assert handle.checkpoint().number == 1
    assert away.left == 0
    assert handle.stop().state == "STOPPED"


# -- fencing ----------------------------------------------------------------------------------------------------------


def test_a_driver_that_sees_a_newer_run_ends_and_writes_nothing_more(world: World) -> None:
    world.rows.available, world.rows.ended = 4, False
    others = {*threading.enumerate()}
    handle = world.start(**OFTEN)
    until(lambda: world.read() == 4)

    newer = fence(world)

    with pytest.raises(ControlError) as caught:
        ended(handle)
    assert caught.value.code == "DRIVER_FENCED"
    assert caught.value.parameters == {"run": 1, "job": JOB, "newer": newer}
    world.rows.available = 100
    before = world.files()
    assert world.storage.result(1) is None
    writers = {*threading.enumerate()} - others
    until(lambda: not any(one.is_alive() for one in writers))
    assert world.files() == before


def test_the_last_heartbeat_says_how_the_run_has_ended_until_the_next_one_is_claimed(world: World) -> None:
    world.rows.available = 20

    result = world.run(**NEVER)

    last = world.storage.status()
    assert last is not None and last.result is not None and last.result == world.storage.result(1)
    assert last.result.state == result.state
    fence(world)
    assert world.storage.status() == replace(last, result=None)


def test_a_fenced_driver_answers_no_request_and_leaves_no_heartbeat(world: World) -> None:
    world.store = store = Looked(world.location)
    world.rows.available, world.rows.ended = 4, False
    after: list[str] = []  # what the loop looks at, or is about to write, after it has seen the newer run
    seen = threading.Event()

    def noted(what: str) -> None:
        if seen.is_set() and threading.current_thread().name.startswith("driver-"):
            after.append(what)

    def listed(folder: str) -> None:
        if folder == layout.control(JOB):
            noted("control")

    def found(folder: str, names: list[str]) -> None:
        if folder == layout.runs(JOB) and len(names) > 1:
            seen.set()

    store.listed, store.found = listed, found
    handle = world.start(noted, **NEVER)
    until(lambda: world.read() == 4)
    fence(world)

    with pytest.raises(ControlError, match="DRIVER_FENCED"):
        ended(handle)

    assert seen.is_set() and after == []


def test_a_driver_that_was_replaced_starts_no_query_even_before_it_has_noticed(world: World) -> None:
    world.store = store = Looked(world.location)
    world.pauses = replace(HURRY, control_s=3600, heartbeat_s=3600)  # it looks at the fence once, in the beginning
    world.rows.available, world.rows.ended = 4, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 4)
    asked: list[str] = []
    started = Faulty(0)

    def listed(folder: str) -> None:
        if folder == layout.runs(JOB):
            asked.append(threading.current_thread().name)

    store.listed = listed
    fence(world)
    world.before |= {"start": started, "batch": Faulty(1)}
    world.rows.available = 8
    until(lambda: any(name.startswith("task-") for name in asked))
    assert not any(name.startswith("driver-") for name in asked)

    with pytest.raises(ControlError, match="JOB_NOT_RUNNING"):
        handle.checkpoint()  # so it looks
    with pytest.raises(ControlError, match="DRIVER_FENCED"):
        ended(handle)
    assert started.calls == 0


class Dear(LocalStore):
    """A store of which each request costs."""

    pace = 10**9

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.beats = 0

    def replace(self, path: str, data: bytes) -> None:
        self.beats += path == layout.status(JOB)
        super().replace(path, data)


def test_on_a_store_where_a_look_is_dear_the_heart_beats_less_often(world: World) -> None:
    world.pauses = replace(HURRY, loop_s=0)
    world.store = store = Dear(world.location)
    world.rows.available = 20

    assert world.run(**NEVER).state == "FINISHED"
    assert store.beats == 3, "one in the beginning, one before the result and one in the end"


def _asked(handle: Any) -> None:
    with pytest.raises(RekindleError):
        handle.checkpoint()


def test_a_canceled_job_closes_its_sinks_before_it_returns(world: World) -> None:
    world.rows.available, world.rows.ended = 10, False
    ended_before: list[bool] = []

    def close() -> None:
        ended_before.append(handle.wait(0) is not None)

    world.sinks["out"].before["close"] = close
    handle = world.start(**NEVER)
    until(lambda: world.read() == 10)
    handle.cancel()

    assert ended(handle).state == "CANCELED"
    assert ended_before == [False]


@pytest.mark.usefixtures("leaving_soon")
def test_a_sink_is_not_closed_while_it_commits(world: World) -> None:
    world.rows.available, world.rows.ended = 9, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 9)
    calls: list[str] = []
    committing = threading.Event()

    def commit() -> None:
        calls.append("commit begins")
        committing.wait(10)
        calls.append("commit ends")

    world.sinks["out"].before["commit"] = commit
    world.sinks["out"].before["close"] = lambda: calls.append("close")
    threading.Thread(target=partial(_asked, handle), daemon=True).start()
    until(lambda: calls)
    handle.cancel()
    ended(handle)
    committing.set()
    until(lambda: len(calls) == 3)
    assert calls == ["commit begins", "commit ends", "close"]
