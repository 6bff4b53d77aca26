"""What a driver shows of itself, and its history of checkpoints."""

from __future__ import annotations

import threading
from itertools import count

import pytest

from rekindle.config import Config
from rekindle.errors import StorageError
from rekindle.graph.job_graph import JobGraph, Source, Task
from rekindle.ids import SubtaskId
from rekindle.protocol import events as e
from rekindle.protocol.job import Job
from rekindle.runtime.heartbeat import HISTORY, Heartbeat
from rekindle.storage.documents import CheckpointStats, Run, Status
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.memory import MemoryStore
from tests.runtime.kit import NEVER, OFTEN, SOURCE, TASK, World, ended, until

TASKS = (SubtaskId("a", 0), SubtaskId("b", 0))
GRAPH = JobGraph(
    name="job",
    sources=(Source(uid="s", bounded=True),),
    tasks=tuple(Task(uid=task.task, inputs=("s",)) for task in TASKS),
)


class Told:
    """A job of two tasks and the heartbeat that listens to it, without a driver."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.storage = JobStorage(store or MemoryStore(), "job")
        config = Config.of({"checkpoint.interval": "0", "checkpoint.tolerable_failures": "1000"})
        self.job = Job(GRAPH, config)
        run = Run(run=1, started_ms=0, host="here", pid=1, lineage=1)
        clock = count(1_000, 10)
        self.heartbeat = Heartbeat(self.storage, run, self.job, {}, lambda: next(clock))
        self.requests = count()
        self(e.JobStarted(now_ms=500))
        for task in TASKS:
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


def test_a_checkpoint_is_in_progress_then_completed_with_its_duration_and_place() -> None:
    told = Told()
    told.ask()
    (stats,) = told.history
    assert (stats.id, stats.kind, stats.status, stats.acknowledged) == (1, "manual", "in_progress", (0, 2))
    assert (stats.triggered_at, stats.duration_ms, stats.path, stats.failure) == (1_000, None, None, None)

    told(e.SnapshotTaken(task=TASKS[0], checkpoint=1))
    assert told.history[0].acknowledged == (1, 2)
    told(e.SnapshotTaken(task=TASKS[1], checkpoint=1))
    told(e.Ticked(now_ms=700))
    told(e.ManifestWritten(checkpoint=1))

    (stats,) = told.history
    assert (stats.status, stats.acknowledged, stats.path) == ("completed", (2, 2), "memory:/job/checkpoints/000000001")
    assert stats.duration_ms == 200, "by the driver's own time, which began at 500"
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


def test_each_beat_is_told_from_the_one_before_and_a_refusing_storage_is_not_its_business(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = Told()
    told.heartbeat.beat()
    first = told.storage.status()
    told.heartbeat.beat()
    second = told.storage.status()
    assert isinstance(first, Status) and isinstance(second, Status)
    assert second.beat == first.beat + 1

    def refuse(*_: object) -> None:
        raise StorageError("STORAGE_FULL", uri="x", reason="injected")

    monkeypatch.setattr(told.storage.store, "replace", refuse)
    told.heartbeat.beat()
    assert told.storage.status() == second


def test_the_status_of_a_running_job_tells_its_tasks_inputs_and_process(world: World) -> None:
    world.rows.available, world.rows.ended = 9, False
    handle = world.start(**OFTEN)
    until(lambda: world.read() == 9)
    until(lambda: (world.storage.status() or handle.status()).tasks[0].batch == 2)

    status = world.storage.status()

    assert status is not None
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
