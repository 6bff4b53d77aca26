"""The DataFrames of sources: made by the user's function, or of the files that an inbox names."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyspark
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from rekindle.errors import DefinitionError, RekindleError
from rekindle.session.failures import brief, chain
from rekindle.session.servers import of_source
from rekindle.sources import Files, Source
from rekindle.sources.connectors import connector_missing
from rekindle.spark.inputs.watermark_rows import quoted
from rekindle.storage.documents.sources import FrozenFiles
from rekindle.storage.port import Store


def made_by(uid: str, function: Callable[[], Any]) -> DataFrame:
    """Return the DataFrame that the user's function makes.

    Raises:
        DefinitionError: ``SOURCE_FUNCTION_FAILED``: it makes none; ``CONNECTOR_MISSING``.
        InputError: ``SOURCE_SERVER_FAILED``.
    """
    try:
        frame = function()
    except RekindleError:
        raise
    except Exception as error:
        raise connector_missing(error, pyspark.__version__) or failed(uid, error) from error
    if not isinstance(frame, DataFrame):
        reason = f"it returned {type(frame).__name__}, not a DataFrame"
        raise DefinitionError("SOURCE_FUNCTION_FAILED", source=uid, reason=reason)
    return frame


def failed(uid: str, error: Exception) -> RekindleError:
    """Return the error of a source whose DataFrame could not be made, or not be evaluated."""
    of_server = of_source(chain(error), uid)
    return of_server or DefinitionError("SOURCE_FUNCTION_FAILED", source=uid, reason=brief(error))


def read_inbox(reader: Any, store: Store, folder: str, spec: Source, frozen: FrozenFiles) -> DataFrame:
    """Return the rows of the files of a bounded source that an inbox names, after its ``transform=``.

    Args:
        reader: ``spark.readStream``, or ``spark.read`` for all that was admitted.
    """
    schema = T.StructType.fromJson(frozen.schema)
    columns = {_field_of(schema, spelled).name: spelled for spelled in frozen.partition_columns}
    stored = T.StructType([field for field in schema if field.name not in columns])
    # The rows of a Batch source were written as Parquet.
    files = spec if isinstance(spec, Files) else Files("", format="parquet")
    reader = reader.format(files.format).schema(stored).options(**files.spark_options)
    frame: DataFrame = reader.option("recursiveFileLookup", "true").load(store.spark_path(folder))
    for name, spelled in columns.items():
        frame = frame.withColumn(name, _partition_value(spelled).cast(schema[name].dataType))
    if columns:
        frame = frame.select(*[F.col(quoted(field.name)) for field in schema])
    return frame if files.transform is None else files.transform(frame)


def _field_of(schema: T.StructType, folder: str) -> T.StructField:
    """Return the column of ``folder=value`` folders; ``schema=`` may write it with other capitals, as with Spark."""
    fields = [field for field in schema if field.name.lower() == folder.lower()]
    return next((field for field in fields if field.name == folder), fields[0])


def _partition_value(name: str) -> Any:
    """Return the value of ``name=…`` in the file's path, encoded once as a URI and once by what made the folder."""
    path = _percent_decoded(F.col("_metadata.file_path"))
    spelled = "".join(f"(?:{re.escape(letter)}|(?i:%{ord(letter):02x}))" for letter in name)
    raw = _percent_decoded(F.regexp_extract(path, f"^.*/{spelled}=([^/]*)/", 1))
    return F.when(raw != F.lit("__HIVE_DEFAULT_PARTITION__"), raw)


def _percent_decoded(text: Any) -> Any:
    """Decode as Spark does: ``%41`` is A, a plus is a plus, and a ``%`` that begins no code is itself."""
    return F.url_decode(F.replace(F.regexp_replace(text, "%(?![0-9A-Fa-f]{2})", "%25"), F.lit("+"), F.lit("%2B")))
