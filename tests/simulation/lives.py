"""Lives from seeds."""

from __future__ import annotations

import random
from functools import partial

from rekindle.runtime.client import Wish
from tests.simulation.world import World, random_plan

_MOST_RUNS = 60
_CALM_S = 20_000

_WISHES = (
    *(Wish(verb="checkpoint"),) * 4,
    *(Wish(verb="stop"),) * 2,
    Wish(verb="cancel"),
    Wish(verb="stop", drain=True),
)


def live(seed: int) -> World:
    """The life of a seed; `AssertionError` where a promise is broken."""
    chance = random.Random(seed)
    world = World(random_plan(chance), seed)
    scheduler = world.scheduler
    # Apart, so that the lives of seeds stay what they were but for this.
    starts = random.Random(f"starts of {seed}")
    kills = chance.choice((0.0, 0.002, 0.01, 0.03))
    turmoil_runs = chance.randint(1, 12)

    def turmoil() -> None:
        while True:
            scheduler.pause(chance.choice((0.1, 1, 10)))
            if chance.random() < 0.3:
                world.ask(chance.choice(_WISHES))
            elif chance.random() < 0.1:
                scheduler.kill()
            world.set_clock(chance)

    def calm() -> None:
        """What has no end is drained."""
        scheduler.pause(60)
        began_s = scheduler.now_s
        while True:
            assert scheduler.now_s < began_s + _CALM_S, "it does not come to an end"
            if world.plan.live:
                world.ask(Wish(verb="stop", drain=True))
            scheduler.pause(500)

    for number in range(_MOST_RUNS):
        is_calm = number >= turmoil_runs
        scheduler.kill_at_a_write = 0 if is_calm else kills
        settings = {**world.plan.settings, "checkpoint.interval": "10 s"} if is_calm else world.plan.settings
        if not is_calm and chance.random() < 0.3:
            result = world.run(settings, turmoil, before_claim=partial(world.run, settings, turmoil))
        else:
            restore = None if is_calm or starts.random() < 0.4 else _newest(world)
            result = world.run(settings, calm if is_calm else turmoil, restore=restore)
        if result is not None and result.state in ("FINISHED", "DRAINED"):
            break
        assert result is None or result.state in ("STOPPED", "CANCELED"), f"{result}"
    else:
        raise AssertionError(f"it never ended: {world.results}")
    assert world.shown() == world.expected(), world.results
    assert not world.engine.late, f"dropped as late: {world.engine.late}"
    if result.state == "FINISHED":
        assert world.all_read(), "a job that has finished has read all"
    return world


def _newest(world: World) -> int | None:
    """The newest checkpoint, where a start from it needs no permission."""
    manifest = world.storage.newest_manifest()
    return None if manifest is None or manifest.drained else manifest.checkpoint
