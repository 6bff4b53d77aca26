"""The rewind of sinks to the checkpoint that a start begins from: later commits are taken back.

The manifests of the later checkpoints name those commits. They are taken back sink by sink, then each of these
checkpoints is marked: nothing starts from it any more, and nothing commits it. If a start is killed in between, the
next start repeats the rewind; steps that were done stay done. A sink that cannot go back is refused before anything
changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rekindle.errors import RekindleError, RestoreError, SinkError, one_line
from rekindle.graph.job_graph import JobGraph
from rekindle.runtime.leftovers import never_committed, rewound, uncommitted
from rekindle.runtime.steps import Steps, step
from rekindle.sinks import TwoPhaseSink
from rekindle.sinks.two_phase import Committable
from rekindle.storage import layout
from rekindle.storage.checkpoint_documents import CheckpointDocuments
from rekindle.storage.documents.checkpoint import Committed, Manifest, Rewound
from rekindle.storage.run_documents import RunDocuments


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewind:
    """The commits to take back, and the checkpoint to go back to."""

    to: int
    #: checkpoints after that one whose commits are not taken back yet
    checkpoints: tuple[int, ...]
    #: sink → checkpoint → committables that were committed with it
    commits: Mapping[str, Mapping[int, list[Committable]]]
    #: False: nothing is taken back, and the checkpoint whose commit was interrupted is given up
    takes_back: bool = True

    def rows(self, sink: str) -> int:
        """Return the number of rows of a sink that are taken back, as far as it counts them."""
        return sum(one.get("rows", 0) for each in self.commits.get(sink, {}).values() for one in each)


def plan_given_up(storage: CheckpointDocuments, manifest: Manifest) -> Rewind | None:
    """Find a later checkpoint whose commit was interrupted, for a start that leaves sinks ahead.

    The start would commit it first, and its rows come once more after that; and where a sink has lost what was
    prepared, no start could.

    Args:
        manifest: manifest of the checkpoint or savepoint that the start begins from.
    """
    left = uncommitted(storage)
    if left is None or not left.transactions:
        return None
    is_later = left.job_id != manifest.job_id or left.checkpoint > manifest.checkpoint
    return (
        Rewind(to=manifest.checkpoint, checkpoints=(left.checkpoint,), commits={}, takes_back=False)
        if is_later
        else None
    )


def plan_rewind(
    storage: CheckpointDocuments,
    manifest: Manifest,
    place: str,
    graph: JobGraph,
    *,
    leave_others: bool = False,
) -> Rewind:
    """Find the commits that have to be taken back.

    Args:
        manifest: manifest of the checkpoint or savepoint that the start begins from.
        place: path of that, for the message.
        leave_others: True to leave sinks that cannot go back unchanged.

    Raises:
        RestoreError: ``REWIND_IMPOSSIBLE``, ``SINK_REWIND_UNSUPPORTED``.
    """
    to, used = manifest.checkpoint, _used(storage, manifest, place)
    checkpoints, commits = list[int](), dict[str, dict[int, list[Committable]]]()
    for number in (one for one in used if one > to and rewound(storage, one) is None):
        later = storage.manifest(number)
        if later is None:
            continue
        checkpoints.append(number)
        if never_committed(storage, later):
            continue  # its transactions are among those of a later one
        run = storage.run(later.run)
        kinds = {sink.uid: sink.kind for sink in run.description.sinks} if run and run.description else {}
        for uid, transactions in later.transactions.items():
            found = next((sink for sink in graph.sinks if sink.uid == uid), None)
            kind = kinds.get(uid, found.kind if found else "sink")
            if found is None or kind != found.kind:
                if leave_others:
                    continue
                reason = f"with checkpoint {number} it has committed, and the job does not have it so any more"
                raise RestoreError("SINK_REWIND_UNSUPPORTED", sink=uid, kind=kind, path=place, reason=reason)
            commits.setdefault(uid, {})[number] = [one for each in transactions for one in each.committables]
    for sink in graph.sinks if checkpoints else ():
        if sink.cannot_rewind is None:
            continue
        if not leave_others:
            reason = sink.cannot_rewind
            raise RestoreError("SINK_REWIND_UNSUPPORTED", sink=sink.uid, kind=sink.kind, path=place, reason=reason)
        commits.pop(sink.uid, None)
    return Rewind(to=to, checkpoints=tuple(checkpoints), commits=commits)


def _used(storage: CheckpointDocuments, manifest: Manifest, place: str) -> list[int]:
    """Return the numbers that checkpoints of the job have, once it is certain what was committed since this one.

    Raises:
        RestoreError: ``REWIND_IMPOSSIBLE``.
    """
    identity, to = storage.identity(), manifest.checkpoint
    if identity is None or identity.id != manifest.job_id:
        reason = "it was taken by a job in another storage, and what that has committed is not known here"
        raise RestoreError("REWIND_IMPOSSIBLE", path=place, reason=reason)
    if never_committed(storage, manifest):
        reason = "its manifest came late, so it has failed, and a later checkpoint has committed its rows with others"
        raise RestoreError("REWIND_IMPOSSIBLE", path=place, reason=reason)
    used = storage.numbers_used()
    if missing := sorted({*range(to + 1, max(used, default=to) + 1)} - {*used}):
        reason = f"what checkpoint {missing[0]} has committed is not known any more: it is not kept"
        raise RestoreError("REWIND_IMPOSSIBLE", path=place, reason=reason)
    return used


def carry_out(
    planned: Rewind, storage: RunDocuments, sinks: Mapping[str, TwoPhaseSink], run: int, now_ms: int, steps: Steps
) -> None:
    """Take the planned commits back. The sinks are open; the fence is checked before each of them.

    Before the first, each checkpoint is marked: if one sink cannot go back, or the driver dies, others may have.

    Raises:
        SinkError: ``SINK_REWIND_FAILED``.
        ControlError: ``DRIVER_FENCED``.
    """
    marks = {
        number: Rewound(checkpoint=number, run=run, to=planned.to, rewound_ms=now_ms) for number in planned.checkpoints
    }
    storage.fence.check(run)
    for number, mark in marks.items():
        storage.create(layout.rewound(layout.checkpoint(storage.job, number), by_all=False), mark)
    for uid, commits in planned.commits.items():
        storage.fence.check(run)
        try:
            with step(steps, "sink.rewind"):
                sinks[uid].rewind(planned.to, commits)
        except RekindleError:
            raise
        except Exception as error:
            reason = one_line(error)
            raise SinkError("SINK_REWIND_FAILED", sink=uid, checkpoint=planned.to, reason=reason) from error
    # The newest first: only that one could still be committed, by any driver that starts.
    for number in reversed(planned.checkpoints):
        folder = layout.checkpoint(storage.job, number)
        storage.create(layout.committed(folder), Committed(checkpoint=number, run=run, committed_ms=now_ms))
        storage.create(layout.rewound(folder), marks[number])
