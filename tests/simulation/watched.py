"""What must hold of the history of a job, whatever its drivers went through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from rekindle.history import log
from rekindle.history.log import CHECKPOINTS, EVENTS, RATES
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.run_documents import last_begun


def check_history(storage: JobStorage, cut_off: Collection[int] = (), too_late: Collection[int] = ()) -> None:
    """`AssertionError` where a promise is broken: of a job that has ended, and whose storage is whole.

    Args:
        cut_off: runs whose drivers were killed, or frozen for good.
        too_late: checkpoints that came about when later ones were there, and that no run has taken note of.
    """
    records = [one.row for one in log.read(storage, CHECKPOINTS)]
    completed = Counter(record.id for record in records if record.status == "completed")
    assert set(completed.values()) <= {1}, f"twice in the history: {completed}"
    kinds = {record.id: record.kind for record in records if record.status == "completed"}
    # Its manifest arrived, and neither answer did: the driver could not know that it was there.
    unknown = {*too_late} | {
        record.id for record in records if (record.failure or "").startswith("FINALIZE_CHECKPOINT_FAILURE")
    }
    events = [one.row for one in log.read(storage, EVENTS)]
    started = Counter(event.run for event in events if event.kind == "run_started")
    ended = Counter(event.run for event in events if event.kind in ("run_ended", "fenced"))
    # One that was taken for dead right after its last checkpoint, and whose successor died before its first beat, has
    # no run that would write either down. The same with the newest checkpoint alone, where all later ones were cut off:
    # a beat writes more than one document, and a run may be cut off between them.
    newest = max(storage.manifests(), key=lambda one: one.checkpoint, default=None)
    if newest is not None and all(run in cut_off for run in started if run >= newest.run):
        unknown.add(newest.checkpoint)
    for manifest in (one for one in storage.manifests() if one.run in ended and one.checkpoint not in unknown):
        assert kinds.get(manifest.checkpoint) == manifest.kind, f"checkpoint {manifest.checkpoint}: {sorted(kinds)}"

    for record in records:
        parts = [part for part in record.subtasks if part.acknowledged_ms is not None]
        if record.status == "completed" and parts:
            unread = [part.in_flight_bytes for part in parts if part.in_flight_bytes is not None]
            assert len(unread) == len(parts), f"checkpoint {record.id} does not say what was in flight"
            assert max(unread) <= record.in_flight_bytes <= sum(unread), f"checkpoint {record.id}: {unread}"

    assert started == Counter(dict.fromkeys(started, 1)), f"began twice: {started}"
    assert ended == Counter(dict.fromkeys(ended, 1)), f"ended twice: {ended}"
    # One that died right after its result has no other run that would write it down.
    assert set(started) - set(ended) <= {max(started)}, f"began {set(started)}, ended {set(ended)}"
    begun, _ = last_begun(storage)
    assert begun is not None
    # One that was cut off between its result and its first row has no other run that would write down that it began.
    is_silent = begun.run in cut_off and storage.result(begun.run) is not None
    assert is_silent or max(started) >= begun.run, f"began {set(started)}, and not {begun.run}, which was the last"
    for told in (one for one in events if one.kind in ("run_ended", "fenced")):
        result = storage.result(told.run)
        # One that was taken for dead may wake up and record its result later.
        taken_over = told.kind == "fenced" and told.run < begun.run and f"run {told.run + 1} has taken" in told.message
        assert taken_over or (result is not None and result.state in told.message), told

    for kind in (EVENTS, CHECKPOINTS, RATES):
        found = log.read(storage, kind)
        segments = log.segments(storage, kind)
        first = found[0].number if len(segments) >= kind.keep else 0  # the oldest are deleted
        assert [one.number for one in found] == list(range(first, first + len(found))), "rows are missing"
        assert len(segments) <= kind.keep + 2
