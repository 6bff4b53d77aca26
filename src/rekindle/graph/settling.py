"""What follows from the changes that a start has found: which are refused, and what has to be done for the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from rekindle.errors import RestoreError
from rekindle.graph.changes import Change, Kind, Outcome
from rekindle.graph.job_graph import JobGraph


def with_other_inputs(found: Iterable[Change]) -> set[str]:
    """Return the tasks whose inputs are not those that they were."""
    return {one.uid for one in found if one.kind in _OF_INPUTS}


_OF_INPUTS = (Kind.INPUT_ADDED, Kind.INPUT_REMOVED, Kind.INPUTS_TURNED)


def late_histories(
    graph: JobGraph, found: Iterable[Change], watermarks: Mapping[str, int | None], stateful: Collection[str]
) -> list[Change]:
    """Find the sources that end whose rows a task would drop as late.

    Args:
        found: what has changed.
        watermarks: task → its watermark, ms; None or 0 where it has none yet.
        stateful: tasks that keep state.
    """
    bounded = {source.uid for source in graph.sources if source.bounded and source.event_time is not None}
    late = []
    for one in found:
        if one.kind is Kind.INPUT_ADDED and one.uid in stateful and watermarks.get(one.uid):
            uid = one.parameters["input"]
            if uid in bounded:
                parameters = {"task": one.uid, "source": uid}
                late.append(replace(one, kind=Kind.HISTORY_LATE, parameters=parameters))
    return late


def unsettled(graph: JobGraph, kinds: Mapping[str, str], prepared: Collection[str]) -> list[Change]:
    """Find the sinks with prepared rows that are gone, or of another kind.

    Args:
        kinds: sink → its kind when the rows were prepared, as far as that is known.
    """
    now = {sink.uid: sink.kind for sink in graph.sinks}
    found = []
    for uid in prepared:
        if uid not in now or kinds.get(uid, now[uid]) != now[uid]:
            what = "is gone" if uid not in now else f"is now {now[uid]}, and was {kinds[uid]}"
            parameters = {"sink": uid, "difference": what}
            found.append(Change(kind=Kind.SINK_UNSETTLED, uid=uid, what=what, parameters=parameters))
    return found


def settle(found: Iterable[Change], place: str, *, in_place: bool, allowed: Collection[str] = ()) -> bool:
    """Refuse what cannot be; return True if a start in place has to resume from the last checkpoint.

    Args:
        place: what the job is compared with, for the message.
        allowed: what the user allows, see `Rule.allow`.

    Raises:
        RestoreError: with the code of the first change that is refused, or is not allowed.
    """
    outcomes = []
    for change in found:
        rule = change.rule
        outcome = rule.in_place if in_place else rule.restored
        # What falls back to a checkpoint is asked for there.
        asks = outcome is Outcome.RESUMES and rule.allow is not None and rule.allow not in allowed
        if rule.code is not None and (outcome is Outcome.REFUSED or asks):
            raise RestoreError(rule.code, path=place, **change.parameters)
        outcomes.append(outcome)
    return Outcome.FROM_CHECKPOINT in outcomes
