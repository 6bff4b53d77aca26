"""Compare how far two jobs have read a custom source, by positions whose order is known.

What a position of a user's class means, only that class knows: two of them are the same, or nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from rekindle.protocol.custom_splits import SPLITS, key_of


def has_read(kind: str | None, later: Mapping[str, Any], earlier: Mapping[str, Any]) -> bool:
    """Return True if a job with the operator state `later` has surely read what one with `earlier` has.

    Args:
        kind: of the source.
    """
    if later == earlier or later.get("fully_finished"):
        return True
    is_as_far = _ORDERS.get(kind or "")
    if is_as_far is None or earlier.get("fully_finished"):
        return False
    ended, had_ended = (set((one["coordinator"] or {}).get("ended", ())) for one in (later, earlier))
    now, before = _positions(later), _positions(earlier)
    return had_ended <= ended and all(
        key in ended or (key in now and (position is None or is_as_far(now[key], position)))
        for key, position in before.items()
    )


def _positions(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the key of each open split → its position."""
    found = [one for own in state["subtasks"].values() if own for one in own[SPLITS]["entries"]]
    found += (state["coordinator"] or {}).get("waiting", ())
    return {key_of(one["id"]): one["position"] for one in found}


def _offsets(end: Any, before: Any) -> bool:
    return isinstance(end, dict) and all(
        all(end.get(topic, {}).get(number, -1) >= offset for number, offset in each.items())
        for topic, each in before.items()
    )


def _value(end: Any, before: Any) -> bool:
    """Return True if `end` is no less than `before`, as a number, or the same: only the database orders other types."""
    values = [one["after"] for one in (end, before) if one]
    if len(values) < 2 or {one["type"] for one in values} != {"number"}:
        return bool(end) and end == before
    return Decimal(values[0]["value"]) >= Decimal(values[1]["value"])


_ORDERS: dict[str, Callable[[Any, Any], bool]] = {"Kafka": _offsets, "Jdbc": _value}
"""Kind of source → whether the first of two positions is not before the second."""
