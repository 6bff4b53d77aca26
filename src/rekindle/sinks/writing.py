"""Parquet files that Spark writes into a new folder, and the driver then finds there: all of them, and no others.

Two things go wrong between the executors, which write, and the driver, which looks. The folder may not be the same one
to both: on a cluster whose workers do not share it, Spark reports success and the driver finds nothing. And attempts of
tasks that died, or lost a race, leave files below ``_temporary``, which belong to no output. So what is found is what
Spark's job has put into place, and it is compared with what the write's own statistics say: they come back with the
result of each task that Spark took as done, so they cost no evaluation, no job and no file.

Spark shows these statistics to no caller of ``DataFrame.write``. The command that it runs has them; it is made here
from the same parts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rekindle.errors import StorageError
from rekindle.sinks.reading import quoted
from rekindle.sinks.session_settings import for_old_times, set_while
from rekindle.storage.addresses import shown
from rekindle.storage.port import Entry, NotFound, Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOOKS_AGAIN_AFTER_S = (0.5, 2.0)
"""Pauses before another look, in seconds: a mounted file system may show a folder as it was a moment ago."""

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""Value of a partition's folder that readers take for null."""

_REQUESTS_AT_ONCE = 16

# The folder is private to the attempt, so files can be moved there directly, and no reader looks for a success marker.
_OPTIONS = {
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}

_Item = TypeVar("_Item")
_Done = TypeVar("_Done")


class Counts(NamedTuple):
    """The numbers of files and rows that the tasks of a write say they have written."""

    files: int
    rows: int


class WrittenFile(NamedTuple):
    """A file with rows."""

    #: relative to the folder that was written
    path: str
    rows: int
    bytes: int


def write_parquet(
    df: DataFrame,
    store: Store,
    folder: str,
    partition_by: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    check: Callable[[Any], None] | None = None,
) -> list[WrittenFile]:
    """Write `df` into the new `folder` and return its files that have rows. Where that fails, the folder is deleted.

    Args:
        check: is called with the footer of each of them, and may raise.

    Raises:
        StorageError: ``OUTPUT_NOT_SHARED``, ``OUTPUT_INCOMPLETE``; why the place cannot be written (`Store.replace`).
    """
    try:
        return _written(df, store, folder, partition_by, {**_OPTIONS, **(options or {})}, check)
    except Exception as error:
        with suppress(Exception):  # the failure of the write is what is reported
            store.delete_tree(folder)
        _probe(store, folder, error)
        raise


def _probe(store: Store, folder: str, failed: Exception) -> None:
    """Raise what the store says if nothing can be written there: Spark says only that a folder is missing."""
    if store.pace != 1:
        return  # a server may be away, and be waited for
    probe = "/".join([*folder.split("/")[:-1], ".probe"])
    try:
        store.replace(probe, b"")
        store.delete(probe)
    except StorageError as error:
        raise error from failed


def _written(
    df: DataFrame,
    store: Store,
    folder: str,
    partition_by: Sequence[str],
    options: Mapping[str, Any],
    check: Callable[[Any], None] | None,
) -> list[WrittenFile]:
    counts = run_write(_with_nulls(df, partition_by), store.spark_path(folder), partition_by, options)

    def look() -> tuple[Counts, list[WrittenFile]]:
        entries = _entries(store, folder)
        footers = for_each(store, lambda entry: read_footer(store, entry.path), entries)
        files = [
            WrittenFile(entry.path.removeprefix(f"{folder}/"), footer.num_rows, entry.size_bytes)
            for entry, footer in zip(entries, footers, strict=True)
        ]
        if check is not None:
            for footer in footers:
                if footer.num_rows:
                    check(footer)
        return Counts(len(files), sum(file.rows for file in files)), [file for file in files if file.rows]

    return _all_of(counts, look, store, folder)


def _with_nulls(df: DataFrame, partition_by: Sequence[str]) -> DataFrame:
    """Return `df` with null for texts that share its folder: for two values a task would write one file twice."""
    if not partition_by:
        return df
    by = {name.lower() for name in partition_by}  # Spark finds them whatever their case is
    texts = {field.name for field in df.schema.fields if field.dataType.simpleString() == "string"}
    columns = {name: quoted(name) for name in df.columns}
    shared = {name: f"nullif({columns[name]}, '{NULL_FOLDER}')" for name in texts if name.lower() in by}
    if not shared:
        return df
    return df.selectExpr(*(f"{shared.get(name, column)} AS {column}" for name, column in columns.items()))


def write_unread(df: DataFrame, store: Store, folder: str) -> list[Entry]:
    """Write `df` into the new `folder` and return its files, unread: only their number is compared.

    Raises:
        StorageError: ``OUTPUT_NOT_SHARED``, ``OUTPUT_INCOMPLETE``.
    """
    counts = run_write(df, store.spark_path(folder), (), _OPTIONS)

    def look() -> tuple[Counts, list[Entry]]:
        entries = _entries(store, folder)
        return Counts(len(entries), counts.rows if len(entries) == counts.files else 0), entries

    return _all_of(counts, look, store, folder)


def read_footer(store: Store, path: str) -> Any:
    """Return the footer of a Parquet file (`pyarrow.parquet.FileMetaData`)."""
    import pyarrow.parquet as pq  # only drivers need it; the command line starts without

    with store.open(path) as file:
        return pq.read_metadata(file)


def for_each(store: Store, act: Callable[[_Item], _Done], items: Iterable[_Item]) -> list[_Done]:
    """Return what `act` returns for each item, in order; several run at a time where each is a request to a store."""
    if store.pace == 1:
        return [act(item) for item in items]
    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
        return list(pool.map(act, items))


def _all_of(counts: Counts, look: Callable[[], tuple[Counts, list[_Item]]], store: Store, folder: str) -> list[_Item]:
    """Return the files once they are as many, and hold as many rows, as the tasks have written."""
    seen = Counts(0, 0)
    for pause in (*LOOKS_AGAIN_AFTER_S, None):
        try:
            seen, files = look()
        except NotFound:  # listed and gone
            files = []
        if seen == counts:
            return files
        if pause is not None:
            time.sleep(pause)
    code = "OUTPUT_INCOMPLETE" if seen.files else "OUTPUT_NOT_SHARED"
    raise StorageError(
        code,
        place=f"{shown(store.location)}/{folder}",
        files=counts.files,
        rows=counts.rows,
        seen_files=seen.files,
        seen_rows=seen.rows,
    )


def _entries(store: Store, folder: str) -> list[Entry]:
    return [
        entry
        for entry in store.walk(folder)
        if entry.path.endswith(".parquet")
        and not any(_hidden(name) for name in entry.path.removeprefix(f"{folder}/").split("/"))
    ]


def _hidden(name: str) -> bool:
    """Return whether Spark's readers skip a name; they never skip the folder of a partition, whatever its name."""
    return name.startswith(("_", ".")) and "=" not in name


# -- Spark's command ---------------------------------------------------------------------------------------------------


def run_write(df: DataFrame, path: str, partition_by: Sequence[str], options: Mapping[str, Any]) -> Counts:
    """Let Spark write `df`, as ``DataFrame.write.parquet`` does, and return what its tasks have counted."""
    session: Any = df.sparkSession
    jvm, state = session._jvm, session._jsparkSession.sessionState()
    # By its whole name: Spark's JVM would look for each package on the way in all its jars.
    sources = getattr(jvm, "org.apache.spark.sql.execution.datasources.DataSource")
    scala = getattr(jvm, "org.apache.spark.api.python.PythonUtils")
    settings = {name: _text(value) for name, value in options.items()} | {"path": path}
    arguments = [session._jsparkSession, "parquet", *_defaults(sources, "apply", 3)]
    arguments[4] = scala.toSeq(list(partition_by))
    arguments[6] = scala.toScalaMap(settings)
    missing = getattr(jvm, "org.apache.spark.sql.SaveMode").ErrorIfExists
    plan = sources.apply(*arguments).planForWriting(missing, df._jdf.logicalPlan())
    execution = state.executePlan(plan, *_defaults(state, "executePlan", 2))
    with set_while(session, for_old_times(session)):
        execution.assertCommandExecuted()
    metrics = _command(execution.commandExecuted().commandPhysicalPlan()).metrics()
    return Counts(*(int(metrics.apply(name).value()) for name in ("numFiles", "numOutputRows")))


def _defaults(owner: Any, method: str, first: int) -> list[Any]:
    """Return the defaults of a Scala method's parameters, from the number `first` on."""
    from py4j.protocol import Py4JError  # only drivers have it; the command line starts without

    found: list[Any] = []
    with suppress(Py4JError):  # no parameter follows
        while True:
            found.append(getattr(owner, f"{method}$default${first + len(found)}")())
    return found


def _command(plan: Any) -> Any:
    """Return the command that writes, out of what adaptive execution has put around it."""
    while True:
        name = plan.getClass().getSimpleName()
        if name == "AdaptiveSparkPlanExec":
            plan = plan.executedPlan()
        elif name.endswith("QueryStageExec"):
            plan = plan.plan()
        else:
            return plan


def _text(value: Any) -> str:
    """Return an option's value as PySpark hands it to Spark."""
    return str(value).lower() if isinstance(value, bool) else str(value)
