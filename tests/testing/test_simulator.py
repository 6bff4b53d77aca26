"""The simulator: lives of a job keep every promise, and a protocol that is broken on purpose is found out."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from rekindle.config import Config
from rekindle.graph.job_graph import JobGraph
from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.protocol.commit import CommitPermit
from rekindle.protocol.ending import Stop
from rekindle.protocol.job import JobMachine
from rekindle.testing import simulator
from rekindle.testing.invariants import CHECKERS
from rekindle.testing.simulated_facts import DriverDied
from rekindle.testing.simulated_folder import CheckpointFolder
from rekindle.testing.simulator import Life, live

LIVES = 1000
ABSTRACT = {c.Command, c.TaskCommand}

EVENTFUL = 200
"""Lives that are looked at twice: whether a promise was broken, and whether there was anything to break one."""

_Commands = tuple[c.Command, ...]

_LIVES: dict[int, Life] = {}


def life_of(seed: int) -> Life:
    """Return a life; those that are looked at twice are lived once."""
    if seed >= EVENTFUL:
        return live(seed)
    return _LIVES[seed] if seed in _LIVES else _LIVES.setdefault(seed, live(seed))


@pytest.mark.parametrize(
    "first", [pytest.param(first, marks=pytest.mark.slow if first >= 500 else ()) for first in range(0, LIVES, 250)]
)
def test_every_promise_holds_in_every_life(first: int) -> None:
    wrong = {seed: lived.wrong for seed in range(first, first + 250) if (lived := life_of(seed)).wrong}
    assert not wrong, "python -m rekindle.testing.simulator --seed N tells the story"


def test_a_job_of_bounded_inputs_finishes_in_one_run_where_nothing_fails() -> None:
    for seed in range(50):
        lived = live(seed, calm=True)
        assert not lived.wrong
        assert lived.world.run == 1
        assert lived.world.results[1].state == "FINISHED"


def test_a_seed_always_gives_the_same_life() -> None:
    assert live(7).world.history == live(7).world.history


def test_the_lives_are_eventful() -> None:
    """Otherwise that nothing goes wrong in them would say little."""
    worlds = [life_of(seed).world for seed in range(EVENTFUL)]
    seen = {type(thing) for world in worlds for _, thing in world.history}
    assert set(e.ALL) - seen == set()
    assert {
        kind for kind in vars(c).values() if isinstance(kind, type) and issubclass(kind, c.Command)
    } - seen == ABSTRACT
    assert DriverDied in seen
    ends = {result.state for world in worlds for result in world.results.values()}
    assert ends == {"FINISHED", "STOPPED", "DRAINED", "CANCELED", "FAILED"}
    kinds = {thing.kind.value for world in worlds for _, thing in world.history if isinstance(thing, c.WriteManifest)}
    assert kinds == {"periodic", "manual", "savepoint", "stop", "final"}
    finished_early = [thing for world in worlds for _, thing in world.history if getattr(thing, "finished", ())]
    assert finished_early, "checkpoints with finished tasks"


def test_the_command_tells_the_seed_and_the_story_of_a_life_that_went_wrong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert simulator.main(["--seeds", "3"]) == 0
    assert capsys.readouterr().out == "3 lives, 0 of them broke a promise\n"
    monkeypatch.setattr(simulator, "live", lambda seed: live(seed, job=CommitsBeforeTheManifest))
    assert simulator.main(["--seed", "1"]) == 1
    said = capsys.readouterr().out
    assert "run  1  JobStarted(" in said
    assert "seed 1:\n  permits_follow_manifests: " in said
    assert "→ CommitTransactions(" in said


class Broken(JobMachine):
    """A protocol with a bug: what it says is changed before anybody hears it."""

    def handle(self, event: e.Event) -> _Commands:
        return self.bug(event, super().handle(event))

    def bug(self, event: e.Event, said: _Commands) -> _Commands:
        """What is said instead."""
        return said


class CommitsBeforeTheManifest(Broken):
    def bug(self, event: e.Event, said: _Commands) -> _Commands:
        manifests = [one for one in said if isinstance(one, c.WriteManifest)]
        return (*(c.CommitTransactions(permit=CommitPermit(one.checkpoint)) for one in manifests), *said)


class NeverCommits(Broken):
    def bug(self, event: e.Event, said: _Commands) -> _Commands:
        return tuple(one for one in said if not isinstance(one, c.CommitTransactions))


class CommitsNothingAfterACrash(Broken):
    """And believes that it has: the transactions of the last manifest are forgotten."""

    def handle(self, event: e.Event) -> _Commands:
        said = super().handle(event)
        if isinstance(event, e.JobStarted):
            self.coordinator.settlement.commits.recovering = None
            return tuple(one for one in said if not isinstance(one, c.CommitTransactions))
        return said


class AnswersBeforeTheResult(Broken):
    def bug(self, event: e.Event, said: _Commands) -> _Commands:
        if not any(isinstance(one, c.RecordResult) for one in said):
            return said
        early = self.answers.take()
        return (*early, *said)


class StartsTheFinishedAgain(Broken):
    def bug(self, event: e.Event, said: _Commands) -> _Commands:
        return (*said, c.StartTask(task=event.task)) if isinstance(event, e.TaskFinished) else said


class RestartsWhatACheckpointCallsFinished(Broken):
    """The facts of the storage are ignored: everything is started."""

    def handle(self, event: e.Event) -> _Commands:
        return super().handle(replace(event, tasks={}) if isinstance(event, e.JobStarted) else event)


class CallsASuspendedTaskFinished(Broken):
    """What a stop only held is written down as finished."""

    def bug(self, event: e.Event, said: _Commands) -> _Commands:
        first, *others = self.tasks.states
        held = tuple(one for one in others if one.task != first.task)
        return tuple(
            replace(one, finished=held)
            if isinstance(one, c.WriteManifest) and one.kind.value == "stop" and held
            else one
            for one in said
        )


class ForgetsAnAnswer(Broken):
    def bug(self, event: e.Event, said: _Commands) -> _Commands:
        return tuple(one for one in said if not isinstance(one, c.AnswerRequest))


class AnswersTwice(Broken):
    def bug(self, event: e.Event, said: _Commands) -> _Commands:
        return tuple(one for one in said for _ in range(2 if isinstance(one, c.AnswerRequest) else 1))


class InventsASavepoint(Broken):
    def bug(self, event: e.Event, said: _Commands) -> _Commands:
        return tuple(
            replace(one, savepoint="/nowhere", error=None) if isinstance(one, c.AnswerRequest) else one for one in said
        )


class CallsItFinishedTooEarly(Broken):
    """Does not wait for the final checkpoint."""

    def bug(self, event: e.Event, said: _Commands) -> _Commands:
        return (c.RecordResult(state="FINISHED"), c.Exit()) if isinstance(event, e.TaskFinished) else said


class DeletesTheNewestCheckpoint(Broken):
    def bug(self, event: e.Event, said: _Commands) -> _Commands:
        return tuple(replace(one, keep=0) if isinstance(one, c.DiscardOlder) else one for one in said)


class DeletesWhatIsBeingSaved(Broken):
    def bug(self, event: e.Event, said: _Commands) -> _Commands:
        return tuple(replace(one, pinned=()) if isinstance(one, c.DiscardOlder) else one for one in said)


class ForgetsToClose(Broken):
    def bug(self, event: e.Event, said: _Commands) -> _Commands:
        return tuple(one for one in said if not isinstance(one, c.CloseTask))


class DoesNotWaitForTheCommit(Broken):
    """Takes the next checkpoint while transactions of the last one are not committed."""

    def handle(self, event: e.Event) -> _Commands:
        said = super().handle(event)
        if isinstance(event, e.ManifestWritten) and said:
            said += super().handle(e.TransactionsCommitted(checkpoint=event.checkpoint))
        return said


class ForgetsWhatIsInFlight(Broken):
    def bug(self, event: e.Event, said: _Commands) -> _Commands:
        return tuple(replace(one, in_flight={}) if isinstance(one, c.TakeSnapshot) else one for one in said)


class CutsOneBatchTooEarly(Broken):
    """The snapshot is taken behind another batch than the barrier."""

    def bug(self, event: e.Event, said: _Commands) -> _Commands:
        return tuple(
            replace(one, batch=one.batch - 1) if isinstance(one, c.TakeSnapshot) and one.batch >= 0 else one
            for one in said
        )


class LetsConsumersReadAll(Broken):
    """Barriers hold nobody back."""

    def __init__(self, graph: JobGraph, config: Config) -> None:
        super().__init__(graph, config)
        self.coordinator.snapshots.barriers._limit = lambda channel: channel.written  # type: ignore[method-assign]


class TriggersSourcesAlone(Broken):
    """As before FLIP-147: whose producers have all finished hears of no checkpoint."""

    def __init__(self, graph: JobGraph, config: Config) -> None:
        super().__init__(graph, config)
        barriers = self.coordinator.snapshots.barriers
        trigger = barriers.trigger

        def without_new_roots(checkpoint: int, roots: Iterable[SubtaskId], unaligned: bool) -> _Commands:
            return trigger(checkpoint, [root for root in roots if not barriers.inputs(root)], unaligned)

        barriers.trigger = without_new_roots  # type: ignore[method-assign]


class ClosesBeforeItsConsumersHaveRead(Broken):
    """EndOfData is not acknowledged."""

    def __init__(self, graph: JobGraph, config: Config) -> None:
        super().__init__(graph, config)
        self.tasks.is_acknowledged = lambda task: True  # type: ignore[method-assign]


class EndsBeforeItsChannelsAreRead(Broken):
    def __init__(self, graph: JobGraph, config: Config) -> None:
        super().__init__(graph, config)
        self.scheduler._barriers = barriers = copy.copy(self.scheduler._barriers)
        inputs = barriers.inputs
        barriers.inputs = lambda task: [replace(one, written=0) for one in inputs(task)]  # type: ignore[method-assign]


class TakesAnyCheckpointForItsLast(Broken):
    """Also one whose snapshot was taken before the end."""

    def handle(self, event: e.Event) -> _Commands:
        for state in self.tasks.states.values():
            state.covered = state.ended is not None and self.coordinator.settlement.completed.latest is not None
        return super().handle(event)


class ForgetsThatAStopWasGivenUp(Broken):
    """What had been checkpointed during it counts as its end."""

    def __init__(self, graph: JobGraph, config: Config) -> None:
        super().__init__(graph, config)
        order = self.scheduler.order

        def and_remember(task: SubtaskId, stop: Stop | None) -> c.Command:
            state = self.tasks.states[task]
            covered = state.covered
            command = order(task, stop)
            state.covered = covered
            return command

        self.scheduler.order = and_remember  # type: ignore[method-assign]


class HoldsBackForEver(Broken):
    """Nobody is told that he may read on."""

    def bug(self, event: e.Event, said: _Commands) -> _Commands:
        if isinstance(event, e.JobStarted):
            return said
        return tuple(one for one in said if not isinstance(one, c.AllowReading))


class LosesACheckpoint(Broken):
    """It is neither complete nor given up."""

    def bug(self, event: e.Event, said: _Commands) -> _Commands:
        return tuple(one for one in said if not isinstance(one, c.WriteManifest | c.AbortCheckpoint))


class LetsASavepointOvertake(Broken):
    """Although it was to be aligned."""

    def handle(self, event: e.Event) -> _Commands:
        told = replace(event, unaligned=True) if isinstance(event, e.CheckpointRequested) else event
        return super().handle(told)


class StopsOnceAnyTaskHasCaughtUp(Broken):
    """It does not wait for the others."""

    def handle(self, event: e.Event) -> _Commands:
        if isinstance(event, e.CaughtUp):
            self.tasks.have_caught_up = lambda: True  # type: ignore[method-assign]
        return super().handle(event)


FOUND_BY: dict[type[JobMachine], str] = {
    CommitsBeforeTheManifest: "what_is_committed_is_named",
    NeverCommits: "the_job_ends",
    CommitsNothingAfterACrash: "nothing_is_lost",
    AnswersBeforeTheResult: "results_come_before_answers",
    StartsTheFinishedAgain: "the_finished_stay_finished",
    RestartsWhatACheckpointCallsFinished: "the_finished_stay_finished",
    CallsASuspendedTaskFinished: "checkpoints_name_every_task",
    ForgetsAnAnswer: "every_request_is_answered_once",
    AnswersTwice: "every_request_is_answered_once",
    InventsASavepoint: "answers_are_true",
    CallsItFinishedTooEarly: "good_ends_have_committed_everything",
    DeletesTheNewestCheckpoint: "the_newest_checkpoint_is_kept",
    DeletesWhatIsBeingSaved: "what_is_being_saved_is_kept",
    ForgetsToClose: "the_job_ends",
    DoesNotWaitForTheCommit: "good_ends_have_committed_everything",
    ForgetsWhatIsInFlight: "checkpoints_are_consistent_cuts",
    CutsOneBatchTooEarly: "checkpoints_are_consistent_cuts",
    LetsConsumersReadAll: "no_event_is_illegal",
    TriggersSourcesAlone: "the_job_ends",
    ClosesBeforeItsConsumersHaveRead: "checkpoints_are_consistent_cuts",
    EndsBeforeItsChannelsAreRead: "nothing_is_lost",
    TakesAnyCheckpointForItsLast: "no_event_is_illegal",
    ForgetsThatAStopWasGivenUp: "no_event_is_illegal",
    HoldsBackForEver: "the_job_ends",
    LosesACheckpoint: "every_checkpoint_settles",
    StopsOnceAnyTaskHasCaughtUp: "a_stop_has_its_reason",
    LetsASavepointOvertake: "aligned_checkpoints_have_nothing_in_flight",
}


@pytest.mark.parametrize(("broken", "checker"), FOUND_BY.items(), ids=lambda item: getattr(item, "__name__", item))
def test_a_broken_protocol_is_found_out(broken: type[JobMachine], checker: str) -> None:
    lived = (live(seed, job=broken) for seed in range(250))
    assert any(line.startswith(f"{checker}:") for one in lived for line in one.wrong)


def test_every_checker_can_fail() -> None:
    """The test above shows it for those of `FOUND_BY`; rows that come twice are planted here."""
    planted = live(1).world
    planted.outputs.sink.update(list(planted.outputs.sink)[:1])
    silent = {checker.__name__ for checker in CHECKERS if not list(checker(planted))} - set(FOUND_BY.values())
    for seed, broken in itertools.product(range(20), FOUND_BY):
        if silent:
            silent -= {line.split(":")[0] for line in live(seed, job=broken).wrong}
    assert silent == set()


class ByTheClock:
    """What a driver would go by that takes the machine's clock for the time that has passed."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    def now_ms(self) -> int:
        return round(self._clock() * 1000)


class ForgetsToRestart(Broken):
    """A restart that is due is due again, later."""

    def handle(self, event: e.Event) -> _Commands:
        for state in self.tasks.states.values():
            if isinstance(event, e.Ticked) and state.restart_ms is not None:
                state.restart_ms = max(state.restart_ms, event.now_ms + 1)
        return super().handle(event)


def _late(**planted: Any) -> Iterator[str]:
    """What waits for too long in the lives in which the clock is set."""
    for seed in range(0, 600, 3):
        yield from (words for words in live(seed, **planted).wrong if words.startswith("times_are_kept"))


@pytest.mark.parametrize("what", ["the next checkpoint", "the restart of"])
def test_a_driver_that_goes_by_a_clock_that_is_set_is_found_out(what: str) -> None:
    assert any(what in words for words in _late(elapsed=ByTheClock))


def test_a_restart_that_never_comes_is_found_out() -> None:
    assert any("the restart of" in words for words in _late(job=ForgetsToRestart))


def test_a_driver_that_wakes_up_before_it_creates_a_manifest_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it meets a number that is used: a sink that goes by numbers then commits the same batches twice."""
    monkeypatch.setattr(CheckpointFolder, "fence", lambda *_: None)
    monkeypatch.setattr(CheckpointFolder, "use_up", lambda *_: True)
    seeds = (530, 679)
    assert any("in the table twice" in words for seed in seeds for words in live(seed).wrong)
    monkeypatch.undo()
    assert not any(live(seed).wrong for seed in seeds)
