"""The committed rows of a sink, read back: these files and no others, wherever they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from rekindle.sinks.two_phase import Commits, Committable
from rekindle.storage.port import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AS_TEXT = "rekindle.as_text"
"""Key in the metadata of a column that was something else, and is a string now; what is nested is JSON. It comes from
the names of folders, or from a database with types of its own."""

TEXT_OF = "rekindle.text_of"
"""Key in its metadata, beside that: JSON of the type that it had, where that is known."""

_NULL = "__HIVE_DEFAULT_PARTITION__"

_OPTIONS = {
    # A file is read where it lies, and nothing is concluded from its folders, which may lie below several roots.
    "recursiveFileLookup": "true",
    "__globPaths__": "false",
    "mergeSchema": "true",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
}


def read_files(
    spark: SparkSession, store: Store, paths: Sequence[str], *, columns_in_folders: bool = True
) -> DataFrame:
    """Return the rows of Parquet files.

    Args:
        paths: of files in `store`.
        columns_in_folders: folders ``column=value`` hold columns that the files do not have.
    """
    frame: DataFrame = spark.read.options(**_OPTIONS).parquet(*(store.spark_path(path) for path in paths))
    names = dict.fromkeys(name for path in paths for name in path.split("/")[:-1] if "=" in name)
    for folder in dict.fromkeys(name.partition("=")[0] for name in names) if columns_in_folders else ():
        column = unquote(folder)
        frame = frame.selectExpr("*", f"{_value_in_folder(folder)} AS {quoted(column)}")
        frame = frame.withMetadata(column, {AS_TEXT: True})
    return frame


def all_of(commits: Commits) -> list[Committable]:
    """Return what these checkpoints have committed."""
    return [one for each in commits.values() for one in each]


def quoted(column: str) -> str:
    """Return the name of a column as SQL takes it, whatever it holds."""
    return "`{}`".format(column.replace("`", "``"))


def _value_in_folder(folder: str) -> str:
    """Return SQL of the text after ``folder=`` in a file's path, where Spark escapes what no folder name may have.

    The path itself is a URI, so all of it is escaped once more. A blank is not written as ``+``.
    """
    path = "url_decode(replace(input_file_name(), '+', '%2B'))"
    text = folder.replace("\\", "\\\\").replace("'", "\\'")
    value = f"substring_index(substring_index({path}, '/{text}=', -1), '/', 1)"
    return f"nullif(url_decode(replace({value}, '+', '%2B')), '{_NULL}')"
