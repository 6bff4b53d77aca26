"""The words of librdkafka: its errors, and its log, which says the same several times a second if a broker is away."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable

from confluent_kafka import KafkaException

_SILENT = ("_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN")
_EVERY_S = 60.0
_AT_MOST = 100
_OF_ANOTHER = "CONFWARN"
"""Producers, consumers and admin clients are given the same settings, and warn of those that are not theirs."""
_VARYING = re.compile(r"^\w+ (\[[^\]]*\] ?)*:|\d+ms")
"""The client and its thread, and how long something took."""


class SeldomTheSame(logging.Filter):
    """Let a line through once a minute, whichever client has it; never one about a setting that is another client's."""

    def __init__(self, elapsed_s: Callable[[], float] | None = None) -> None:
        super().__init__()
        self._elapsed_s = elapsed_s
        self._shown_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """See `logging.Filter`."""
        message = record.getMessage()
        if message.startswith(_OF_ANOTHER):
            return False
        line = _VARYING.sub("", message)
        now_s, shown_s = (self._elapsed_s or time.monotonic)(), self._shown_s.get(line)
        if shown_s is not None and now_s < shown_s + _EVERY_S:
            return False
        if len(self._shown_s) >= _AT_MOST:
            self._shown_s.clear()
        self._shown_s[line] = now_s
        return True


def said(error: Exception) -> str:
    """Return what librdkafka says of an error; it knows passwords, and does not repeat them."""
    first = error.args[0]
    if not isinstance(error, KafkaException):
        return str(first)
    silent = "no broker answers: " if first.name() in _SILENT else ""
    return f"{silent}{first.str()}"


# An error is raised; what else librdkafka logs is for programs that listen.
LOG = logging.getLogger("rekindle.kafka")
LOG.addHandler(logging.NullHandler())
LOG.addFilter(SeldomTheSame())
