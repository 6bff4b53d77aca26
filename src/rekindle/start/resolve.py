"""The rules of a start: a decision from the facts in the storage. Pure: facts in, decision out."""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.runs import Result, Run

ENDED = ("FINISHED", "DRAINED")
"""States of a job that has nothing left to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFacts:
    """The facts that are known before a driver starts."""

    #: the newest run that began; the next attribute: its result
    run: Run | None = None
    result: Result | None = None
    #: the lineage in force
    lineage: Lineage | None = None
    #: number of the newest completed checkpoint
    newest: int | None = None
    #: folder of that checkpoint, absolute
    latest_checkpoint: str | None = None
    #: folder of the newest checkpoint when the newest run decided how to begin, absolute
    newest_then: str | None = None
    #: decision if data after the last checkpoint of that lineage may be lost; None: nothing is lost
    whole: Fresh | Restore | None = None


@dataclass(frozen=True, slots=True)
class AlreadyEnded:
    """The decision to return the result of a job that has ended, and to run nothing."""

    result: Result


@dataclass(frozen=True, slots=True)
class Fresh:
    """The decision to begin at the beginning."""


@dataclass(frozen=True, slots=True)
class Resume:
    """The decision to resume in place, after each subtask's last batch record."""

    lineage: Lineage


@dataclass(frozen=True, slots=True)
class Restore:
    """The decision to open a new lineage from a checkpoint or savepoint."""

    path: str
    undo_drain: bool = False
    #: True if the sinks go back, too
    rewind_sinks: bool = False
    #: True if the job owns the savepoint from then on
    claim: bool = False
    #: True if the user asked for it; False if the start itself has decided so
    asked: bool = False
    #: True if the restore was begun before, so that the user has allowed it already
    repeated: bool = False


Decision = AlreadyEnded | Fresh | Resume | Restore


def resolve(
    facts: StartFacts, *, restore: str | None, allow_drained: bool, rewind_sinks: bool = False, claim: bool = False
) -> Decision:
    """Decide how a start begins.

    1. A checkpoint or savepoint that the user names comes first.
    2. A restore that the user asked for and a crash interrupted (its run has no lineage yet) is repeated. If a driver
       that seemed dead has completed a checkpoint since, it is checked like a new one: sinks may be ahead now. One from
       the newest checkpoint of that time is then dropped: the job continues from the newest of now.
    3. A job that has ended stays ended; a drained one continues from before its flush if that is allowed.
    4. After a possible loss of power, the job begins from the last checkpoint of its lineage.
    5. Otherwise it resumes after its last batch records.
    """
    run, result, lineage = facts.run, facts.result, facts.lineage
    if restore is not None:
        return Restore(restore, undo_drain=allow_drained, rewind_sinks=rewind_sinks, claim=claim, asked=True)
    interrupted = restore_to_repeat(run, lineage) if run is not None else None
    if run is not None and interrupted is not None:
        is_as_before = facts.newest == run.newest_checkpoint
        if is_as_before or interrupted != facts.newest_then:
            return Restore(
                interrupted,
                undo_drain=run.undo_drain,
                rewind_sinks=run.rewind_sinks,
                claim=run.claim,
                asked=True,
                repeated=is_as_before,
            )
    if result is not None and result.state in ENDED:
        if result.state == "DRAINED" and allow_drained and facts.latest_checkpoint is not None:
            return Restore(facts.latest_checkpoint, undo_drain=True, asked=True)
        return AlreadyEnded(result)
    if lineage is None:
        return Fresh()
    return facts.whole or Resume(lineage)


def restore_to_repeat(run: Run, lineage: Lineage | None) -> str | None:
    """Return the path of a restore that the user asked for, and that the run has not carried through; None: no such.

    Args:
        run: the newest run that began.
        lineage: the one in force.
    """
    is_opened = lineage is not None and lineage.lineage >= run.lineage
    return run.restore_from if run.asked and not is_opened else None
