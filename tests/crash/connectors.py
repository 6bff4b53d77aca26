"""The crash tests' job with a single sink of another system, and how what it has written is read back.

The sink is described by environment variables, so that a driver in a process of its own makes the same one.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rekindle as rk
from rekindle.sinks import TwoPhaseSink
from rekindle.testing.crash import ALL_MOMENTS
from tests.crash.kit import CrashWorld, Rows

SINK = "CRASH_SINK"
"""Names one of `SINKS`."""

TARGET = "CRASH_TARGET"
"""Where it writes: a connection string, a broker, a folder."""

SINKS: dict[str, Callable[[str], TwoPhaseSink]] = {
    "postgres": lambda dsn: rk.sinks.Postgres(dsn, "crash"),
    "kafka": lambda broker: rk.sinks.Kafka(broker, "crash", key="k"),
    "kafka-several": lambda broker: rk.sinks.Kafka(broker, "crash", key="k", producers=2),
    "postgres-atomic": lambda dsn: rk.sinks.Postgres(dsn, "crash", atomic=True),
    "delta": lambda folder: rk.sinks.Delta(Path(folder, "delta")),
    "iceberg": lambda folder: rk.sinks.Iceberg("local", "db.crash", properties=catalog(folder)),
}


def catalog(folder: str) -> dict[str, str]:
    """Properties of an Iceberg catalog of its own."""
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


STEPS = ("sink.prepare", "record.create", "manifest.create", "sink.commit", "committed.create", "sink.clean")
"""Steps around which a sink is in the middle of something; the others are the same for every sink."""

MOMENTS = tuple(moment for moment in ALL_MOMENTS if moment.step in STEPS)


class ConnectorWorld(CrashWorld):
    """The same world with one sink.

    Args:
        read: what the sink holds, read by another program.
    """

    job_file = Path(__file__).with_name("connector_job_file.py")

    def __init__(self, root: Path, read: Callable[[], Rows] = Counter) -> None:
        super().__init__(root)
        self._read = read

    def shaped(self, counted: Any) -> Any:
        """Flat rows."""
        return counted.selectExpr("window.start AS hour", "k", "v")

    def sinks(self) -> dict[str, TwoPhaseSink]:
        """The one that the environment names."""
        return {"out": SINKS[os.environ[SINK]](os.environ[TARGET])}

    def outputs(self) -> dict[str, Rows]:
        """What it holds."""
        return {"out": self._read()}
