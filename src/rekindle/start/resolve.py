"""How a start begins: a decision from what the storage holds. Pure: facts in, decision out."""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.runs import Result, Run

ENDED = ("FINISHED", "DRAINED")
"""States from which nothing is left to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFacts:
    """What is known before a driver starts."""

    #: the newest run, and how it ended
    run: Run | None = None
    result: Result | None = None
    #: the lineage in force
    lineage: Lineage | None = None
    #: folder of the newest checkpoint, absolute
    latest_checkpoint: str | None = None
    #: how to begin where what came after the last checkpoint of that lineage may be lost; None: it is not
    whole: Fresh | Restore | None = None


@dataclass(frozen=True, slots=True)
class AlreadyEnded:
    """Say so, run nothing."""

    result: Result


@dataclass(frozen=True, slots=True)
class Fresh:
    """Begin at the beginning."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Resume in place, after each subtask's last batch record."""

    lineage: Lineage


@dataclass(frozen=True, slots=True)
class Restore:
    """Open a new lineage from a checkpoint or savepoint."""

    path: str
    undo_drain: bool = False
    #: the sinks go back too
    rewind_sinks: bool = False
    #: the job owns the savepoint from then on
    claim: bool = False
    #: it was begun before, so whatever had to be allowed was
    repeated: bool = False


Decision = AlreadyEnded | Fresh | Resume | Restore


def resolve(
    facts: StartFacts, *, restore: str | None, allow_drained: bool, rewind_sinks: bool = False, claim: bool = False
) -> Decision:
    """What a start does.

    1. What the user asks for comes first.
    2. A restore that a crash cut short (its run has no lineage yet) is done again.
    3. A job that has ended stays ended; a drained one continues from before its flush if that is allowed.
    4. Where power may have been lost, the job begins where its lineage is whole.
    5. Otherwise it resumes after its last records.
    """
    run, result, lineage = facts.run, facts.result, facts.lineage
    if restore is not None:
        return Restore(restore, undo_drain=allow_drained, rewind_sinks=rewind_sinks, claim=claim)
    if run is not None and run.restore_from is not None and (lineage is None or lineage.lineage < run.lineage):
        return Restore(
            run.restore_from,
            undo_drain=run.undo_drain,
            rewind_sinks=run.rewind_sinks,
            claim=run.claim,
            repeated=True,
        )
    if result is not None and result.state in ENDED:
        if result.state == "DRAINED" and allow_drained and facts.latest_checkpoint is not None:
            return Restore(facts.latest_checkpoint, undo_drain=True)
        return AlreadyEnded(result)
    if lineage is None:
        return Fresh()
    return facts.whole or Resume(lineage)
