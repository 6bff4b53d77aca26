"""The simulator: whole lives of a job in milliseconds, each from a seed, without Spark, threads or a clock.

    python -m rekindle.testing.simulator --seeds 1000
    python -m rekindle.testing.simulator --seed 4711

A life is a `World` and one `SimulatedDriver` after the other on it. First comes a time of turmoil: crashes between any
two steps, writes and commits that fail, queries that die, messages that come late or twice, a clock that is set,
requests at random. Then calm: what ends by itself ends, what does not is drained. Afterwards every promise of
`rekindle.testing.invariants` is checked; that nothing waits for longer than for its time is looked at all along
(`rekindle.testing.punctuality`). The same seed always gives the same life; of a life that breaks a promise, the seed
and the story are printed.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from rekindle.config import Config
from rekindle.errors import ProtocolError
from rekindle.protocol import events as e
from rekindle.protocol.job import JobMachine
from rekindle.protocol.states import JobState
from rekindle.runtime.elapsed import Elapsed
from rekindle.testing.faults import Faults
from rekindle.testing.invariants import broken
from rekindle.testing.punctuality import Punctuality
from rekindle.testing.simulated_chance import new_config, new_world
from rekindle.testing.simulated_driver import JobFactory, SimulatedDriver
from rekindle.testing.simulated_engine import SimulatedEngine
from rekindle.testing.simulated_facts import DriverDied
from rekindle.testing.simulated_run import SimulatedRun
from rekindle.testing.simulated_world import World

TURMOIL_STEPS = 500
MOST_STEPS = 6_000
_CALM = Config(checkpoint_interval_ms=10_000, restart_delay_max_ms=4_000, checkpoint_tolerable_failures=3)


_CLOCK_IS_SET = 0.02
_CLOCK_JUMPS_S = (86_400, -3_600, -86_400)
"""The part of all ticks at which the machine's clock is set; and by how many seconds."""
_LOOK_MS = 500
"""The most that passes between two looks of a driver's loop, however rarely the protocol hears of it."""


class Clock(Protocol):
    """A clock that tells a driver how long it has been at work."""

    def now_ms(self) -> int:
        """Return how long the driver has been at work, ms."""
        ...


ElapsedFactory = Callable[[Callable[[], float]], Clock]


@dataclass(frozen=True, slots=True)
class Life:
    """A life that is over."""

    seed: int
    world: World
    #: promises that were broken, in words
    wrong: tuple[str, ...]
    #: the last driver's story
    story: str


class Simulation:
    """One life of a job.

    Args:
        calm: nothing fails and no one asks for anything.
        job: makes the state machine; a test puts a broken one here to see that it is found out.
        elapsed: makes the driver's `Clock` from one that shows seconds; a test puts a broken one here too.
    """

    def __init__(
        self,
        seed: int,
        *,
        calm: bool = False,
        job: JobFactory = JobMachine,
        elapsed: ElapsedFactory = Elapsed,
        world: World | None = None,
    ) -> None:
        self.seed = seed
        self.chance = random.Random(seed)  # noqa: S311 - lives are to be repeated, not to be secret
        self.faults = Faults(self.chance, 0 if calm else self.chance.choice((0, 3, 10, 30)))
        self._faults_at_first = self.faults.left
        self._turmoil_steps = 0 if calm else TURMOIL_STEPS
        self.world = world or new_world(self.chance, calm=calm)
        #: in one life of four; the others are as they would be without it
        self._engine_dies = seed % 4 == 1
        self._make_job, self._make_elapsed = job, elapsed
        #: sets the machine's clock in one life of three; of its own, so that nothing else in a life depends on it
        self._clock_setter = random.Random(f"clock {seed}")  # noqa: S311 - as above
        self._clock_is_set = not calm and seed % 3 == 0
        #: lets most runs stop by themselves in one life of five; of its own, as above
        self._available = random.Random(f"available {seed}")  # noqa: S311 - as above
        self._stops_by_itself = seed % 5 == 2
        self._requests = 0
        self._drain_asked_of_run = 0
        #: time that the machine's clock shows, seconds, and that has really passed, ms
        self._clock_s, self._true_ms = 0.0, 0
        #: waits that were longer than they may be, in words
        self.late: set[str] = set()
        #: drivers that were thought dead and only slept, with the moves they have left
        self._sleepers: list[tuple[SimulatedDriver, int]] = []
        self.driver = self._driver()

    def _driver(self, before: SimulatedDriver | None = None) -> SimulatedDriver:
        """Return the next driver; where it follows one of its own process, it hears what that one left unanswered."""
        config = _CALM if self._turmoil_steps == 0 else new_config(self.chance)
        job = self._make_job(self.world.graph, config)
        over = before.engine.failed_over if before is not None else None
        engine = SimulatedEngine(failures=over.failures if over else 0)
        available = self._available if self._stops_by_itself and self._available.random() < 0.8 else None
        driver = SimulatedDriver(SimulatedRun(self.world, self.faults, available=available), job, engine)
        self.elapsed = self._make_elapsed(lambda: self._clock_s)
        self._now_ms = self.elapsed.now_ms()
        self.punctuality = Punctuality(job, config)
        driver.begin()
        for event in before.unanswered.values() if before is not None and over is not None else ():
            driver.run.post("control", event)
        return driver

    def live(self) -> Life:
        """Run to the end, and judge."""
        wrong: list[str] = []
        try:
            for _ in range(MOST_STEPS):
                if self._over():
                    break
                self._step()
        except (ProtocolError, AssertionError) as error:
            wrong.append(f"no_event_is_illegal: {str(error).splitlines()[0]}")
        wrong += sorted(self.late)
        wrong += broken(self.world)
        wrong += () if wrong else self._gone_on_elsewhere()
        return Life(self.seed, self.world, tuple(wrong), str(self.driver.job.story))

    def _gone_on_elsewhere(self) -> list[str]:
        """Restore a checkpoint of this life under another storage, now and then; return what goes wrong there."""
        numbers = [number for number, manifest in self.world.checkpoints.manifests.items() if not manifest.drained]
        if not self._faults_at_first or not numbers or self.chance.random() < 0.7:
            return []
        number = self.chance.choice(numbers)
        fork = Simulation(self.seed, calm=True, job=self._make_job, world=self.world.forked(number))
        return [f"continued from checkpoint {number}: {words}" for words in fork.live().wrong]

    def _over(self) -> bool:
        last = self.world.results.get(self.world.run)
        return self.driver.exited and last is not None and last.state in ("FINISHED", "DRAINED")

    def _step(self) -> None:
        if self._turmoil_steps:
            self._turmoil_steps -= 1
            if self._turmoil_steps == 0:
                # Settings that let a job end belong to the calm: a new driver brings them.
                self.faults.left = 0
                self._crash()
        if self.driver.exited:
            self.driver = self._driver(self.driver)
        elif self.faults.strike(0.006):
            self._crash()
        else:
            self.chance.choice(self._moves())()

    def _crash(self) -> None:
        if not self.driver.exited:
            self.world.note(self.world.run, DriverDied())
            if self.faults.strike(0.3):
                self.driver.run.has_looked = True
                self._sleepers.append((self.driver, self.chance.randint(1, 30)))
        self.driver = self._driver()

    def _wake(self) -> None:
        """Let a driver that was thought dead do one more thing; then it finds out that it is fenced."""
        sleeper, left = self._sleepers.pop()
        moves = sleeper.moves()
        if moves and left and not sleeper.exited:
            # What others have done meanwhile may be illegal to it: that kills it, and is none of theirs.
            with suppress(ProtocolError):
                self.chance.choice(moves)()
                self._sleepers.append((sleeper, left - 1))

    def _moves(self) -> list[Callable[[], None]]:
        """Return everything that could happen next."""
        moves = [self._tick, *self.driver.moves()]
        if self._sleepers:
            moves.append(self._wake)
        if self._turmoil_steps:
            moves += [self._upset] if self.faults.left and self.chance.random() < 0.1 else []
        else:
            moves += [self._drain]
        return moves

    def _tick(self) -> None:
        left_ms = self.chance.choice((10, 300, 1_000, 5_000))
        if self._clock_is_set and self._clock_setter.random() < _CLOCK_IS_SET:
            self._clock_s += self._clock_setter.choice(_CLOCK_JUMPS_S)
        while left_ms:
            passed_ms = min(left_ms, _LOOK_MS)
            left_ms, self._true_ms = left_ms - passed_ms, self._true_ms + passed_ms
            self._clock_s += passed_ms / 1_000
            self._now_ms = self.elapsed.now_ms()
        if not self.driver.todo:
            self.driver.hear(e.Ticked(now_ms=self._now_ms))
            self.late.update(self.punctuality.late(self._true_ms))

    def _upset(self) -> None:
        """Let something come from outside: a request, the death of a query or of the engine, a newer driver."""
        tasks = self.driver.tasks.values()
        live = [task for task in tasks if task.query.live]
        if live and self.faults.strike(0.3):
            self.chance.choice(live).kill_query()
        elif self._engine_dies and not self.driver.engine.lost and self.faults.strike(0.2):
            self.driver.engine.kill(self.driver.run, tasks, replaceable=self.chance.random() < 0.7)
        elif self.faults.strike(0.03):
            self.driver.run.post("fence", e.DriverFenced(newer_run=self.world.run + 1))
        else:
            self._ask(self.chance.choice(_CHECKPOINTS if self._is_let_be() else _REQUESTS))

    def _is_let_be(self) -> bool:
        """Return whether no one asks for an end now: most runs that stop by themselves would never come to that."""
        return self.driver.run.available is not None and self._available.random() < _LET_BE

    def _ask(self, event: Callable[[str], e.Event]) -> None:
        self._requests += 1
        self.driver.run.post("control", event(f"q{self._requests}"))

    def _drain(self) -> None:
        """Ask for a drain, once a run, if a source has no end."""
        endless = any(size is None for files in self.world.tasks.values() for size in files.sources.values())
        may_ask = self._drain_asked_of_run != self.world.run and self.driver.job.state is JobState.RUNNING
        if endless and may_ask and not self._is_let_be():
            self._drain_asked_of_run = self.world.run
            self._ask(lambda request: e.StopRequested(request=request, drain=True))


_LET_BE = 0.97
"""The part of the requests for an end that are not made in a run that stops by itself."""

_CHECKPOINTS: tuple[Callable[[str], e.Event], ...] = (
    *(lambda request: e.CheckpointRequested(request=request),) * 3,
    *(lambda request: e.CheckpointRequested(request=request, directory="/save"),) * 2,
    lambda request: e.CheckpointRequested(request=request, directory="/unaligned", unaligned=True),
)

_REQUESTS: tuple[Callable[[str], e.Event], ...] = (
    *_CHECKPOINTS,
    *(lambda request: e.StopRequested(request=request),) * 3,
    *(lambda request: e.StopRequested(request=request, directory="/stop"),) * 5,
    lambda request: e.StopRequested(request=request, unaligned=True),
    lambda request: e.StopRequested(request=request, directory="/unaligned", unaligned=True),
    lambda request: e.StopRequested(request=request, drain=True),
    lambda request: e.StopRequested(request=request, drain=True, directory="/drain"),
    lambda request: e.CancelRequested(request=request),
)


def live(seed: int, *, calm: bool = False, job: JobFactory = JobMachine, elapsed: ElapsedFactory = Elapsed) -> Life:
    """Live the life of `seed`, and judge it."""
    return Simulation(seed, calm=calm, job=job, elapsed=elapsed).live()


def main(arguments: Sequence[str] | None = None) -> int:
    """Live many lives; print the seed and story of each that broke a promise. Return 1 if any did, else 0."""
    parser = argparse.ArgumentParser(prog="python -m rekindle.testing.simulator", description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=1_000, help="how many lives (default 1000)")
    parser.add_argument("--seed", type=int, help="one life alone, with its whole history")
    options = parser.parse_args(arguments)
    seeds = range(options.seeds) if options.seed is None else [options.seed]
    failed = 0
    for seed in seeds:
        lived = live(seed)
        if options.seed is not None:
            for run, thing in lived.world.history:
                print(f"run {run:>2}  {thing}")
        if lived.wrong:
            failed += 1
            print(f"seed {seed}:", *lived.wrong, "story of the last driver:", lived.story, sep="\n  ")
    print(f"{len(seeds)} lives, {failed} of them broke a promise")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
