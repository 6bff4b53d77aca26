"""The pauses of a driver, and of its clients: between two looks, and for work still under way at an end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """The pauses in seconds. Those between two looks are for a store of pace 1 (`Store.pace`)."""

    #: between two rounds of the driver's loop in which nothing happens
    loop_s: float = 0.05
    #: between two looks of a driver at the requests
    control_s: float = 0.2
    #: between two heartbeats
    heartbeat_s: float = 1.0
    #: the longest of these two pauses while nothing happens to a job, if looks cost money (`Rhythm`)
    control_at_rest_s: float = 0.5
    heartbeat_at_rest_s: float = 3.0
    #: longest wait at the end of an attempt until its sinks are closed, and of a stop until its driver has ended
    close_s: float = 30.0
    #: longest wait at the end of a run for orders that are still carried out, so that the next run does not meet them
    leave_s: float = 5.0
    #: between two looks for an answer: at first, and at most
    answer_s: tuple[float, float] = (0.02, 0.1)
    #: between two looks of a waiting client at the driver itself
    driver_s: float = 1.0
    #: longest wait of a cancel by default. A healthy driver answers at once, whatever its batches do.
    cancel_s: float = 60.0


USUAL = Pauses()
