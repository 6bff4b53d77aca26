"""The Kafka sink: batches are staged as Parquet in the job's storage, and published when their checkpoint commits.

A Kafka transaction cannot wait for a checkpoint: brokers end it after a while, and a restarted producer loses it. So
nothing is open while a job waits, or is down for however long; the messages lie in files, made by Spark. A commit
publishes them in one transaction for each *lane*, together with a record that says so (see `commits`): after a crash it
tells whether this happened. All batches put a key into the same lane, so its messages keep the order of batches.

    files of the lane    its record says the checkpoint    then
    there                no                                publish
    there, or not        yes                               it is done
    gone                 no                                lost: an error, and nothing more is published

This module must not know rows: what becomes of a column is said to Spark in SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from confluent_kafka import KafkaException

from rekindle.errors import DefinitionError, SinkError
from rekindle.protocol.commit import CommitPermit
from rekindle.sinks.kafka import commits
from rekindle.sinks.kafka.lanes import DEFAULTS, TOO_LARGE, check_settings, side_by_side, trying
from rekindle.sinks.kafka.limits import Limits
from rekindle.sinks.kafka.logged import LOG, said
from rekindle.sinks.kafka.messages import MessageForm
from rekindle.sinks.kafka.opened import OpenedLanes
from rekindle.sinks.kafka.owners import Records
from rekindle.sinks.kafka.reading import as_texts, read_published
from rekindle.sinks.kafka.staged import largest_in, read_large, read_messages, size_column
from rekindle.sinks.owners import Claim
from rekindle.sinks.reading import quoted
from rekindle.sinks.two_phase import Commits, Committable, SinkBatch, TwoPhaseSink
from rekindle.sinks.writing import write_parquet
from rekindle.storage.port import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_LANE = "rekindle_lane"


class Kafka(TwoPhaseSink):
    """The topic `topic` of the brokers at `bootstrap`; exactly once for consumers that read committed messages only.

    Args:
        bootstrap: brokers, ``"host:9092,other:9092"``.
        key: the column that becomes the message's key, as text unless it is binary; without one, messages have none.
        value: the column that becomes its value; without one, a JSON object of all columns but the headers.
        headers: columns that become headers of the same names; nulls are left out.
        producers: so many transactions publish a checkpoint, side by side. With 1 it is seen as a whole.
        options: settings of librdkafka, such as those of its security; or a function that returns them, called on the
            driver. They are never stored, logged or shown.
    """

    kind: ClassVar[str] = "Kafka"
    output_modes = ("append", "update")

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        key: str | None = None,
        value: str | None = None,
        headers: str | Sequence[str] = (),
        producers: int = 1,
        options: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None = None,
    ) -> None:
        if producers < 1:
            raise DefinitionError(
                "ARGUMENT_INVALID",
                what="rk.sinks.Kafka",
                argument="producers",
                value=producers,
                reason="At least one producer has to publish.",
                hint="Use 1 or more.",
            )
        self.bootstrap, self.topic = bootstrap, topic
        self.key, self.value = key, value
        self.headers = (headers,) if isinstance(headers, str) else tuple(headers)
        self.producers = producers
        self.atomic_commit = producers == 1
        self._options = options
        self._job = self._sink = self._owner = ""
        self._store: Store | None = None
        self._folder = ""
        self._lanes = OpenedLanes()
        #: as they are when it is opened
        self._limits = Limits.of({}, None)

    @property
    def dataset(self) -> tuple[str, str]:
        return f"kafka://{self.bootstrap.split(',')[0].strip()}", self.topic

    def __repr__(self) -> str:
        return f"Kafka({self.bootstrap!r}, {self.topic!r})"

    # -- the contract -------------------------------------------------------------------------------------------------

    def stage_in(self, store: Store, folder: str) -> None:
        """Stage batches there."""
        self._store, self._folder = store, folder

    def examine(self, claim: Claim, columns: StructType | None) -> int | None:
        """Look for the topic, its owner, and the columns of key, value and headers."""
        newest, client = None, self._begin(claim.owner, claim.sink)
        with self._invalid():
            if commits.is_there(client, self.topic):
                commits.check(client, self.topic)
                claim.check(self._notes, self._target)
                newest = self.newest_committed()
        if columns is not None:
            self._check_columns(columns.names)
        return newest

    def open(self, job: str, sink: str) -> None:
        """See that the brokers answer and have the topic, and ask what it takes; make the topic of commits."""
        client = self._begin(job, sink)
        with self._invalid():
            self._limits = Limits.of({**DEFAULTS, **client}, commits.make(client, self.topic))

    def _begin(self, job: str, sink: str) -> dict[str, Any]:
        self._job, self._sink, self._owner, client = job, sink, f"{job}/{sink}", self._client()
        with self._invalid():
            check_settings(client, self._owner)
        return client

    @contextmanager
    def _invalid(self) -> Iterator[None]:
        try:
            yield
        except (KafkaException, TimeoutError, ValueError) as error:
            raise SinkError("SINK_TARGET_INVALID", sink=self._sink, target=self._target, reason=said(error)) from error

    @property
    def _target(self) -> str:
        return f"topic {self.topic} at {self.bootstrap}"

    @property
    def _notes(self) -> Records:
        return Records(self._client(), self.topic, self._owner)

    def claim(self, claim: Claim) -> None:
        """Take the topic."""
        with self._errors():
            claim.make(self._notes, self._target)

    def newest_committed(self) -> int | None:
        """Return the newest that the topic of commits has."""
        with self._errors():
            return max(commits.read(self._client(), self.topic, self._owner).values(), default=None)

    def prepare(self, df: DataFrame, batch: SinkBatch) -> Sequence[Committable]:
        """Let Spark write the messages into files, a folder for each lane; refuse those that are too large."""
        target = self._attempt(batch.name)
        messages = df.selectExpr(*self._expressions(df)).selectExpr("*", size_column(self._form))
        lanes: dict[str, list[dict[str, Any]]] = {}
        sizes: list[int] = []
        files = write_parquet(messages, self._staging, target, [_LANE], check=lambda f: sizes.append(largest_in(f)))
        paths = [f"{target}/{file.path}" for file in files]
        try:
            self._limits.check(max(sizes, default=0), partial(read_large, self._staging, paths))
        except ValueError as error:
            self._remove(batch.name)
            raise self._too_large(str(error)) from None
        for file in files:
            lane = file.path.partition("/")[0].removeprefix(f"{_LANE}=")
            lanes.setdefault(lane, []).append({"path": file.path, "rows": file.rows})
        if not lanes:
            self._remove(batch.name)
            return []
        rows = sum(file["rows"] for files in lanes.values() for file in files)
        # A reader of the messages cannot tell what a column was that is null in all of them.
        message = {**self._form.note(), "columns": self._form.published(df.columns)}
        return [{"attempt": batch.name, "rows": rows, "lanes": lanes, "message": message}]

    def commit(self, committables: Sequence[Committable], permit: CommitPermit) -> None:
        """Publish what no lane has published yet; then remove what was staged."""
        files: dict[str, list[str]] = {}
        for one in committables:
            for lane, staged in one["lanes"].items():
                files.setdefault(lane, []).extend(f"{self._attempt(one['attempt'])}/{file['path']}" for file in staged)
        with self._errors():
            for attempt in trying():
                with attempt, self._lanes.kept_if_all_is_well():
                    self._publish(permit.checkpoint, files)
        for one in committables:
            self._remove(one["attempt"])

    def abort(self, committables: Sequence[Committable]) -> None:
        """Remove the staged files."""
        for one in committables:
            self._remove(one["attempt"])

    def read_back(self, spark: SparkSession, commits: Commits, *, job: str, sink: str) -> DataFrame:
        """Executors read the messages at the offsets that were noted when they were published."""
        try:
            return read_published(spark, self._client(), self.topic, f"{job}/{sink}", commits)
        except (KafkaException, TimeoutError, ValueError) as error:
            raise SinkError("SINK_READ_BACK_FAILED", sink=sink, reason=said(error)) from error

    def as_read_back(self, rows: DataFrame) -> DataFrame:
        """Make messages of the rows, and texts of these."""
        names = self._form.published(rows.columns)
        types = {name: rows.schema[name].dataType.json() for name in names}
        return as_texts(rows.selectExpr(*self._form.made(_types(rows))), self._form, names, types)

    def clean(self, named: Sequence[Committable], may_remove: Callable[[SinkBatch], bool]) -> None:
        """Remove staged files that no batch record names."""
        kept = {one["attempt"] for one in named}
        for name in self._staging.names(self._folder):
            batch = SinkBatch.named(name, job=self._job, sink=self._sink)
            if name not in kept and batch is not None and may_remove(batch):
                self._remove(name)

    def close(self) -> None:
        """Close the producers."""
        self._lanes.close()

    # -- prepare ------------------------------------------------------------------------------------------------------

    def _expressions(self, df: DataFrame) -> list[str]:
        """Return what Spark is to select: lane, key, value, headers.

        Raises:
            SinkError: ``SINK_SCHEMA_MISMATCH``.
        """
        self._check_columns(df.columns)
        spread = f"hash({quoted(self.key)})" if self.key else "spark_partition_id()"
        return [f"pmod({spread}, {self.producers}) AS {_LANE}", *self._form.made(_types(df))]

    def _check_columns(self, names: Sequence[str]) -> None:
        if missing := self._form.missing(names):
            reason = f"there is no column {missing[0]!r}; there are: {', '.join(names)}"
            raise SinkError("SINK_SCHEMA_MISMATCH", sink=self._sink, target=f"topic {self.topic}", reason=reason)

    @property
    def _form(self) -> MessageForm:
        return MessageForm(self.key, self.value, self.headers)

    # -- commit -------------------------------------------------------------------------------------------------------

    def _publish(self, checkpoint: int, files: Mapping[str, Sequence[str]]) -> None:
        # In this order: the driver that publishes them removes them only afterwards.
        gone = {lane: path for lane, paths in files.items() for path in paths if not self._staging.exists(path)}
        for lane in gone:
            self._lanes.forget(lane)  # another driver may have published: look again
        client = {**self._limits.settings, **self._client()}
        lanes = self._lanes.with_names(files.keys(), client, self.topic, self._owner)
        todo = [name for name, lane in lanes.items() if lane.committed < checkpoint]
        for name in todo:
            if name in gone:
                raise SinkError("SINK_STAGING_LOST", sink=self._sink, path=gone[name])

        def publish(name: str) -> None:
            lanes[name].publish(checkpoint, read_messages(self._staging, files[name], self.headers))

        side_by_side(todo, publish)

    # -- staging ------------------------------------------------------------------------------------------------------

    @property
    def _staging(self) -> Store:
        assert self._store is not None, "stage_in() comes before all else"
        return self._store

    def _attempt(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _remove(self, name: str) -> None:
        self._staging.delete_tree(self._attempt(name))

    # -- Kafka --------------------------------------------------------------------------------------------------------

    def _client(self) -> dict[str, Any]:
        options = self._options() if callable(self._options) else self._options
        return {**(options or {}), "bootstrap.servers": self.bootstrap, "logger": LOG}

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (KafkaException, TimeoutError) as error:
            if isinstance(error, KafkaException) and error.args[0].name() == TOO_LARGE:
                raise self._too_large(said(error)) from error
            raise SinkError("SINK_SERVER_FAILED", sink=self._sink, server="Kafka", reason=said(error)) from error

    def _too_large(self, reason: str) -> SinkError:
        return SinkError("SINK_MESSAGE_TOO_LARGE", sink=self._sink, target=f"topic {self.topic}", reason=reason)


def _types(df: DataFrame) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in df.schema.fields}
