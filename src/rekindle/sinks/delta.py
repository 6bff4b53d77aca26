"""A Delta table in a file system or in a bucket: Spark writes its Parquet files, delta-rs its log.

A batch is written into the table's directory, where no reader looks for what the log does not name (`staging`). A
commit is one entry of the log, so a reader sees all of a checkpoint or nothing of it. The entry carries Delta's
*application transaction*: the job's sink as the application, the checkpoint as its version. A commit for a version that
the table has reached already does nothing, and of two drivers that commit the same at the same time Delta refuses one.

The table is made with the first batch, and its schema looked at whenever a batch's own has changed. Features of a table
that Spark's Parquet writer knows nothing of are refused by name. A commit looks at all of it again: others may have
changed the table since the rows were written.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

from rekindle.errors import DefinitionError, SinkError
from rekindle.protocol.commit import CommitPermit
from rekindle.sinks.delta_commit import add, described, has
from rekindle.sinks.delta_features import not_honoured
from rekindle.sinks.delta_partitions import unnamed_day, unpartitioned
from rekindle.sinks.delta_places import reached, why_not
from rekindle.sinks.delta_rewind import rewind
from rekindle.sinks.delta_schema import columns_in, columns_of, misfit, relaxed
from rekindle.sinks.owners import Claim, OwnerFiles
from rekindle.sinks.reading import all_of, read_files
from rekindle.sinks.staging import NOTES, Attempts, open_readable, open_writable
from rekindle.sinks.two_phase import Commits, Committable, SinkBatch, TwoPhaseSink
from rekindle.storage.addresses import shown
from rekindle.storage.open import open_store
from rekindle.storage.port import Store

if TYPE_CHECKING:
    from deltalake import DeltaTable, Schema
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class Delta(TwoPhaseSink):
    """A Delta table in the directory `path`; made if it is missing.

    Args:
        path: a directory, local or mounted on the driver and all executors, or ``s3://bucket/prefix``.
        partition_by: columns of strings, whole numbers, dates or booleans; if the table exists, as the table has it.
        mode: ``"append"``: each batch adds its rows.
        merge_schema: add columns that the table does not have; else they are refused.
        options: options of Spark's Parquet writer, e.g. ``{"compression": "zstd"}``.
    """

    kind: ClassVar[str] = "Delta"
    atomic_commit: bool = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        partition_by: Sequence[str] = (),
        mode: str = "append",
        merge_schema: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> None:
        if mode != "append":
            raise DefinitionError("SINK_MODE_UNKNOWN", kind=self.kind, mode=mode, supported="append")
        self.path = os.fspath(path)
        self.partition_by = tuple(partition_by)
        self.merge_schema = merge_schema
        self.options = dict(options or {})
        self._job = self._sink = ""
        self._place: Store | None = None
        #: held while the table is made or its schema looked at
        self._lock = threading.Lock()
        #: schema of the last batches, as Spark tells it, and the table's partition columns
        self._fits: tuple[str, list[str]] | None = None

    def __repr__(self) -> str:
        return f"Delta({self.path!r})"

    @property
    def addresses(self) -> tuple[str, ...]:
        return (self.path,)

    @property
    def _store(self) -> Store:
        assert self._place is not None, "open() comes first"
        return self._place

    @property
    def _attempts(self) -> Attempts:
        return Attempts(self._store, self._job, self._sink)

    @property
    def _reached(self) -> dict[str, Any]:
        return reached(self._store.location)

    @property
    def _application(self) -> str:
        return f"rekindle/{self._job}/{self._sink}"

    def examine(self, claim: Claim, columns: StructType | None) -> int | None:
        """Look for the directory, the table in it, its owner and its columns."""
        self._begin(claim.owner, claim.sink)
        self._place = open_readable(self.path, claim.sink)
        table = self._looked_at()
        claim.check(OwnerFiles(self._store, NOTES), shown(self.path))
        if columns is not None:
            wanted = json.loads(columns.json(), object_hook=relaxed)
            self._schema(wanted["fields"])
            self._check(wanted, table)
        return self.newest_committed()

    def open(self, job: str, sink: str) -> None:
        """Make the directory, see that it can be written, and look at the table if there is one."""
        self._begin(job, sink)
        self._place = open_writable(self.path, sink, f"{NOTES}/{job}/{sink}")
        self._looked_at()

    def _begin(self, job: str, sink: str) -> None:
        self._job, self._sink, self._fits = job, sink, None
        try:
            import deltalake  # noqa: F401
        except ImportError as error:
            raise DefinitionError("SINK_LIBRARY_MISSING", sink=sink, library="deltalake", extra="delta") from error
        if (reason := why_not(self.path)) is not None:
            raise self._invalid(reason)

    def _looked_at(self) -> DeltaTable | None:
        if "%" in self._store.location:
            raise self._invalid("delta-rs misreads '%' in paths")
        if (table := self._found()) is not None:
            self._refuse_features(table)
        return table

    def claim(self, claim: Claim) -> None:
        """Take the table."""
        claim.make(OwnerFiles(self._store, NOTES), shown(self.path))

    def newest_committed(self) -> int | None:
        """Return the version that the table's log has of this job's transactions."""
        table = self._found()
        return None if table is None else table.transaction_version(self._application)

    def prepare(self, df: DataFrame, batch: SinkBatch) -> Sequence[Committable]:
        """Write the batch's files into the table's directory, where the log does not name them yet."""
        partition_by = self._fit(df.schema.json())
        made = self._attempts.write(df, batch, partition_by, self.options)
        dates = {field.name for field in df.schema.fields if field.dataType.simpleString() == "date"}
        if (reason := unnamed_day((path for one in made for path in one["files"]), dates)) is not None:
            raise SinkError("SINK_PARTITION_UNKNOWN", sink=self._sink, target=self.path, reason=reason)
        return made

    def commit(self, committables: Sequence[Committable], permit: CommitPermit) -> None:
        """Name all files in one entry of the log, unless the table has this checkpoint's already."""
        from deltalake.exceptions import TableNotFoundError

        try:
            if committables and not has(self._table(), self._application, permit.checkpoint):
                self._add(committables, permit.checkpoint)
        except TableNotFoundError as error:
            raise SinkError("SINK_STAGING_LOST", sink=self._sink, path=self.path) from error
        self._attempts.committed(committables)

    def abort(self, committables: Sequence[Committable]) -> None:
        """Remove the files."""
        for committable in committables:
            self._attempts.remove(committable["attempt"])

    def rewind(self, to: int, commits: Commits) -> None:
        """Remove the files in one entry of the log, which also says that the table has these checkpoints."""
        if commits and self._found() is not None:
            rewind(self._table, self._application, self._attempts, to, commits)

    def read_back(self, spark: SparkSession, commits: Commits, *, job: str, sink: str) -> DataFrame:
        """Read the files of the commits with Spark, also those that were compacted since, until they are vacuumed."""
        return read_files(spark, store := open_store(self.path), Attempts(store, job, sink).paths(all_of(commits)))

    def clean(self, named: Sequence[Committable], may_remove: Callable[[SinkBatch], bool]) -> None:
        """Remove files that neither a batch record nor the log names."""

        def holds(attempt: str) -> bool:
            table = self._found()
            return table is not None and any(f"/{attempt}/" in unquote(uri) for uri in table.file_uris())

        self._attempts.clean(named, may_remove, holds)

    def _table(self) -> DeltaTable:
        from deltalake import DeltaTable

        return DeltaTable(**self._reached)

    def _found(self) -> DeltaTable | None:
        from deltalake.exceptions import TableNotFoundError

        # Not by `is_deltatable`: while delta-rs 1.6 waits for a server there, no other thread runs, nor the heartbeat.
        try:
            return self._table()
        except TableNotFoundError:
            return None

    def _add(self, committables: Sequence[Committable], checkpoint: int) -> None:
        files = list(self._attempts.files(committables))
        fitted = self._fits  # by a batch of this run, else the rows are of an earlier one
        columns = columns_of(fitted[0]) if fitted is not None else columns_in(self._attempts.footer(files[0]))
        tells = f"checkpoint {checkpoint} of {self._job}, sink {self._sink}"
        try:
            add(self._table, self._application, checkpoint, described(self._attempts, files), columns, tells)
        except ValueError as error:
            with self._lock:
                self._fits = None
            raise self._mismatch(str(error)) from error

    # -- the table's schema -------------------------------------------------------------------------------------------

    def _fit(self, schema: str) -> list[str]:
        """Fit the table to rows of a schema: make it, or add columns to it; return the columns that partition it.

        Raises:
            SinkError: ``SINK_SCHEMA_MISMATCH``.
        """
        with self._lock:
            if self._fits is None or self._fits[0] != schema:
                self._fits = None  # stays so where these rows do not fit
                self._fits = (schema, self._fitted(json.loads(schema, object_hook=relaxed)))
            return self._fits[1]

    def _fitted(self, wanted: dict[str, Any]) -> list[str]:
        self._check(wanted, None)
        table = self._made(self._schema(wanted["fields"]))
        self._refuse_features(table)
        self._check(wanted, table)
        there = columns_of(table.schema().to_json())
        if new := [field for field in wanted["fields"] if field["name"] not in there]:
            table.alter.add_columns(self._schema(new).fields)
        return list(table.metadata().partition_columns)

    def _check(self, wanted: dict[str, Any], table: DeltaTable | None) -> None:
        """Raise ``SINK_SCHEMA_MISMATCH`` where rows of a schema do not fit the table; None: one that is to be made."""
        columns = {field["name"]: field["type"] for field in wanted["fields"]}
        by = None if table is None else table.metadata().partition_columns
        reason = unpartitioned(self.partition_by, columns, by)
        if reason is None and table is not None:
            reason = misfit(columns, table, merge=self.merge_schema)
        if reason is not None:
            raise self._mismatch(reason)

    def _schema(self, fields: Sequence[dict[str, Any]]) -> Schema:
        from deltalake import Schema
        from deltalake.exceptions import DeltaError

        try:
            return Schema.from_json(json.dumps({"type": "struct", "fields": fields}))
        except (DeltaError, ValueError) as error:
            raise self._mismatch(str(error)) from error

    def _made(self, schema: Schema) -> DeltaTable:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        if (there := self._found()) is not None:
            return there
        try:
            return DeltaTable.create(**self._reached, schema=schema, partition_by=list(self.partition_by))
        except DeltaError as error:
            # Another job may have been quicker by a moment; its table is looked at like any other.
            if (there := self._found()) is None:
                raise self._mismatch(str(error)) from error
            return there

    def _mismatch(self, reason: str) -> SinkError:
        return SinkError("SINK_SCHEMA_MISMATCH", sink=self._sink, target=self.path, reason=reason)

    def _refuse_features(self, table: DeltaTable) -> None:
        if (reason := not_honoured(table)) is not None:
            raise self._invalid(reason)

    def _invalid(self, reason: str) -> SinkError:
        return SinkError("SINK_TARGET_INVALID", sink=self._sink, target=shown(self.path), reason=reason)
