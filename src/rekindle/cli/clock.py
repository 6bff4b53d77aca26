"""The clock of a verb: the machine's, unless its caller hands another one to click (``obj=``)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import click

from rekindle.runtime.pauses import USUAL, Pauses


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbClock:
    """The time, and the pauses of one verb."""

    #: milliseconds since the epoch
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    #: milliseconds that have passed since some moment
    elapsed_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000
    #: does nothing for so many seconds, before a look at what has changed
    wait: Callable[[float], None] = time.sleep
    #: between two looks for the answer of a driver
    pauses: Pauses = USUAL


_MACHINES = VerbClock()


def clock() -> VerbClock:
    """Return the clock of the verb that runs."""
    context = click.get_current_context(silent=True)
    return (context.find_object(VerbClock) if context is not None else None) or _MACHINES
