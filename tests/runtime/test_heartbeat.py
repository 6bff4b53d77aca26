"""What a driver shows of itself, and its history of checkpoints."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from itertools import count
from typing import Any, NoReturn

import pytest

from rekindle.config import Config
from rekindle.errors import InputError, StorageError
from rekindle.graph.job_graph import JobGraph, Source, Task
from rekindle.history import log
from rekindle.history.log import CHECKPOINTS
from rekindle.ids import SubtaskId
from rekindle.protocol import events as e
from rekindle.protocol.job import JobMachine
from rekindle.runtime.heartbeat import HISTORY, Heartbeat
from rekindle.storage import layout
from rekindle.storage.documents.checkpoint import Manifest
from rekindle.storage.documents.runs import Run
from rekindle.storage.documents.status import CheckpointStats, Status, TaskStatusDocument
from rekindle.storage.job_storage import JobStorage
from rekindle.testing.memory_store import MemoryStore
from tests.runtime.kit import NEVER, OFTEN, SOURCE, TASK, World, ended, until

TASKS = (SubtaskId("a", 0), SubtaskId("b", 0))
GRAPH = JobGraph(
    name="job",
    sources=(Source(uid="s", bounded=True),),
    tasks=tuple(Task(uid=task.task, inputs=("s",)) for task in TASKS),
)


class Refusing(MemoryStore):
    """A store that may be full."""

    refuses = False

    def replace(self, path: str, data: bytes) -> None:
        if self.refuses:
            raise StorageError("STORAGE_FULL", uri="x", reason="injected")
        super().replace(path, data)


class Told:
    """A job of two tasks and the heartbeat that listens to it, without a driver."""

    def __init__(
        self,
        store: MemoryStore | None = None,
        tolerable: str = "1000",
        since: int | None = None,
        runners: dict[SubtaskId, Any] | None = None,
        graph: JobGraph = GRAPH,
    ) -> None:
        self.storage = JobStorage(store or MemoryStore(), "job")
        config = Config.of({"checkpoint.interval": "0", "checkpoint.tolerable_failures": tolerable})
        self.job = JobMachine(graph, config)
        run = Run(run=1, started_ms=0, host="here", pid=1, lineage=1, since=since)
        clock = count(1_000, 10)
        self.heartbeat = Heartbeat(self.storage, run, self.job, runners or {}, lambda: next(clock), graph)
        self.requests = count()
        self(e.JobStarted(now_ms=500))
        for task in graph.subtasks():
            self(e.TaskStarted(task=task))

    def __call__(self, event: e.Event) -> None:
        self.heartbeat.heard(event)
        for command in self.job.handle(event):
            self.heartbeat.ordered(command)

    def ask(self) -> None:
        self(e.CheckpointRequested(request=str(next(self.requests))))

    @property
    def history(self) -> tuple[CheckpointStats, ...]:
        return self.heartbeat.status().history


class Reported:
    """As much of a runner as a heartbeat asks for: of its query Spark reports something sooner or later."""

    def __init__(self) -> None:
        self.state_bytes: int | None = None
        self.batch_so_far_ms: int | None = None

    def status(self) -> TaskStatusDocument:
        """See `TaskRunner`."""
        rate = None if self.state_bytes is None else 5.0
        return TaskStatusDocument(
            uid="a",
            subtask=0,
            status="",
            batch=0,
            rows_per_second=rate,
            state_bytes=self.state_bytes,
            batch_so_far_ms=self.batch_so_far_ms,
        )


def test_a_checkpoint_is_not_confirmed_while_a_batch_runs() -> None:
    reported = Reported()
    told = Told(runners={TASKS[0]: reported})
    told.job.coordinator.settlement.completed.confirmed_ms = told.job.now_ms
    idle = told.heartbeat.status()
    reported.batch_so_far_ms = 500
    busy = told.heartbeat.status()

    assert idle.latest_checkpoint_confirmed_ms is not None and busy.latest_checkpoint_confirmed_ms is not None
    assert idle.written_ms - idle.latest_checkpoint_confirmed_ms < 100
    assert busy.written_ms - busy.latest_checkpoint_confirmed_ms > 400


def test_a_snapshot_has_the_bytes_of_its_state_that_spark_has_reported_since_the_last_beat() -> None:
    reported = Reported()
    told = Told(runners={TASKS[0]: reported})
    told.heartbeat.beat()
    reported.state_bytes = 4_096
    told.ask()
    told(e.SnapshotTaken(task=TASKS[0], checkpoint=1))
    told(e.SnapshotTaken(task=TASKS[1], checkpoint=1))
    told(e.ManifestFailed(checkpoint=1, detail="full"))
    told.heartbeat.recorder.flush()

    (record,) = (one.row for one in log.read(told.storage, CHECKPOINTS))
    assert [part.state_bytes for part in record.subtasks] == [4_096, None]


class OldTimes:
    """A runner of which only the watermark is known: that of the last batch of its history."""

    def status(self) -> TaskStatusDocument:
        """See `TaskRunner`."""
        return TaskStatusDocument(uid="a", subtask=0, status="", batch=0, watermark=400)


def test_a_task_that_has_come_to_its_end_lags_no_longer() -> None:
    told = Told(runners={TASKS[0]: OldTimes()})
    lags = [task.lag_ms is not None for task in told.heartbeat.status().tasks]
    told(e.SourcesEnded(task=TASKS[0]))
    told(e.TaskFinished(task=TASKS[0], batch=0, drained=False))

    assert lags == [True, False]
    assert [task.lag_ms for task in told.heartbeat.status().tasks] == [None, None]


def manifest_of(checkpoint: int) -> Manifest:
    return Manifest(
        checkpoint=checkpoint,
        job="job",
        kind="manual",
        run=1,
        lineage=1,
        triggered_ms=1_000,
        completed_ms=1_200,
        graph={},
        tasks={},
    )


def test_a_checkpoint_is_in_progress_then_completed_with_its_duration_and_place() -> None:
    told = Told()
    told.ask()
    (stats,) = told.history
    assert (stats.id, stats.kind, stats.status, stats.acknowledged) == (1, "manual", "in_progress", (0, 2))
    assert stats.triggered_at >= 1_000
    assert (stats.duration_ms, stats.path, stats.failure) == (None, None, None)

    told(e.SnapshotTaken(task=TASKS[0], checkpoint=1))
    assert told.history[0].acknowledged == (1, 2)
    told(e.SnapshotTaken(task=TASKS[1], checkpoint=1))
    told.heartbeat.completed(manifest_of(1), 200)
    told(e.ManifestWritten(checkpoint=1))

    (stats,) = told.history
    assert (stats.status, stats.acknowledged, stats.path) == ("completed", (2, 2), "memory:/job/checkpoints/000000001")
    assert stats.duration_ms == 200
    status = told.heartbeat.status()
    assert (status.checkpoints_completed, status.checkpoints_failed, status.latest_checkpoint) == (1, 0, 1)
    assert status.latest_checkpoint_ms is not None and status.latest_checkpoint_ms > stats.triggered_at


def test_a_failed_checkpoint_stays_in_the_history_with_its_reason_newest_first() -> None:
    told = Told()
    told.ask()
    told(e.SnapshotDeclined(task=TASKS[0], checkpoint=1, detail="it said no"))
    told.ask()

    newest, failed = told.history
    assert (newest.id, newest.status) == (2, "in_progress")
    assert (failed.id, failed.status) == (1, "failed")
    assert failed.failure == "CHECKPOINT_DECLINED: a task declined it (it said no)"
    assert told.heartbeat.status().checkpoints_failed == 1


def test_the_history_is_bounded() -> None:
    told = Told()
    for number in range(1, HISTORY + 10):
        told.ask()
        told(e.SnapshotDeclined(task=TASKS[0], checkpoint=number, detail=""))
    assert [stats.id for stats in told.history] == list(range(HISTORY + 9, 9, -1))


def test_the_history_goes_on_from_run_to_run_and_what_was_in_progress_has_failed() -> None:
    store = MemoryStore()
    told = Told(store)
    told.ask()
    told.heartbeat.beat()

    later = Told(store)

    (stats,) = later.history
    assert (stats.status, stats.failure) == ("failed", "the driver ended")


def test_a_task_that_was_renamed_goes_on_counting() -> None:
    store = MemoryStore()
    told = Told(store)
    told(e.BatchRecorded(task=TASKS[0], batch=0, rows_out=7, read={}))
    told.heartbeat.beat()

    read, kept = GRAPH.tasks
    later = Told(store, graph=replace(GRAPH, tasks=(replace(read, uid="new", was=read.uid), kept)))

    shown = {task.uid: task for task in later.heartbeat.status().tasks}
    assert (shown["new"].batches, shown["new"].rows_out) == (1, 7)


def test_each_heartbeat_differs_from_the_one_before_and_a_refusing_storage_does_not_stop_it() -> None:
    told = Told(store := Refusing())
    told.heartbeat.beat()
    first = told.storage.status()
    told.heartbeat.beat()
    second = told.storage.status()
    assert isinstance(first, Status) and isinstance(second, Status)
    assert second.beat == first.beat + 1

    store.refuses = True
    told.heartbeat.beat()
    assert told.storage.status() == second


def test_the_status_of_a_running_job_tells_its_tasks_inputs_and_process(world: World) -> None:
    world.rows.available, world.rows.ended = 9, False
    handle = world.start(**OFTEN)
    until(lambda: world.read() == 9)
    until(lambda: (world.storage.status() or handle.status()).tasks[0].batch == 2)

    status, identity = world.storage.status(), world.storage.identity()

    assert status is not None and identity is not None
    assert status.identity == identity.id != ""
    assert (status.job, status.state, status.run) == ("job", "RUNNING", 1)
    (task,) = status.tasks
    assert (task.uid, task.subtask, task.status) == (TASK, 0, "running")
    assert task.inputs[SOURCE].position == {"read": 9} and not task.inputs[SOURCE].ended
    assert status.process_started and status.pid
    handle.stop(drain=True)
    ended(handle)
    after = world.storage.status()
    assert after is not None and after.state == "DRAINED" and after.beat > status.beat


def test_the_status_shows_that_a_task_waits_for_the_final_checkpoint(world: World) -> None:
    world.rows.available = 5
    hanging = threading.Event()
    world.sinks["out"].before["commit"] = lambda: hanging.wait(30) and None
    handle = world.start(**NEVER)

    until(lambda: handle.status().tasks[0].status == "waiting_for_final_checkpoint")
    until(lambda: [stats.kind for stats in handle.status().history] == ["final"])

    hanging.set()
    assert ended(handle).state == "FINISHED"


def test_a_task_whose_status_cannot_be_made_goes_on_and_the_log_says_it_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.rows.available, world.rows.ended = 5, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 5)
    assert world.runner is not None

    def unreadable() -> NoReturn:
        raise ValueError("a time of the year 12004")

    world.runner.status = unreadable  # type: ignore[method-assign]
    beat = handle.status().beat
    until(lambda: handle.status().beat > beat + 3)
    said = [record for record in caplog.records if "cannot be made" in record.getMessage()]
    until(lambda: handle.status().beat > beat + 9)

    assert said
    assert said == [record for record in caplog.records if "cannot be made" in record.getMessage()]
    assert [task.batch for task in handle.status().tasks] == [-1]
    assert handle.stop().state == "STOPPED"


def test_the_status_tells_the_last_failure_of_a_task_and_when_it_is_tried_again() -> None:
    told = Told()
    assert (told.heartbeat.status().failure, told.heartbeat.status().restarts) == (None, 0)

    told(e.TaskFailed(task=TASKS[0], reason="no such customer"))
    told(e.TaskFailed(task=TASKS[0], reason="its query was stopped from outside"))  # the same death, noticed again

    failed, other = told.heartbeat.status().tasks
    assert failed.failure is not None
    assert (failed.failure.code, failed.restarts) == ("TASK_FAILED", 1)
    assert failed.failure.message == "Task 'a/0' failed: no such customer" and failed.failure.next_step
    assert failed.next_attempt_ms is not None and failed.next_attempt_ms - failed.failure.failed_ms >= 1_000
    assert (other.failure, other.restarts, other.next_attempt_ms) == (None, 0, None)
    status = told.heartbeat.status()
    assert (status.failure, status.restarts) == (failed.failure, 1)
    assert status.next_attempt_ms is not None

    told(e.Ticked(now_ms=2_000))
    told(e.TaskStarted(task=TASKS[0]))
    known = InputError("FILE_UNREADABLE", source="s", path="p", reason="r")
    told(e.TaskFailed(task=TASKS[0], reason=str(known), error=(known.code, known.parameters)))

    status = told.heartbeat.status()
    assert status.failure is not None and status.failure == status.tasks[0].failure
    assert (status.failure.code, status.failure.message, status.restarts) == (known.code, known.message, 2)
    told(e.Ticked(now_ms=20_000))
    assert told.heartbeat.status().next_attempt_ms is None, "it is under way"


def test_the_status_tells_of_commits_and_of_checkpoints_that_fail_and_of_another_engine() -> None:
    told = Told(tolerable="0")
    told.ask()
    told(e.SnapshotDeclined(task=TASKS[0], checkpoint=1, detail="it said no"))
    told(e.Ticked(now_ms=600))
    status = told.heartbeat.status()
    assert status.failure is not None and status.failure.code == "CHECKPOINTS_FAILING"
    assert "still runs tries again by itself" in status.failure.next_step
    assert "it said no" in status.failure.message and (status.restarts, status.next_attempt_ms is None) == (1, False)

    told(e.Ticked(now_ms=10_000))
    for task in TASKS:
        told(e.TaskStarted(task=task))
    told.ask()
    for task in TASKS:
        told(e.SnapshotTaken(task=task, checkpoint=2))
    told(e.ManifestWritten(checkpoint=2))
    told(e.CommitFailed(checkpoint=2, detail="the server is away"))
    status = told.heartbeat.status()
    assert status.failure is not None and status.failure.code == "SINK_COMMIT_FAILED"
    assert "the server is away" in status.failure.message
    assert "still runs tries again by itself" in status.failure.next_step, "it is not to be run by the user"
    assert (status.restarts, status.next_attempt_ms is None) == (1, False)

    told(e.EngineDied(reason="killed for memory", replaceable=True))
    told(e.Ticked(now_ms=20_000))
    status = told.heartbeat.status()
    assert status.failure is not None and status.failure.code == "SPARK_DIED"
    assert "killed for memory" in status.failure.message
    assert status.failure.next_step.startswith("A job that still runs continues with a new session by itself;")
    assert (status.restarts, status.next_attempt_ms is None) == (2, False)


@pytest.mark.parametrize("since", [1, None])
def test_a_failure_is_shown_by_the_next_run_of_the_same_process_only(since: int | None) -> None:
    store = MemoryStore()
    told = Told(store)
    told(e.TaskFailed(task=TASKS[0], reason="no such customer"))
    told.heartbeat.beat()

    status = Told(store, since=since).heartbeat.status()

    assert (status.failure is not None, status.restarts) == ((True, 1) if since else (False, 0))
    assert status.tasks[0].failure is None


def test_the_status_of_a_version_without_failures_is_read() -> None:
    told = Told()
    told.heartbeat.beat()
    path = layout.status("job")
    document = json.loads(told.storage.store.read(path))
    for part in (document, *document["tasks"]):
        for name in ("failure", "restarts", "next_attempt_ms"):
            del part[name]
    told.storage.store.replace(path, json.dumps(document).encode())

    status = told.storage.status()

    assert status is not None and (status.failure, status.restarts, status.next_attempt_ms) == (None, 0, None)
    assert (status.tasks[0].failure, status.tasks[0].restarts, status.tasks[0].next_attempt_ms) == (None, 0, None)
