"""Which watermark W an input is given (DESIGN 6: the coordinator is the clock).

Spark takes the minimum of its inputs' watermarks and keeps an input's last one for ever, so an input that has ended
freezes the query unless it is told that its time is over. Rules:

1. an unordered bounded input has no W until it has ended: nothing of it is ever late;
2. an input that has ended is at the end of time while another one goes on;
3. when all have ended there is nothing to hold back: the flush does what is left, so no W is set;
4. Spark forgets every input's W on a restart, so what is in force is set again.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Watermark(Enum):
    """A watermark that the clock sets."""

    #: after every event time there can be
    END_OF_TIME = "end of time"


def watermarks(ended: Mapping[str, bool]) -> dict[str, Watermark]:
    """The watermarks in force, given which inputs of a query have ended; inputs without one are left out."""
    if all(ended.values()):
        return {}
    return {uid: Watermark.END_OF_TIME for uid, is_over in ended.items() if is_over}
