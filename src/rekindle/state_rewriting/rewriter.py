"""Spark's private rewriter of state, and the way of a user's function through it.

Spark 4.3 has a class that writes state for a repartition (`StateRewriter`): it hands each state store of a checkpoint,
as rows of bytes, to a function from DataFrame to DataFrame, and writes what that returns, one task for each partition,
into another checkpoint. Nothing is promised of such a class, so it is looked at before it is used.

What the user's function returns is computed once and kept, checked, and only then written; what was written is read
back and compared with what was kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rekindle.errors import RestoreError
from rekindle.progress.directory import read_offsets
from rekindle.progress.files import below_state
from rekindle.progress.state_schema import with_value, with_value_of
from rekindle.progress.stored_state import StatefulOperator, StoredTaskState
from rekindle.session.failures import brief
from rekindle.spark.state import fields, state_frame
from rekindle.state_rewriting.encoding import NotAsKept
from rekindle.state_rewriting.kinds import KINDS, OperatorKind
from rekindle.state_rewriting.stores import DEFAULT, StateRows, Stores, fingerprint

Edit = Callable[[DataFrame], DataFrame]

_REWRITER = "org.apache.spark.sql.execution.streaming.state.StateRewriter"
_ROCKSDB = "RocksDBStateStoreProvider"
_ENCODING, _UNSAFE_ROW = "spark.sql.streaming.stateStore.encodingFormat", "unsaferow"


@dataclass(frozen=True, slots=True)
class Rewriting:
    """State as it is to be, computed and checked; nothing is written yet."""

    source: Stores
    part: str | None
    #: state store → what it is to hold
    rows: Mapping[str, StateRows]
    #: of the value, where it is another one than in the savepoint
    value: StructType | None

    def write(self, target: StoredTaskState) -> None:
        """Write it into a progress directory that has all except the rows of this operator, and read it back.

        Raises:
            RestoreError: ``STATE_REWRITE_FAILED``; what lies in `target` is of no use then.
        """
        spark, source, state = self.source.spark, self.source.state, target.store.spark_path(target.folder)
        session: Any = spark._jsparkSession
        jvm: Any = spark._jvm
        handed = _Handed(self.rows)
        try:
            if self.value is not None:
                self._put_schema(target, self.value.json())
            ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
            option = jvm.scala.Option.apply
            getattr(jvm, _REWRITER)(
                session,
                target.batch,
                target.batch,
                state,
                session.sessionState().newHadoopConf(),
                option(source.store.spark_path(source.folder)),
                option(handed),
                option(None),
            ).run()
            wrong = self._difference(target, handed.seen)
        except (PySparkException, Py4JError, ValueError) as error:
            raise RestoreError("STATE_REWRITE_FAILED", path=state, reason=brief(error)) from error
        if wrong:
            raise RestoreError("STATE_REWRITE_FAILED", path=state, reason=wrong)

    def _put_schema(self, target: StoredTaskState, value: str) -> None:
        operator = self.source.operator
        if operator.schema_files:
            # Of transformWithState it lies apart, with those of all variables.
            path = f"{target.folder}/state/{below_state(operator.schema_files[-1])}"
            target.store.replace(path, with_value_of(target.store.read(path), str(self.part), value))
        else:
            path = f"{target.folder}/state/{operator.number}/0/_metadata/schema"
            target.store.replace(path, with_value(target.store.read(path), value))

    def _difference(self, target: StoredTaskState, seen: set[str]) -> str:
        """Say how what was written differs from what was to be written; empty: it does not."""
        if missing := self.rows.keys() - seen:
            return f"Spark did not ask for {', '.join(sorted(missing))}"
        written = Stores(self.source.spark, target, self.source.operator)
        for store in seen:
            rows = self.rows[store].frame if store in self.rows else self.source.raw(store)
            found = written.raw(store)
            keys = fields(found, "partition_key")
            place = F.pmod(F.hash(*keys), F.lit(written.partitions)) if keys else F.lit(0)
            # The reader has a task for each partition of the state, in their order.
            *there, astray = fingerprint(found, place)
            if astray:
                return f"a key of {store} is not in its partition"
            if there != [*fingerprint(rows)[:-1]]:
                return f"what was read back of {store} is not what was written"
        return ""


class _Handed:
    """A function of Scala's that Spark's rewriter calls for each state store, from DataFrame to DataFrame."""

    def __init__(self, rows: Mapping[str, StateRows]) -> None:
        self._rows = rows
        #: state stores that were written
        self.seen: set[str] = set()

    def apply(self, raw: Any) -> Any:
        """Return the rows of a state store; those of one that was not edited are as they were."""
        store = raw.queryExecution().analyzed().collectLeaves().head().options().getOrDefault("storeName", DEFAULT)
        self.seen.add(store)
        return self._rows[store].frame._jdf if store in self._rows else raw

    class Java:
        """The declaration that py4j reads."""

        implements = ("scala.Function1",)


def prepare(
    spark: SparkSession,
    source: StoredTaskState,
    operator: StatefulOperator,
    part: str | None,
    fn: Edit,
    *,
    evolve: bool,
) -> Rewriting:
    """Compute the state that `fn` makes of what lies in a savepoint, and check it.

    Args:
        evolve: the value may have other columns.

    Raises:
        RestoreError: ``STATE_REWRITE_UNSUPPORTED``, ``STATE_REWRITE_REFUSED``, ``STATE_PART_NEEDED``,
            ``STATE_PART_UNKNOWN``, ``STATE_UNREADABLE``.
    """
    state_frame(spark, source, operator, part)  # says what is wrong with the part
    named = {"operator": operator.number, "name": operator.name}
    kind = KINDS.get(operator.name)
    reason = _unsupported(spark, source, kind, evolve=evolve)
    if kind is None or reason:
        raise RestoreError("STATE_REWRITE_UNSUPPORTED", **named, reason=reason)
    stores = Stores(spark, source, operator)
    layout = kind.layout_of(operator, part)(stores, part, evolve=evolve)
    if reason := layout.unknown():
        raise RestoreError("STATE_REWRITE_UNSUPPORTED", **named, reason=reason)
    returned = fn(layout.before)
    try:
        _check_is_frame(returned)
        rows = layout.rows(returned)
    except (NotAsKept, PySparkException, Py4JError) as error:
        reason = str(error) if isinstance(error, NotAsKept) else brief(error)
        raise RestoreError("STATE_REWRITE_REFUSED", **named, reason=reason) from error
    return Rewriting(stores, part, rows, layout.value)


def can_rewrite(spark: SparkSession) -> bool:
    """Return True where this Spark has the class that writes state, as it is known here."""
    jvm: Any = spark._jvm
    try:
        constructors = jvm.java.lang.Class.forName(_REWRITER).getConstructors()
    except Py4JError:
        return False
    return [constructor.getParameterCount() for constructor in constructors] == [8]


def _unsupported(spark: SparkSession, source: StoredTaskState, kind: OperatorKind | None, *, evolve: bool) -> str:
    """Say why the state of an operator cannot be rewritten; empty: it can."""
    if not can_rewrite(spark):
        return f"Spark {spark.version} cannot write state, Spark 4.3 can"
    if kind is None:
        return "how this operator keeps its state is not known to Rekindle"
    settings = read_offsets(source.store, source.folder, source.batch).metadata["conf"]
    provider = settings.get("spark.sql.streaming.stateStore.providerClass", "").rpartition(".")[2]
    if provider != _ROCKSDB:
        return f"it is kept by {provider}, and Spark writes that of RocksDB only"
    if kind.version is not None and settings.get(kind.version[0]) != kind.version[1]:
        return f"{kind.version[0]} is {settings.get(kind.version[0])}, and only {kind.version[1]} is known"
    if evolve and not kind.evolves:
        return "its value cannot have other columns"
    if evolve and settings.get(_ENCODING, _UNSAFE_ROW).lower() != _UNSAFE_ROW:
        return f"its rows are kept as {settings[_ENCODING]}, of which each schema has a number of Spark's"
    return ""


def _check_is_frame(returned: Any) -> None:
    if not isinstance(returned, DataFrame):
        raise NotAsKept(f"fn returned {type(returned).__name__} in place of a DataFrame")
    if returned.isStreaming:
        raise NotAsKept("fn returned a streaming DataFrame")
