"""An Iceberg table: Spark writes its Parquet files, pyiceberg its metadata.

A batch is written into the table's data folder, where no reader looks for what no snapshot names (`staging`). A commit
is one change of the table's metadata, so a reader sees all of a checkpoint or nothing of it. It adds a snapshot with
the files, which tells job, sink and checkpoint in its summary, and sets a table property to the checkpoint's number:
snapshots expire, properties do not. A commit that finds its number there does nothing; one that another driver was
quicker with is refused by the catalog, and looks again.

The partition of a file is read off the bounds in its footer (`iceberg_files`). So Spark keeps the rows of each
partition in files of their own, split by what the partition is computed from. A batch with rows whose partition is not
certain is refused when it is prepared: once its checkpoint is complete, it has to be committed.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from rekindle.errors import DefinitionError, SinkError, one_line
from rekindle.protocol.commit import CommitPermit
from rekindle.sinks.iceberg_columns import arrow_schema, check_new, fitting, source_of, split_by
from rekindle.sinks.iceberg_commit import add, described
from rekindle.sinks.iceberg_files import NoPartitionError, data_folder, data_store, is_reached, layout_of, partition_of
from rekindle.sinks.iceberg_rewind import TRIES, rewind
from rekindle.sinks.owners import Claim, OwnerFiles
from rekindle.sinks.reading import all_of, read_files
from rekindle.sinks.staging import NOTES, Attempts
from rekindle.sinks.two_phase import Commits, Committable, SinkBatch, TwoPhaseSink

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class Iceberg(TwoPhaseSink):
    """An Iceberg table whose files are local or mounted on the driver and all executors, or in a bucket of S3, Azure or
    Google.

    Args:
        catalog: a catalog of pyiceberg, or the name of one.
        table: ``"namespace.table"``; made if it is missing.
        properties: of the named catalog, unless pyiceberg's configuration has them, e.g. ``{"type": "sql", "uri":
            "sqlite:////data/catalog.db", "warehouse": "file:///data/warehouse"}``. They are stored nowhere.
        partition_by: columns to partition a new table by. A table that exists may be partitioned by columns, years,
            months, days or hours of columns.
        merge_schema: add columns that the table does not have; else they are refused.
        options: options of Spark's Parquet writer, e.g. ``{"compression": "zstd"}``.
    """

    kind: ClassVar[str] = "Iceberg"
    atomic_commit: bool = True

    def __init__(
        self,
        catalog: str | Catalog,
        table: str,
        *,
        properties: Mapping[str, str] | None = None,
        partition_by: Sequence[str] = (),
        merge_schema: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.table = table
        self.partition_by = tuple(partition_by)
        self.merge_schema = merge_schema
        self.options = dict(options or {})
        self._catalog = catalog
        self._properties = dict(properties or {})
        self._job = self._sink = ""
        #: not made yet
        self._claim: Claim | None = None
        #: held while the table is made or its schema looked at
        self._lock = threading.Lock()
        #: schema of the last batches, as Spark tells it, and the table that they fit
        self._fits: tuple[str, Table] | None = None

    def __repr__(self) -> str:
        return f"Iceberg({self.table!r})"

    @property
    def addresses(self) -> tuple[str, ...]:
        return (self._properties["warehouse"],) if "warehouse" in self._properties else ()

    @property
    def _done(self) -> str:
        """The table property that tells the newest checkpoint committed."""
        return f"rekindle.committed.{self._job}.{self._sink}"

    def open(self, job: str, sink: str) -> None:
        """Reach the catalog, and look at the table if there is one."""
        self._job, self._sink, self._fits = job, sink, None
        try:
            from rekindle.sinks.iceberg_catalog import load
        except ImportError as error:
            raise DefinitionError("SINK_LIBRARY_MISSING", sink=sink, library="pyiceberg", extra="iceberg") from error
        try:
            if isinstance(self._catalog, str):
                self._catalog = load(self._catalog, self._properties)
            table = self._load()
        except Exception as error:
            raise self._invalid(self._without_secrets(one_line(error))) from None
        if table is not None:
            self._check_place(table)
            list(self._splits(table))  # a partition that cannot be written is refused

    def examine(self, claim: Claim, columns: StructType | None) -> int | None:
        """Look for the table, its owner and its columns; for one that is to be made, for columns of `partition_by`."""
        self.open(claim.owner, claim.sink)
        if (table := self._load()) is not None:
            claim.check(OwnerFiles(data_store(table), NOTES), self.table)
        with self._misfits():
            if columns is not None and table is not None:
                fitting(table, columns.jsonValue(), merge=self.merge_schema)
            elif columns is not None:
                check_new(columns.jsonValue(), self.partition_by)
        return self.newest_committed()

    def claim(self, claim: Claim) -> None:
        """Take the table; one that is still to be made is taken with the first batch."""
        self._claim = claim
        if (table := self._load()) is not None:
            self._take(table)

    def newest_committed(self) -> int | None:
        """Return what the table's property says."""
        table = self._load()
        return int(table.properties[self._done]) if table is not None and self._done in table.properties else None

    def _take(self, table: Table) -> None:
        if self._claim is not None:
            self._claim.make(OwnerFiles(data_store(table), NOTES), self.table)
            self._claim = None

    def prepare(self, df: DataFrame, batch: SinkBatch) -> Sequence[Committable]:
        """Write the batch's files into the table's data folder, where no snapshot names them yet."""
        table = self._fit(df.schema.json())
        splits = dict(self._splits(table))
        if splits:
            df = df.selectExpr("*", *(f"{split} AS {name}" for name, split in splits.items()))

        def check(footer: Any) -> None:
            try:
                partition_of(footer, table.metadata)
            except NoPartitionError as error:
                raise SinkError("SINK_PARTITION_UNKNOWN", sink=self._sink, target=self.table, reason=error) from error

        made = self._attempts(table).write(df, batch, tuple(splits), self.options, check)
        return [{**one, "spec": table.metadata.default_spec_id} for one in made]

    def commit(self, committables: Sequence[Committable], permit: CommitPermit) -> None:
        """Add all files in one snapshot, unless the table has this checkpoint's already."""
        from pyiceberg.exceptions import CommitFailedException

        for tried in range(1, TRIES + 1) if committables else ():
            table = self._load()
            if table is None:
                raise SinkError("SINK_STAGING_LOST", sink=self._sink, path=self.table)
            self._look_again(table)
            try:
                if int(table.properties.get(self._done, -1)) < permit.checkpoint:
                    self._add(table, committables, permit.checkpoint)
                self._attempts(table).committed(committables)
                return
            except CommitFailedException:
                # Another driver has committed the same, or others have changed the table: the next look shows it.
                if tried == TRIES:
                    raise

    def abort(self, committables: Sequence[Committable]) -> None:
        """Remove the files."""
        table = self._load()
        if table is not None:
            for committable in committables:
                self._attempts(table).remove(committable["attempt"])

    def rewind(self, to: int, commits: Commits) -> None:
        """Remove the files in one snapshot, with which the table also says that it has these checkpoints."""
        properties = self._done, f"rekindle.rewound.{self._job}.{self._sink}"
        rewind(self._load, properties, self._attempts, to, commits)

    def read_back(self, spark: SparkSession, commits: Commits, *, job: str, sink: str) -> DataFrame:
        """Read the files of the commits with Spark, also those that were rewritten, until their snapshots expire."""
        self.open(job, sink)
        table = self._load()
        if table is None:
            raise self._invalid("the table is gone")
        store, paths = data_store(table), self._attempts(table).paths(all_of(commits))
        return read_files(spark, store, paths, columns_in_folders=False)  # all are in the files

    def clean(self, named: Sequence[Committable], may_remove: Callable[[SinkBatch], bool]) -> None:
        """Remove files that neither a batch record nor a snapshot names."""
        if (table := self._load()) is None:
            return

        def holds(attempt: str) -> bool:
            return any(f"/{attempt}/" in task.file.file_path for task in table.scan().plan_files())

        self._attempts(table).clean(named, may_remove, holds)

    def _load(self) -> Table | None:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        assert not isinstance(self._catalog, str), "open() comes first"
        try:
            return self._catalog.load_table(self.table)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    def _add(self, table: Table, committables: Sequence[Committable], checkpoint: int) -> None:
        try:
            files = described(table, self._attempts(table), committables)
        except ValueError as error:
            with self._lock:
                self._fits = None
            raise self._mismatch(one_line(error)) from error
        tells = {"rekindle.job": self._job, "rekindle.sink": self._sink, "rekindle.checkpoint": str(checkpoint)}
        add(table, files, tells, {self._done: str(checkpoint)})

    def _attempts(self, table: Table) -> Attempts:
        return Attempts(data_store(table), self._job, self._sink)

    # -- the table's schema -------------------------------------------------------------------------------------------

    def _fit(self, schema: str) -> Table:
        """Return the table, made or with columns added where need be, so that rows of a schema fit.

        Raises:
            SinkError: ``SINK_SCHEMA_MISMATCH``.
        """
        with self._lock:
            if self._fits is None or self._fits[0] != schema:
                self._fits = None  # stays so where these rows do not fit
                with self._misfits():
                    self._fits = (schema, self._fitted(json.loads(schema)))
            return self._fits[1]

    @contextmanager
    def _misfits(self) -> Iterator[None]:
        from pyiceberg.exceptions import ResolveError, ValidationError

        try:
            yield
        except (ResolveError, TypeError, ValidationError, ValueError) as error:
            raise self._mismatch(one_line(error)) from error

    def _look_again(self, table: Table) -> None:
        """Have the next batch written as the table is partitioned now, and where it has its files now."""
        with self._lock:
            if self._fits is not None and layout_of(self._fits[1]) != layout_of(table):
                self._fits = None

    def _fitted(self, wanted: dict[str, Any]) -> Table:
        from pyiceberg.exceptions import TableAlreadyExistsError

        assert not isinstance(self._catalog, str), "open() comes first"
        arrow = arrow_schema(wanted)
        table = self._load()
        if table is None:
            self._catalog.create_namespace_if_not_exists(self.table.rpartition(".")[0])
            try:
                with self._catalog.create_table_transaction(self.table, arrow) as made, made.update_spec() as spec:
                    for name in self.partition_by:
                        spec.add_identity(name)
            except TableAlreadyExistsError:
                """Another job was quicker by a moment; its table is looked at like any other."""
            table = self._catalog.load_table(self.table)
        self._take(table)
        self._check_place(table)
        change = fitting(table, wanted, merge=self.merge_schema)
        return table if change is None else change.commit_transaction()

    def _splits(self, table: Table) -> Iterator[tuple[str, str]]:
        """Yield a column to split files by, and its SQL, for each field of the table's partitions."""
        for field in table.spec().fields:
            source, transform = table.schema().find_field(field.source_id), str(field.transform)
            sql = split_by(transform, str(source.field_type))
            if sql is None:
                raise self._invalid(f"it is partitioned by {transform} of {source.name!r}, which cannot be written")
            yield f"__partition_{field.field_id}", sql.format(source_of(table.schema(), field.source_id))

    def _check_place(self, table: Table) -> None:
        if not is_reached(data_folder(table)):
            raise self._invalid(f"its files lie in {data_folder(table)}, which is not supported in this version")

    def _invalid(self, reason: str) -> SinkError:
        return SinkError("SINK_TARGET_INVALID", sink=self._sink, target=self.table, reason=reason)

    def _mismatch(self, reason: str) -> SinkError:
        return SinkError("SINK_SCHEMA_MISMATCH", sink=self._sink, target=self.table, reason=reason)

    def _without_secrets(self, text: str) -> str:
        for name, value in self._properties.items():
            text = text.replace(value, f"({name})") if len(value) > 5 else text  # "sql" is a part of other words
        return text
