"""The promises that every history of a job must keep: one small function for each.

A checker looks at the world of a simulated job when it is over and returns what is wrong, in words; nothing where all
is well. They know commands, events and durable facts, and nothing of how the protocol comes to its decisions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.testing.simulated_facts import (
    BatchCommitted,
    Discarded,
    DriverDied,
    ManifestCreated,
    ResultDurable,
    SealedFromNothing,
)
from rekindle.testing.simulated_files import Row
from rekindle.testing.simulated_world import World
from rekindle.testing.stop_invariants import a_stop_has_its_reason

Checker = Callable[[World], Iterator[str]]

_REQUESTS = (e.CheckpointRequested, e.StopRequested, e.CancelRequested)
_DEAD = (DriverDied, e.DriverFenced, c.FailOver)
_CUT_SHORT = (*_DEAD, c.RecordResult)
_GOOD_ENDS = ("FINISHED", "DRAINED", "STOPPED")


def the_job_ends(world: World) -> Iterator[str]:
    """Check that a job whose inputs end, or that is drained, ends once nothing fails any more."""
    last = world.results.get(world.run)
    if last is None or last.state not in ("FINISHED", "DRAINED"):
        yield f"run {world.run} did not end: {last}"


def nothing_is_lost(world: World) -> Iterator[str]:
    """Check that a job that has ended shows every row it has read, and has no unread input if it is FINISHED."""
    last = world.results.get(world.run)
    if last is None or last.state not in ("FINISHED", "DRAINED"):
        return
    expected = [*_rows_expected(world)]
    for name, shown in (("sink", world.outputs.sink), ("table", world.outputs.table)):
        missing = [row for row in expected if row not in shown]
        if missing:
            yield f"{len(missing)} rows were read and are not in the {name}: {missing[:5]}"
    unread = [str(task) for task, files in world.tasks.items() if not files.sources_ended_at(files.batch)]
    if last.state == "FINISHED" and unread:
        yield f"FINISHED with unread inputs: {', '.join(unread)}"


def _rows_expected(world: World) -> Iterator[Row]:
    """Yield every row that was read, after every task it has to go through."""
    after: dict[str, set[Row]] = {}
    topology = world.graph.topology
    for uid in topology.order:
        after[uid] = {
            (source, index, (uid,))
            for task, files in world.tasks.items()
            if task.task == uid
            for source, position in files.last.positions.items()
            for index in range(position)
        }
        for edge in topology.inputs_of(uid):
            after[uid] |= {(source, index, (*via, uid)) for source, index, via in after[edge.source]}
        yield from after[uid]


def nothing_is_there_twice(world: World) -> Iterator[str]:
    """Check that no row is shown twice, by a sink that knows batches or by one that knows numbers of checkpoints."""
    for name, shown in (("sink", world.outputs.sink), ("table", world.outputs.table)):
        twice = [row for row, count in shown.items() if count > 1]
        if twice:
            yield f"{len(twice)} rows are in the {name} twice: {twice[:5]}"


def what_is_committed_is_named(world: World) -> Iterator[str]:
    """Check that a batch is committed only while a durable manifest names it."""
    for run, thing in world.history:
        if isinstance(thing, BatchCommitted) and not thing.named:
            yield f"run {run} committed batch {thing.batch} of {thing.task}, which checkpoint {thing.checkpoint} lacks"


def permits_follow_manifests(world: World) -> Iterator[str]:
    """Check that a commit is ordered only once the manifest of its checkpoint is durable."""
    durable: set[int] = set()
    for run, thing in world.history:
        if isinstance(thing, ManifestCreated):
            durable.add(thing.checkpoint)
        if isinstance(thing, c.CommitTransactions) and thing.permit.checkpoint not in durable:
            yield f"run {run} gave a permit for checkpoint {thing.permit.checkpoint}, which is not complete"


def manifests_are_committed_in_order(world: World) -> Iterator[str]:
    """Check that the next manifest is written only when the transactions of the last one are committed."""
    owed: dict[int, int | None] = {}
    settled: set[tuple[int, int]] = set()
    for run, thing in world.history:
        if isinstance(thing, e.JobStarted):
            owed[run] = thing.latest_checkpoint
        elif isinstance(thing, e.ManifestWritten) and (run, thing.checkpoint) not in settled:
            owed[run] = thing.checkpoint
        elif isinstance(thing, e.TransactionsCommitted):
            settled.add((run, thing.checkpoint))
            owed[run] = None if thing.checkpoint == owed[run] else owed[run]
        elif isinstance(thing, c.WriteManifest) and owed[run] is not None:
            yield f"run {run} wrote manifest {thing.checkpoint} while {owed[run]} was not committed"


def the_finished_stay_finished(world: World) -> Iterator[str]:
    """Check that a task that is known to have finished is not ordered to start, to hold or to finish again."""
    finished: set[tuple[int, object]] = set()
    for run, thing in world.history:
        if isinstance(thing, e.JobStarted):
            finished |= {(run, task) for task, known in thing.tasks.items() if known.closed or known.ended}
        elif isinstance(thing, e.TaskFinished):
            finished.add((run, thing.task))
        elif isinstance(thing, c.StartTask | c.SuspendTask | c.FinishTask) and (run, thing.task) in finished:
            yield f"run {run} gave {type(thing).__name__} to {thing.task}, which had finished"


def results_come_before_answers(world: World) -> Iterator[str]:
    """Check that an end is answered only when it is durable, also to requests made after it had been decided."""
    decided: set[int] = set()
    durable: set[int] = set()
    ends = {
        (run, thing.request) for run, thing in world.history if isinstance(thing, e.StopRequested | e.CancelRequested)
    }
    for run, thing in world.history:
        if isinstance(thing, c.RecordResult):
            decided.add(run)
        elif isinstance(thing, ResultDurable):
            durable.add(run)
        elif isinstance(thing, c.AnswerRequest) and run not in durable:
            reports = run in decided or (thing.error is None and (run, thing.request) in ends)
            if reports:
                yield f"run {run} answered {thing.request} before its result was durable"


def good_ends_have_committed_everything(world: World) -> Iterator[str]:
    """Check that FINISHED, DRAINED and STOPPED are said only when every batch is committed."""
    for run, thing in world.history:
        if isinstance(thing, ResultDurable) and thing.state in _GOOD_ENDS and thing.uncommitted:
            yield f"run {run} is {thing.state} with {len(thing.uncommitted)} batches not committed"


def every_request_is_answered_once(world: World) -> Iterator[str]:
    """Check that a request is answered once; at most once if the driver died or was fenced first."""
    heard = {(run, thing.request) for run, thing in world.history if isinstance(thing, _REQUESTS)}
    said = Counter((run, thing.request) for run, thing in world.history if isinstance(thing, c.AnswerRequest))
    dead = {run for run, thing in world.history if isinstance(thing, _DEAD)}
    over = {run for run, thing in world.history if isinstance(thing, c.Exit)} - dead
    for (run, request), times in said.items():
        if times > 1:
            yield f"run {run} answered {request} {times} times"
    for run, request in sorted(heard):
        if run in over and not said[run, request]:
            yield f"run {run} never answered {request}"


def answers_are_true(world: World) -> Iterator[str]:
    """Check that a savepoint named in an answer exists, a checkpoint named is complete, and nothing is missing."""
    complete = {thing.checkpoint for _, thing in world.history if isinstance(thing, ManifestCreated)}
    asked = {
        (run, thing.request): thing.directory
        for run, thing in world.history
        if isinstance(thing, e.StopRequested | e.CheckpointRequested)
    }
    for run, thing in world.history:
        if not isinstance(thing, c.AnswerRequest):
            continue
        if thing.savepoint is not None and thing.savepoint not in world.checkpoints.savepoints:
            yield f"run {run} answered {thing.request} with a savepoint that does not exist"
        if thing.checkpoint is not None and thing.checkpoint not in complete:
            yield f"run {run} answered {thing.request} with a checkpoint that is not complete"
        if thing.error is None and asked.get((run, thing.request)) and thing.savepoint is None:
            yield f"run {run} answered {thing.request} without the savepoint it asked for"


def checkpoints_name_every_task(world: World) -> Iterator[str]:
    """Check that a checkpoint has a snapshot of each task, or its end."""
    for number, manifest in world.checkpoints.manifests.items():
        for task in sorted(world.tasks.keys() - manifest.snapshots.keys()):
            yield f"checkpoint {number} has nothing of {task}"


def checkpoints_are_consistent_cuts(world: World) -> Iterator[str]:
    """Check that what a producer had written and its consumer had not read, and no more, is in flight (FLIP-76)."""
    for number, manifest in world.checkpoints.manifests.items():
        for task, snapshot in manifest.snapshots.items():
            for producer in (one for one in world.tasks[task].producers if one in manifest.snapshots):
                written = manifest.snapshots[producer].batch + 1
                read = snapshot.read.get(producer, 0)
                flying = snapshot.in_flight.get(producer, (read, read))
                if flying != (read, written):
                    places = f"{written} written, {read} read, in flight {flying}"
                    yield f"checkpoint {number}: {producer} → {task}: {places}"


def aligned_checkpoints_have_nothing_in_flight(world: World) -> Iterator[str]:
    """Check that a savepoint that was not asked to be unaligned, by a later stop neither, waits until all is read."""
    hurried = {run for run, thing in world.history if isinstance(thing, e.StopRequested) and thing.unaligned}
    aligned = {
        (run, thing.checkpoint)
        for run, thing in world.history
        if isinstance(thing, c.SealSavepoint)
        and thing.directory != "/unaligned"
        and not (thing.directory == "/stop" and run in hurried)
    }
    for run, thing in world.history:
        if isinstance(thing, c.TakeSnapshot) and (run, thing.checkpoint) in aligned and thing.in_flight:
            yield f"run {run}: savepoint {thing.checkpoint} has {dict(thing.in_flight)} of {thing.task} in flight"


def every_checkpoint_settles(world: World) -> Iterator[str]:
    """Check that a begun checkpoint completes or fails with a reason, unless its driver dies or the job is ended."""
    cut_short = {run for run, thing in world.history if isinstance(thing, _CUT_SHORT)}
    begun = {(run, thing.checkpoint) for run, thing in world.history if isinstance(thing, c.TakeSnapshot)}
    settled = {
        (run, thing.checkpoint)
        for run, thing in world.history
        if isinstance(thing, c.CommitTransactions | c.AbortCheckpoint | e.ManifestWritten)
        for thing in (thing if not isinstance(thing, c.CommitTransactions) else thing.permit,)
    }
    for run, number in sorted(begun - settled):
        if run not in cut_short:
            yield f"run {run} began checkpoint {number}, and nothing came of it"


def the_newest_checkpoint_is_kept(world: World) -> Iterator[str]:
    """Check that the checkpoint that a job resumes from is never deleted."""
    for run, thing in world.history:
        if isinstance(thing, Discarded) and thing.newest:
            yield f"run {run} deleted the newest checkpoint"


def what_is_being_saved_is_kept(world: World) -> Iterator[str]:
    """Check that the checkpoint that a savepoint is made of is not deleted meanwhile."""
    for run, thing in world.history:
        if isinstance(thing, SealedFromNothing) and not thing.fenced:
            yield f"run {run} deleted checkpoint {thing.checkpoint} while a savepoint was made of it"


CHECKERS: tuple[Checker, ...] = (
    the_job_ends,
    nothing_is_lost,
    nothing_is_there_twice,
    what_is_committed_is_named,
    permits_follow_manifests,
    manifests_are_committed_in_order,
    the_finished_stay_finished,
    results_come_before_answers,
    good_ends_have_committed_everything,
    a_stop_has_its_reason,
    every_request_is_answered_once,
    answers_are_true,
    the_newest_checkpoint_is_kept,
    checkpoints_name_every_task,
    checkpoints_are_consistent_cuts,
    aligned_checkpoints_have_nothing_in_flight,
    every_checkpoint_settles,
    what_is_being_saved_is_kept,
)


def broken(world: World) -> list[str]:
    """Return everything that is wrong with a world; each line begins with the promise that was broken."""
    return [f"{checker.__name__}: {words}" for checker in CHECKERS for words in checker(world)]
