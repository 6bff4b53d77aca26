"""Sinks: where a task's output is committed, exactly once with a completed checkpoint.

Those that need an extra are loaded when they are first named.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from rekindle.errors import DefinitionError
from rekindle.protocol.commit import CommitPermit
from rekindle.sinks.delta import Delta
from rekindle.sinks.foreach import Foreach
from rekindle.sinks.iceberg import Iceberg
from rekindle.sinks.parquet import Parquet
from rekindle.sinks.two_phase import SinkBatch, TwoPhaseSink

if TYPE_CHECKING:
    from rekindle.sinks.kafka import Kafka
    from rekindle.sinks.postgres import Postgres

_EXTRAS = {"Kafka": "kafka", "Postgres": "postgres"}
"""Sink → its module here, and the extra that it needs."""


if not TYPE_CHECKING:  # else a checker of types would take any name for one of ours

    def __getattr__(name: str) -> object:
        extra = _EXTRAS.get(name)
        if extra is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            return getattr(import_module(f"{__name__}.{extra}"), name)
        except ModuleNotFoundError as error:
            raise DefinitionError("SINK_LIBRARY_MISSING", sink=name, library=error.name, extra=extra) from error


__all__ = ["CommitPermit", "Delta", "Foreach", "Iceberg", "Kafka", "Parquet", "Postgres", "SinkBatch", "TwoPhaseSink"]
