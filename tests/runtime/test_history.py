"""What a driver leaves to be watched by, with a fake query: complete, bounded, and never in the way."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from rekindle.errors import ControlError, RekindleError, SinkError, StorageError
from rekindle.history import log
from rekindle.history.log import CHECKPOINTS, EVENTS, RATES
from rekindle.storage import layout
from rekindle.storage.documents.history import HistoryEvent
from rekindle.storage.documents.runs import Run
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.liveness import this_process
from rekindle.storage.local import LocalStore
from tests.claims import claim
from tests.runtime.kit import NEVER, OFTEN, World, ended, until
from tests.simulation.watched import check_history


def events(storage: JobStorage) -> list[HistoryEvent]:
    return [one.row for one in log.read(storage, EVENTS)]


def test_the_history_of_a_job_goes_on_from_run_to_run(world: World) -> None:
    world.rows.available, world.rows.ended = 10, False
    handle = world.start(**OFTEN)
    until(lambda: world.read() == 10)
    handle.stop()
    ended(handle)
    world.rows.available, world.rows.ended = 25, True
    world.run(**OFTEN)

    check_history(world.storage)
    kinds = [(event.run, event.kind) for event in events(world.storage)]
    assert [kind for run, kind in kinds if run == 1] == [
        "run_started",
        "stop_requested",
        "checkpoint_completed",
        "run_ended",
    ]
    assert kinds[-1] == (2, "run_ended")
    asked = next(event for event in events(world.storage) if event.kind == "stop_requested")
    assert asked.by is not None and "@" in asked.by
    records = [one.row for one in log.read(world.storage, CHECKPOINTS)]
    completed = [record for record in records if record.status == "completed"]
    assert all(record.commit_ms is not None and record.subtasks for record in completed)
    for field in ("acknowledged_ms", "alignment_ms", "sync_ms", "in_flight_bytes"):
        shown = [getattr(part, field) for record in completed for part in record.subtasks if not part.finished]
        assert shown and None not in shown, field
    status = world.storage.status()
    assert status is not None
    assert (status.rows_in, status.rows_out, status.rows_uncommitted) == (25, 25, 0)
    assert status.batches == max(world.records()) + 1, "records that no checkpoint needs are gone"
    assert status.checkpoints_completed == len(completed)
    newest = max(completed, key=lambda record: record.id)
    assert status.newest is not None and newest.duration_ms is not None
    assert status.newest.checkpoint_duration_ms == newest.duration_ms
    assert status.newest.checkpoint_bytes == newest.state_bytes


def wait_30_ms() -> None:
    until_s = time.monotonic() + 0.03
    while time.monotonic() < until_s:
        time.sleep(0.001)


class SlowStore(LocalStore):
    """A store in which a manifest takes 30 ms."""

    def create(self, path: str, data: bytes) -> bool:
        if path.endswith("/manifest.json"):
            wait_30_ms()
        return super().create(path, data)


def test_a_checkpoint_took_the_time_of_its_manifest_too(world: World) -> None:
    world.store = SlowStore(world.location)
    world.rows.available = 10
    world.run(**NEVER)

    (record,) = (one.row for one in log.read(world.storage, CHECKPOINTS))
    status = world.storage.status()
    assert record.duration_ms is not None and record.duration_ms >= 30
    assert status is not None and [one.duration_ms for one in status.history] == [record.duration_ms]


def test_each_sink_has_the_time_of_its_commit(world: World) -> None:
    slow, commit = world.sinks["second"], world.sinks["second"].commit

    def commit_slowly(*arguments: Any) -> None:
        wait_30_ms()
        commit(*arguments)

    slow.commit = commit_slowly  # type: ignore[method-assign]
    world.rows.available = 10
    world.run(**NEVER)

    (record,) = (one.row for one in log.read(world.storage, CHECKPOINTS))
    assert [*record.sink_commit_ms] == ["out", "second"]
    assert record.sink_commit_ms["second"] >= 30


def test_a_run_without_a_result_was_fenced_by_the_one_that_took_over(world: World) -> None:
    world.rows.available, world.rows.ended = 4, False
    handle = world.start(**OFTEN)
    until(lambda: [event.kind for event in events(world.storage)] == ["run_started"] and world.read() == 4)
    # The next one claims its run and dies; the first lives, and learns of it.
    dead = this_process()._asdict() | {"process_started": this_process().process_started + "0"}
    status = world.storage.status()
    assert status is not None
    claim(
        world.storage,
        lambda number: Run(run=number, started_ms=status.written_ms + 75_000, lineage=1, **dead),
    )
    with pytest.raises(ControlError, match="DRIVER_FENCED"):
        ended(handle)
    world.rows.available, world.rows.ended = 10, True
    world.run(**OFTEN)

    check_history(world.storage)
    happened = events(world.storage)
    assert [(event.run, event.kind) for event in happened if event.kind != "checkpoint_completed"] == [
        (1, "run_started"),
        (1, "fenced"),
        (2, "run_started"),
        (2, "fenced"),
        (3, "run_started"),
        (3, "task_finished"),
        (3, "run_ended"),
    ]
    first, second = (event for event in happened if event.kind == "fenced")
    assert first.severity == "error" and first.by == f"process {dead['pid']} on {dead['host']}"
    said = "run 2 has taken over from run 1, which had recorded no result; it was last heard of "
    assert first.message.startswith(said) and first.message.endswith(" s before")
    assert second.message == "run 3 has taken over from run 2, which had recorded no result"


def test_rows_that_a_driver_had_recorded_and_not_shown_are_counted_by_the_next_run(world: World) -> None:
    world.rows.available, world.rows.ended = 10, False

    def fail(name: str) -> None:
        if name == "manifest.create/before":
            raise RuntimeError("the driver dies")

    handle = world.start(fail, **NEVER)
    until(lambda: world.read() == 10)
    with pytest.raises(RekindleError):
        handle.stop()
    world.storage.store.delete(layout.status("job"))  # as if it had died before its first heartbeat
    world.rows.available, world.rows.ended = 20, True

    world.run(**NEVER)

    status = world.storage.status()
    assert status is not None
    assert status.rows_out == 20
    assert status.batches == max(world.records()) + 1


def test_a_task_that_fails_again_and_again_has_its_error_each_time_and_its_trace_once(world: World) -> None:
    world.rows.available = 10
    left = [19, 18, 17]

    def fail() -> None:
        if left:
            raise ValueError(f"no such customer {left.pop()}")

    world.before["start"] = fail
    world.run(**NEVER)
    failed = [event for event in events(world.storage) if event.kind == "task_failed"]
    assert [event.error is not None and "no such customer" in event.error.message for event in failed] == [True] * 3
    assert [bool(event.error and event.error.trace) for event in failed] == [True, False, False]
    assert "ValueError" in failed[0].error.trace if failed[0].error else False
    assert [event.kind for event in events(world.storage)].count("task_restarted") >= 1


def test_the_first_heartbeat_of_a_run_repeats_what_the_history_has_of_earlier_ones(world: World) -> None:
    world.rows.available, world.rows.ended = 10, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 10)
    handle.stop()
    ended(handle)
    before = world.storage.status()
    handle = world.start(**NEVER)
    until(lambda: (status := world.storage.status()) is not None and status.run == 2)

    status = world.storage.status()
    assert status is not None and status.newest is not None and before is not None and before.newest is not None
    assert status.newest.checkpoint_duration_ms == before.newest.checkpoint_duration_ms is not None
    handle.cancel()
    ended(handle)


def test_a_storage_that_refuses_the_history_refuses_nothing_else(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        if name == "history.replace/before":
            raise StorageError("STORAGE_FULL", uri="x", reason="no room")

    world.rows.available = 20
    assert world.run(refuse, **OFTEN).state == "FINISHED"
    assert events(world.storage) == []
    world.rows.available = 20
    status = world.storage.status()
    assert status is not None and status.state == "FINISHED"


def test_every_ten_seconds_there_is_a_row_of_rates_while_they_change(world: World) -> None:
    world.rows.available, world.rows.ended = 10, False
    driver, storage = world.driver(**NEVER)
    handle, heartbeat = world.loop(driver, storage), driver.heartbeat
    until(lambda: world.read() == 10)
    rates = heartbeat.recorder.rates
    status = heartbeat.status()
    for second in range(100, 131):
        (task,) = status.tasks
        tasks = (replace(task, rows_out=second * 7),)
        rates.look(second * 1_000, replace(status, tasks=tasks, rows_uncommitted=second // 10, restarts_total=12))
    assert rates.rows_out(lambda uid: uid == "task") == 7
    assert rates.rows_out(lambda uid: False) is None
    until(lambda: len(log.read(world.storage, RATES)) >= 3)
    handle.cancel()
    ended(handle)
    sample = log.read(world.storage, RATES)[-1].row
    assert set(sample.tasks) == {"task/0"}
    assert (sample.rows_uncommitted, sample.restarts) == (13, 12)
    shares = sample.tasks["task/0"]
    assert shares.busy + shares.idle + shares.back_pressured == pytest.approx(1)


@pytest.mark.parametrize("kind", [EVENTS, CHECKPOINTS])
def test_after_the_end_each_log_has_another_try(world: World, kind: log.LogKind[object]) -> None:
    refused: list[str] = []

    class AwayForAMoment(LocalStore):
        def replace(self, path: str, data: bytes) -> None:
            has_ended = world.storage.result(1) is not None
            if f"/history/{kind.name}/" in path and not (has_ended and refused):
                refused.extend([path] if has_ended else [])
                raise StorageError("STORAGE_UNAVAILABLE", uri=path, reason="it is away for a moment")
            super().replace(path, data)

    world.store = AwayForAMoment(world.location)
    world.rows.available, world.rows.ended = 10, True
    world.run(**OFTEN)

    assert refused
    assert events(world.storage)[-1].kind == "run_ended"
    check_history(world.storage)


HALF = "refused: \ud83d"
"""It ends with half of a pair, as an answer that was cut off."""


@pytest.mark.parametrize(
    "refusal", [ValueError(HALF), SinkError("SINK_SERVER_FAILED", sink="out", server="x", reason=HALF)]
)
def test_a_sink_that_says_what_cannot_be_stored_is_tried_again(world: World, refusal: Exception) -> None:
    world.rows.available = 20
    refusals = [refusal]

    def refuse() -> None:
        if refusals:
            raise refusals.pop()

    world.sinks["out"].before["commit"] = refuse

    assert world.run(**NEVER).state == "FINISHED"
    assert world.all_committed()
    assert any("refused: ?" in event.message for event in events(world.storage))
