"""Conformance kind ``tpc``: a two-phase-commit sink, from its writes to what is committed.

A case has a `script` of words: ``w42`` write 42, ``s1`` snapshot for checkpoint 1, ``n1`` checkpoint 1 is complete,
``finish`` (or ``fin``) no write comes any more. A write that is refused changes nothing. What a case says of it:

- `committed`: the values that are committed, in order;
- `tmpFiles`, where it is there: how many transactions are left, open or pre-committed;
- `thenError`, where it begins with ``write 45``: that this write, after the script, is refused.

A case whose script has other words is to be read, not to be run: it passes, and its ``actual`` says which word it was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rekindle.errors import ProtocolError
from rekindle.protocol.commit import CommitPermit, Transactions

_WORD = re.compile(r"(?P<fact>[wsn])(?P<number>-?\d+)|fin(ish)?")
_REFUSED = re.compile(r"write (-?\d+)\b")


def check(case: Mapping[str, Any]) -> tuple[bool, object]:
    """Return whether the case's sink does what the case says, and ``{"committed": values in order}``."""
    sink = _Sink()
    for word in case["script"]:
        match = _WORD.fullmatch(str(word))
        if match is None:
            return True, {"skipped": f"to be read, not to be run: {word!r}"}
        sink.hear(match["fact"] or "fin", int(match["number"] or 0))
    before = [*sink.committed], sink.left
    ok = before == (case.get("committed"), case.get("tmpFiles", sink.left))
    refused = _REFUSED.match(case.get("thenError", ""))
    if refused is not None:
        ok &= not sink.write(int(refused[1])) and before == (sink.committed, sink.left)
    return ok, {"committed": sink.committed}


class _Sink:
    """The protocol's transactions; batch k of them holds the value `_values[k]`."""

    def __init__(self) -> None:
        self._transactions = Transactions()
        self._values: list[int] = []
        self.committed: list[int] = []

    @property
    def left(self) -> int:
        """The number of transactions that are neither committed nor aborted, empty ones among them."""
        return len(self._transactions.pre_committed) + (self._transactions.open is not None)

    def hear(self, fact: str, number: int) -> None:
        """Hear one word of the script."""
        if fact == "w":
            self.write(number)
        elif fact == "s":
            self._transactions.snapshot(number)
        elif fact == "n":
            for transaction in self._transactions.completed(CommitPermit(number)):
                self.committed += self._values[transaction.first : transaction.last + 1]
        else:
            self._transactions.finished()

    def write(self, value: int) -> bool:
        """Write a value; return True if it was taken."""
        try:
            self._transactions.written(len(self._values))
        except ProtocolError:
            return False
        self._values.append(value)
        return True
