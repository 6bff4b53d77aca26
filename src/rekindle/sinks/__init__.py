"""Sinks: where a task's output is committed, exactly once with a completed checkpoint."""

from rekindle.protocol.commit import CommitPermit
from rekindle.sinks.delta import Delta
from rekindle.sinks.foreach import Foreach
from rekindle.sinks.iceberg import Iceberg
from rekindle.sinks.parquet import Parquet
from rekindle.sinks.two_phase import SinkBatch, TwoPhaseSink

__all__ = ["CommitPermit", "Delta", "Foreach", "Iceberg", "Parquet", "SinkBatch", "TwoPhaseSink"]
