"""How long a driver waits, and who asks it: between two looks, and for what is still under way at an end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """Pauses in seconds. Those between two looks are for a store of pace 1 (`Store.pace`)."""

    #: between two rounds of the driver's loop in which nothing happens
    loop_s: float = 0.05
    #: between two looks of a driver at what is asked
    control_s: float = 0.2
    #: between two heartbeats
    heartbeat_s: float = 1.0
    #: the longest of both where nothing happens to a job, and looks are paid for (`Rhythm`)
    control_at_rest_s: float = 0.5
    heartbeat_at_rest_s: float = 3.0
    #: how long the end of an attempt waits for its sinks to be closed
    close_s: float = 30.0
    #: how long a run that is over waits for orders that are still carried out, so that the next does not meet them
    leave_s: float = 5.0
    #: between two looks for an answer: at first, and at most
    answer_s: tuple[float, float] = (0.02, 0.1)
    #: between two looks at the driver itself, of those who wait for an answer
    driver_s: float = 1.0
    #: how long a cancel waits unless it is said. A driver that is well answers at once, whatever its batches do.
    cancel_s: float = 60.0


USUAL = Pauses()
