"""The simulator: whole lives of a job in milliseconds, each from a seed, without Spark, threads or a clock.

    python -m rekindle.testing.simulator --seeds 1000
    python -m rekindle.testing.simulator --seed 4711

A life is a `World` and one `Driver` after the other on it. First comes a time of turmoil: crashes between any two
steps, writes and commits that fail, queries that die, messages that come late or twice, requests at random. Then calm:
what ends by itself ends, what does not is drained. Afterwards every promise of `rekindle.testing.invariants` is
checked. The same seed always gives the same life; of a life that breaks a promise, the seed and the story are printed.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rekindle.config import Config
from rekindle.errors import ProtocolError
from rekindle.ids import SubtaskId
from rekindle.protocol import events as e
from rekindle.protocol.job import Job
from rekindle.protocol.states import JobState
from rekindle.testing.invariants import broken
from rekindle.testing.simulated_driver import Driver, Faults, JobFactory
from rekindle.testing.simulated_world import DriverDied, TaskFiles, World

TURMOIL_STEPS = 500
MOST_STEPS = 4_000
_CALM = Config(checkpoint_interval_ms=10_000, restart_delay_max_ms=4_000, checkpoint_tolerable_failures=3)


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
        calm: nothing fails and nobody asks for anything.
        job: makes the state machine; a test puts a broken one here to see that it is found out.
    """

    def __init__(self, seed: int, *, calm: bool = False, job: JobFactory = Job) -> None:
        self.seed = seed
        self.chance = random.Random(seed)  # noqa: S311 - lives are to be repeated, not to be secret
        self.faults = Faults(self.chance, 0 if calm else self.chance.choice((0, 3, 10, 30)))
        self.turmoil_steps = 0 if calm else TURMOIL_STEPS
        self.world = World(self._tasks(calm))
        self._make_job = job
        self._requests = 0
        self._drain_asked_of_run = 0
        self.now_ms = 0
        self.driver = self._driver()

    def _tasks(self, calm: bool) -> dict[SubtaskId, TaskFiles]:
        endless = 0.0 if calm else 0.3
        return {
            SubtaskId(f"t{task}", 0): TaskFiles(
                {
                    f"t{task}s{source}": None if self.chance.random() < endless else self.chance.choice((0, 3, 8, 20))
                    for source in range(self.chance.randint(1, 2))
                }
            )
            for task in range(self.chance.randint(1, 3))
        }

    def _config(self) -> Config:
        if self.turmoil_steps == 0:
            return _CALM
        return Config(
            checkpoint_interval_ms=self.chance.choice((0, 2_000, 10_000)),
            checkpoint_timeout_ms=self.chance.choice((20_000, 600_000)),
            checkpoint_min_pause_ms=self.chance.choice((0, 5_000)),
            checkpoint_retained=self.chance.choice((0, 1, 3)),
            checkpoint_tolerable_failures=self.chance.choice((0, 2, 99)),
            checkpoint_after_tasks_finish=self.chance.random() < 0.9,
            restart_attempts=self.chance.choice((0, 2, 9)),
            restart_delay_ms=self.chance.choice((0, 1_000)),
        )

    def _driver(self) -> Driver:
        job = self._make_job("simulated", tuple(self.world.tasks), self._config())
        driver = Driver(self.world, job, self.faults, self.now_ms)
        driver.begin()
        return driver

    def live(self) -> Life:
        """Run to the end, and judge."""
        wrong: list[str] = []
        try:
            for _ in range(MOST_STEPS):
                if self._over():
                    break
                self._step()
        except ProtocolError as error:
            wrong.append(f"no_event_is_illegal: {error.message.splitlines()[0]}")
        wrong += broken(self.world)
        return Life(self.seed, self.world, tuple(wrong), str(self.driver.job.story))

    def _over(self) -> bool:
        last = self.world.results.get(self.world.run)
        return self.driver.exited and last is not None and last.state in ("FINISHED", "DRAINED")

    def _step(self) -> None:
        if self.turmoil_steps:
            self.turmoil_steps -= 1
            if self.turmoil_steps == 0:
                # Settings that let a job end belong to the calm: a new driver brings them.
                self.faults.left = 0
                self._crash()
        if self.driver.exited:
            self.driver = self._driver()
        elif self.faults.strike(0.006):
            self._crash()
        else:
            self.chance.choice(self._moves())()

    def _crash(self) -> None:
        if not self.driver.exited:
            self.world.note(DriverDied())
        self.driver = self._driver()

    def _moves(self) -> list[Callable[[], None]]:
        """Everything that could happen next."""
        driver = self.driver
        moves: list[Callable[[], None]] = [self._tick]
        if driver.todo:
            moves += [driver.carry_out] * 4
        else:
            moves += [lambda at=source: driver.deliver(at) for source, events in driver.inbox.items() if events]  # type: ignore[misc]
        moves += [lambda at=lane: driver.advance(at) for lane, work in driver.lanes.items() if work]  # type: ignore[misc]
        idle = [task for task in driver.queries if driver.idle(task)]
        moves += [lambda at=task: driver.run_query(at) for task in idle]  # type: ignore[misc]
        if self.turmoil_steps:
            moves += [self._upset] if self.faults.left and self.chance.random() < 0.1 else []
        else:
            moves += [self._drain]
        return moves

    def _tick(self) -> None:
        self.now_ms += self.chance.choice((10, 300, 1_000, 5_000))
        if not self.driver.todo:
            self.driver.hear(e.Ticked(now_ms=self.now_ms))

    def _upset(self) -> None:
        """Something from outside: a request, the death of a query, a newer driver."""
        live = [task for task, query in self.driver.queries.items() if query.live]
        if live and self.faults.strike(0.3):
            self.driver.kill_query(self.chance.choice(live))
        elif self.faults.strike(0.03):
            self.driver.post("fence", e.DriverFenced(newer_run=self.world.run + 1))
        else:
            self._ask(self.chance.choice(_WISHES))

    def _ask(self, wish: Callable[[str], e.Event]) -> None:
        self._requests += 1
        self.driver.post("control", wish(f"q{self._requests}"))

    def _drain(self) -> None:
        """In calm, what has no end is drained, once a run."""
        endless = any(size is None for files in self.world.tasks.values() for size in files.sources.values())
        if endless and self._drain_asked_of_run != self.world.run and self.driver.job.state is JobState.RUNNING:
            self._drain_asked_of_run = self.world.run
            self._ask(lambda request: e.StopRequested(request=request, drain=True))


_WISHES: tuple[Callable[[str], e.Event], ...] = (
    *(lambda request: e.CheckpointRequested(request=request),) * 3,
    *(lambda request: e.CheckpointRequested(request=request, directory="/save"),) * 3,
    *(lambda request: e.StopRequested(request=request),) * 3,
    *(lambda request: e.StopRequested(request=request, directory="/stop"),) * 3,
    lambda request: e.StopRequested(request=request, drain=True),
    lambda request: e.StopRequested(request=request, drain=True, directory="/drain"),
    lambda request: e.CancelRequested(request=request),
)


def live(seed: int, *, calm: bool = False, job: JobFactory = Job) -> Life:
    """The life of `seed`, judged."""
    return Simulation(seed, calm=calm, job=job).live()


def main(arguments: Sequence[str] | None = None) -> int:
    """Live many lives; returns 1 if any broke a promise, and prints its seed and story."""
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
