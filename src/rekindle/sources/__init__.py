"""The sources of a job: the specifications that a user passes to ``job.source(uid, spec, ...)``.

A specification is plain data. It says what kind of source it is (`kind`), whether the source ends by itself
(`bounded`), and how Spark gets at it; reading is the business of `rekindle.spark`. Nothing here imports PySpark.
"""

from __future__ import annotations

from typing import TypeAlias

from rekindle.sources.batch import Batch
from rekindle.sources.files import Files
from rekindle.sources.hybrid import Hybrid
from rekindle.sources.jdbc import Jdbc
from rekindle.sources.kafka import Kafka
from rekindle.sources.split_source import SplitSource
from rekindle.sources.stream import Stream

Source: TypeAlias = Files | Batch | Stream | SplitSource
"""Any specification of a source."""

__all__ = ["Batch", "Files", "Hybrid", "Jdbc", "Kafka", "Source", "SplitSource", "Stream"]
