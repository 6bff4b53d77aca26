"""Wait until all rows up to a value are there: rows appear when their transaction commits, not when it draws a value.

Theory of operation
-------------------

One transaction draws 5, another draws 6 and commits first. A reader that reads 6 then and continues after it never sees
5. So rows up to a value are not read as soon as the value is seen. It becomes a *candidate*, and nothing greater is
looked at meanwhile. A transaction that may still bring a smaller value had begun before the candidate was seen. There
are two ways to wait:

- *Transactions* (PostgreSQL). The server says, after the moment of the look, which transactions run. Once none of those
  runs any more, all rows up to the candidate are there. A transaction that was prepared meanwhile (two-phase commit)
  may have another name then, so those that are prepared by then are waited for too; what is prepared later was not
  among them.
- *Lag*. A time, within which every transaction that has drawn a value is taken to end.

What is waited for is lost with the reader, which costs the wait again and nothing else. This module does not know
SQL, what a value is, nor the time, which is handed in.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

PREPARED = "-1/"
"""The beginning of the name that a transaction may have once it is prepared, as ``pg_locks`` has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A value that is there, and what has to pass before all smaller ones are."""

    value: str
    #: transactions that may bring a smaller one
    awaited: frozenset[str]
    #: time at which it was seen, by a clock that does not go back, s
    seen_s: float
    #: time for which it is to have been there, s
    lag_s: float
    #: True: those that were prepared meanwhile are among the awaited
    has_prepared: bool = False

    @classmethod
    def seen(cls, value: str, running: Collection[str], now_s: float, lag_s: float) -> Candidate:
        """Return the candidate for a value that is seen now.

        Args:
            running: the transactions that were running after it was seen.
            lag_s: how long it waits in any case.
        """
        awaited = frozenset(running)
        return cls(value=value, awaited=awaited, seen_s=now_s, lag_s=lag_s, has_prepared=not awaited)

    def looked(self, running: Collection[str]) -> Candidate:
        """Return the candidate once the server was asked again what runs."""
        left = self.awaited.intersection(running)
        if left or self.has_prepared:
            return replace(self, awaited=left)
        prepared = frozenset(one for one in running if one.startswith(PREPARED))
        return replace(self, awaited=prepared, has_prepared=True)

    def is_settled(self, now_s: float) -> bool:
        """Return whether all rows up to the value are there."""
        return self.has_prepared and not self.awaited and now_s >= self.seen_s + self.lag_s
