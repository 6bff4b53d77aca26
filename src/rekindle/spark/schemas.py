"""Schemas that documents of the storage hold, as Spark's types."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from pyspark.sql.types import StructType


def schema_of(document: Mapping[str, Any]) -> StructType:
    """Return the schema that is written in a document, which stays as it is.

    PySpark changes what it reads a schema from, where a string has a collation, and then cannot read it once more.
    """
    return StructType.fromJson(deepcopy(dict(document)))
