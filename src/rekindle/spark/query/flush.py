"""The flush: emptying a query's state when nothing more comes (docs/architecture.md#an-ending).

With the query held at a batch boundary, a batch is *planted*: the last one's offsets once more, with a watermark at the
end of time. Spark runs it without input and emits every window, session and outer row that is still in state, also
where operators follow each other. A user's own timers may set others as they fire: where there may be some, it is done
again, each time 1 ms higher, until a round changes nothing, and no user's code is shown a time that Python's dates
cannot hold. All else is done with the first round beyond the last days of the year 9999.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rekindle.progress.directory import last_committed, last_planned, plant, read_offsets
from rekindle.progress.stored_state import stateful_operators
from rekindle.storage.port import Store

END_OF_TIME_MS = 253_402_300_790_000
"""Ten seconds before the end of the year 9999, the last time that Python's dates know."""

BEYOND_TIME_MS = END_OF_TIME_MS + 2_000 * 366 * 86_400_000
"""A time after every window and join that a date of the year 9999 can be in. A user's own code never sees it."""

_HOLDING = ("stateStoreSave", "sessionWindowStateStoreSaveExec", "symmetricHashJoin")
"""Operators that hold rows to emit them one day; deduplication only remembers what it has emitted."""

_USERS_OWN = re.compile("transformWithState|GroupsWithState|InPandasWithState")
"""Operators in which a user's code may look at the watermark."""

_PROCESSOR = re.compile("transformWithState")
"""Those of them that keep their timers apart from their state."""

_INTERNAL = "rocksdbNumInternalColFamiliesKeys"
"""The figure that counts timers: each is kept by its group and by its time. It counts indexes of variables, too."""


@dataclass(frozen=True, slots=True)
class Flushed:
    """The result of a flush."""

    #: planted batches
    rounds: int
    #: the state is empty, or what is in it will never be emitted
    complete: bool
    #: rows that windows, sessions and joins still hold: an event time that is null, say, never ends
    left: int = 0
    #: rows of users' own operators that may wait for something: groups, or timers where these are known to be more
    waiting: int = 0
    #: timers of processors that have not fired, where they are known
    timers: int = 0


def flush(
    store: Store,
    progress_dir: str,
    run_planted: Callable[[int], tuple[int | None, Mapping[str, Any]]],
    max_rounds: int,
    first_ms: int = END_OF_TIME_MS,
) -> Flushed:
    """Plant batches until the state is empty, or nothing more comes out of it.

    Args:
        run_planted: runs the query for that one batch; returns how many rows came out, where that is known, and Spark's
            progress report on it, which is empty where Spark has made none in time.
        max_rounds: how many to try (``drain.max_rounds``).
        first_ms: the watermark of the first; `BEYOND_TIME_MS` where no user's own code is in the query.
    """
    aim_ms = first_ms
    for done in range(max_rounds):
        committed, batch = last_committed(store, progress_dir), last_planned(store, progress_dir)
        if batch > committed:
            # An earlier run has planted it, and may be at it still.
            watermark_ms = read_offsets(store, progress_dir, batch).batch_watermark_ms
        else:
            before_ms = read_offsets(store, progress_dir, committed).batch_watermark_ms
            watermark_ms = max(aim_ms, before_ms + 1)
            batch = plant(store, progress_dir, watermark_ms)
        rows_out, progress = run_planted(batch)
        if not progress:
            continue  # Spark owes its report: another round brings one
        operators = progress.get("stateOperators") or ()
        empty, changed = _state_after(rows_out, operators)
        users_own = any(_USERS_OWN.search(operator["operatorName"]) for operator in operators)
        if empty or (not changed if users_own else watermark_ms >= BEYOND_TIME_MS):
            only_timers = not _has_indexes(store, progress_dir, batch)
            return Flushed(
                done + 1,
                complete=True,
                left=_held(operators),
                waiting=_waiting(operators, only_timers),
                timers=sum(map(_timers, operators)) if only_timers else 0,
            )
        if not users_own:
            aim_ms = BEYOND_TIME_MS
    return Flushed(max_rounds, complete=False)


def _held(operators: Any) -> int:
    return sum(int(each["numRowsTotal"]) for each in operators if each["operatorName"] in _HOLDING)


def _has_indexes(store: Store, progress_dir: str, batch: int) -> bool:
    """Return True if Spark keeps indexes of a processor's variables: of lists, and of values that expire."""
    operators = stateful_operators(store, progress_dir, batch)
    return any(one.expires or one.kind == "ListState" for each in operators for one in each.variables.values())


def _waiting(operators: Any, only_timers: bool) -> int:
    """Return how many rows may wait for a timer, or to expire.

    Args:
        only_timers: nothing else is counted with timers; where that is not so, how many there are is not known.
    """
    found = 0
    for each in operators:
        groups, timers = int(each["numRowsTotal"]), _timers(each)
        if _USERS_OWN.search(each["operatorName"]) and (timers or not _PROCESSOR.search(each["operatorName"])):
            found += max(groups, timers) if only_timers else groups
    return found


def _timers(operator: Any) -> int:
    return int(operator.get("customMetrics", {}).get(_INTERNAL, 0)) // 2


def _state_after(rows_out: int | None, operators: Any) -> tuple[bool, bool]:
    """Return whether the state is empty, and whether this round has changed it or emitted what none after it repeats.

    In Python a time-out of a group stays set where the user's function leaves the state as it is: in each batch Spark
    calls it again, and gets the same rows. A timer of a processor is gone once it has fired.
    """

    def total(*names: str) -> int:
        found = (
            operator.get(name) or operator.get("customMetrics", {}).get(name) or 0
            for operator in operators
            for name in names
        )
        return sum(map(int, found))

    # Timers are rows of their own, which Spark counts apart.
    empty = total("numRowsTotal", _INTERNAL) == 0
    changed = total("numRowsUpdated", "numRowsRemoved", "numExpiredTimers", "numRegisteredTimers")
    has_processor = any(_PROCESSOR.search(operator["operatorName"]) for operator in operators)
    return empty, bool(changed or (rows_out and has_processor))
