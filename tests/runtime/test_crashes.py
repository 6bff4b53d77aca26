"""A driver that dies at a durable step, and a later one that goes on: nothing is lost and nothing comes twice.

From the step at which it dies on, nothing that the old driver's threads do is durable any more, as with ``kill -9``.
What is between a step's announcement and its deed may still happen, as with a driver that was only paused.
"""

from __future__ import annotations

import random
import threading

import pytest

from rekindle.runtime.steps import Steps
from tests.hanging import threads
from tests.runtime.kit import World

SEEDS = 40

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


class DeadError(BaseException):
    """Not an `Exception`: nobody survives it."""


class Death:
    """A `Steps` callable that dies at the n-th step, and at every later one."""

    def __init__(self, at: int) -> None:
        self._left = at
        self._lock = threading.Lock()
        self.heard: list[str] = []

    def __call__(self, name: str) -> None:
        with self._lock:
            self._left -= 1
            if self._left < 0:
                raise DeadError(name)
            self.heard.append(name)


def live_until(world: World, steps: Steps, verbs: list[str], config: dict[str, str]) -> str:
    """One life: run, ask for this and that, until it has ended or died; returns how it ended."""
    try:
        handle = world.start(steps, **config)
        for verb in verbs:
            threading.Thread(target=_ask, args=(handle, verb), daemon=True).start()
        result = handle.wait(30)
        assert result is not None, f"it hangs: {handle.status()}\n{threads()}"
        return result.state
    except DeadError:
        run = world.storage.latest_run()
        result = world.storage.result(run.run) if run else None
        return result.state if result else "DEAD"


def _ask(handle: object, verb: str) -> None:
    try:
        handle.stop(drain=True) if verb == "drain" else getattr(handle, verb)()  # type: ignore[attr-defined]
    except BaseException:
        return


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whenever_drivers_die_the_last_one_has_written_every_row_once(world: World, seed: int) -> None:
    chance = random.Random(seed)
    config = {"checkpoint.interval": "15 ms", "checkpoint.retained": "2", "restart.attempts": "1000"}
    world.rows.available, world.rows.ended = 12, chance.random() < 0.7
    world.rows.batch_rows = chance.randint(1, 4)
    state, lives = "", 0
    while state not in ("FINISHED", "DRAINED"):
        lives += 1
        dying = lives <= 4
        death = Death(chance.randint(3, 120) if dying else 1_000_000)
        verbs = chance.sample(["checkpoint", "savepoint", "stop", "cancel", "drain"], chance.randint(0, 1))
        if not dying:
            world.rows.ended, verbs = True, []
        state = live_until(world, death, verbs, config)
        assert state != "FAILED", f"seed {seed}"
        assert lives < 10
        for sink in world.sinks.values():
            assert len(sink.rows) == len(set(sink.rows)), f"seed {seed}: a row came twice"
    # A drain ends the job with what had been read; all of that is there.
    for uid, sink in world.sinks.items():
        assert sorted(sink.rows) == list(range(world.read())), f"seed {seed}: {uid}"
    if state == "FINISHED":
        assert world.all_committed()


def test_a_death_at_each_step_of_a_plain_life_is_survived(tmp_path_factory: pytest.TempPathFactory) -> None:
    """One life is listened to, then lived again and again, each time up to the next kind of step."""
    config = {"checkpoint.interval": "0"}

    def world() -> World:
        made = World(tmp_path_factory.mktemp("world"))
        made.rows.available = 4
        return made

    listening = Death(1_000_000)
    assert live_until(world(), listening, [], config) == "FINISHED"
    kinds = [name for name in dict.fromkeys(listening.heard) if not name.startswith("status.")]
    assert {"run.create/before", "record.create/after", "manifest.create/before", "result.create/after"} <= set(kinds)
    for kind in kinds:
        mortal, dead = world(), threading.Event()

        def die(name: str, kind: str = kind, dead: threading.Event = dead) -> None:
            if name == kind:
                dead.set()
            if dead.is_set():
                raise DeadError(name)

        if live_until(mortal, die, [], config) != "FINISHED":
            assert live_until(mortal, lambda name: None, [], config) == "FINISHED", kind
        assert mortal.all_committed(), kind
