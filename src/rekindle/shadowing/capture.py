"""The sinks of a shadow: Parquet files in its own folder, whatever the sinks of its job are."""

from __future__ import annotations

from typing import ClassVar

from rekindle.sinks import Parquet


class Captured(Parquet):
    """The rows that a sink would get, in a folder of the shadow."""

    kind: ClassVar[str] = "Captured"
    output_modes: tuple[str, ...] = ("append", "update", "complete")
