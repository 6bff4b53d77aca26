"""The DataFrames of sources: made by the user's function, or of the files that an inbox names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyspark
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from rekindle.errors import DefinitionError, RekindleError
from rekindle.session.failures import brief
from rekindle.session.links import chain
from rekindle.session.servers import of_source
from rekindle.sources import Files, Source
from rekindle.sources.connectors import connector_missing
from rekindle.spark.inputs.watermark_rows import quoted
from rekindle.spark.schemas import schema_of
from rekindle.spark.user_functions import said_of
from rekindle.storage.documents.sources import FrozenFiles
from rekindle.storage.port import Store

_UTF8 = (
    "(?i)%(?:C[2-9A-F]|D[0-9A-F]|E0%[AB][0-9A-F]|ED%[89][0-9A-F]|E[1-9A-CEF]%[89AB][0-9A-F]|F0%[9AB][0-9A-F]%[89AB][0-9A-F]"
    "|F[1-3]%[89AB][0-9A-F]%[89AB][0-9A-F]|F4%8[0-9A-F]%[89AB][0-9A-F])%[89AB][0-9A-F]"
)
"""The code of a letter in UTF-8, of two to four bytes; of the form Unicode gives it."""


def made_by(uid: str, function: Callable[..., Any], *given: Any) -> DataFrame:
    """Return the DataFrame that the user's function makes of what it is given.

    Raises:
        DefinitionError: ``SOURCE_FUNCTION_FAILED``: it makes none; ``CONNECTOR_MISSING``.
        InputError: ``SOURCE_SERVER_FAILED``.
    """
    with building(uid, function):
        frame = function(*given)
    if not isinstance(frame, DataFrame):
        reason = f"it returned {type(frame).__name__}, not a DataFrame"
        raise DefinitionError("SOURCE_FUNCTION_FAILED", source=uid, reason=reason)
    return frame


@contextmanager
def building(uid: str, function: Callable[..., Any] | None = None) -> Iterator[None]:
    """Raise an exception of what builds a source inside as the error of that source.

    Args:
        function: the user's, which is called inside.
    """
    try:
        yield
    except RekindleError:
        raise
    except Exception as error:
        raise connector_missing(error, pyspark.__version__) or failed(uid, error, function) from error


def failed(uid: str, error: Exception, function: Callable[..., Any] | None = None) -> RekindleError:
    """Return the error of a source whose DataFrame could not be made, or not be evaluated."""
    said = brief(error) if function is None else said_of(error, function)
    return of_source(chain(error), uid) or DefinitionError("SOURCE_FUNCTION_FAILED", source=uid, reason=said)


def read_inbox(reader: Any, store: Store, folder: str, spec: Source, frozen: FrozenFiles) -> DataFrame:
    """Return the rows of the files of a bounded source that an inbox names, after its ``transform=``.

    Args:
        reader: ``spark.readStream``, or ``spark.read`` for all that was admitted.
    """
    schema = schema_of(frozen.schema)
    columns = {_field_of(schema, spelled).name: spelled for spelled in frozen.partition_columns}
    stored = T.StructType([field for field in schema if field.name not in columns])
    # The rows of a Batch source were written as Parquet.
    files = spec if isinstance(spec, Files) else Files("", format="parquet")
    with building(frozen.source):
        reader = reader.format(files.format).schema(stored).options(**files.spark_options)
        frame: DataFrame = reader.option("recursiveFileLookup", "true").load(store.spark_path(folder))
    if columns:
        # The hidden column, where the data has one of this name too.
        hidden = Column(frame._jdf.metadataColumn("_metadata"))  # PySpark 3.5 has no method for it
        path = _percent_decoded(hidden["file_path"])
        zone = next((zone for option, zone in files.spark_options.items() if option.lower() == "timezone"), None)
        values = {name: _partition_value(path, spelled) for name, spelled in columns.items()}
        frame = frame.withColumns({name: _typed(raw, schema[name].dataType, zone) for name, raw in values.items()})
        frame = frame.select(*[F.col(quoted(field.name)) for field in schema])
    return frame if files.transform is None else made_by(frozen.source, files.transform, frame)


def _field_of(schema: T.StructType, folder: str) -> T.StructField:
    """Return the column of ``folder=value`` folders; ``schema=`` may write it with other capitals, as with Spark."""
    fields = [field for field in schema if field.name.lower() == folder.lower()]
    return next((field for field in fields if field.name == folder), fields[0])


def _partition_value(path: Any, name: str) -> Any:
    """Return the value of ``name=…`` in the file's path, as what made the folder had it before it was encoded."""
    spelled = "".join(f"(?:{re.escape(letter)}|(?i:%{ord(letter):02x}))" for letter in name)
    raw = F.regexp_extract(path, f"^.*/{spelled}=([^/]*)/", 1)
    value = _percent_decoded(F.when(_is_utf8(raw), raw).otherwise(_as_utf8(raw)))
    return F.when(value != F.lit("__HIVE_DEFAULT_PARTITION__"), value)


def _typed(raw: Any, kind: T.DataType, zone: str | None) -> Any:
    """Return the value of a folder in the type of its column; a time that names no zone is in the reader's."""
    if zone is None or not isinstance(kind, T.TimestampType):
        return raw.cast(kind)
    row = F.to_json(F.struct(raw.alias("at")))
    # Null is what is no time: the cast says so, or makes null of it, as the session is set.
    return F.coalesce(F.from_json(row, "at timestamp_ltz", {"timeZone": zone})["at"], raw.cast(kind))


def _is_utf8(raw: Any) -> Any:
    return ~F.regexp_replace(raw, _UTF8, "_").rlike("%[89A-Fa-f][0-9A-Fa-f]")


def _as_utf8(raw: Any) -> Any:
    """Encode what is not UTF-8 as Spark understands it: each code from 80 to FF is a letter of Latin-1."""
    for first, second in ("Cc", "8"), ("Dd", "9"), ("Ee", "A"), ("Ff", "B"):
        raw = F.regexp_replace(raw, f"%[{first}]([0-9A-Fa-f])", f"%C3%{second}$1")
    return F.regexp_replace(raw, "(?<!%C3)%([89AaBb][0-9A-Fa-f])", "%C2%$1")


def _percent_decoded(text: Any) -> Any:
    """Decode as Spark does: ``%41`` is A, a plus is a plus, and a ``%`` that begins no code is itself."""
    return F.url_decode(F.replace(F.regexp_replace(text, "%(?![0-9A-Fa-f]{2})", "%25"), F.lit("+"), F.lit("%2B")))
