"""`SplitSource`: a source of the user's own, made of splits; bounded or unbounded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from rekindle.config import duration_ms
from rekindle.errors import DefinitionError
from rekindle.protocol.custom_splits import SPLITS
from rekindle.protocol.operator_state import StateKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Json: TypeAlias = Any
"""A JSON value: None, a bool, a number, a text, a list, or a dict with texts for keys."""


class SplitSource(ABC):
    """A source that you write: it says which splits there are, and reads one of them from a position on.

    A split is a part that is read by itself, such as a partition or an account. Each is read by one subtask of the
    task; any number of subtasks share them. What a read returns is written to the job's storage before anything else
    happens, and is not read again by a job that resumes. A read is repeated, with the same split and position, only if
    what it returned was not written yet; or by a start from a checkpoint or savepoint, which goes back to the positions
    in it. Each task that reads the source reads it for itself.

    Each subtask works on a shallow copy of the object. Nothing of the object is stored, credentials neither; splits
    and positions are stored, as JSON.
    """

    kind: ClassVar[str] = "SplitSource"

    schema: str | StructType | Callable[[SparkSession], StructType]
    """Columns of what `read` returns, as a DDL string, a StructType, or a function that finds them out. Required."""

    bounded: bool = True
    """True: `splits` is called once, and the source ends when all splits have. False: it has no end."""

    poll_every: str = "1 second"
    """The pause before a split that had nothing is read again; of an unbounded source also the shortest time between
    two calls of `splits`."""

    state: Mapping[str, Literal["list", "union", "broadcast"]] = {}
    """Names of what the source keeps in checkpoints beside its positions, and how each is dealt out to the subtasks of
    a start from a checkpoint: ``"list"`` each entry to one, ``"union"`` all entries to each, ``"broadcast"`` to each
    the entries of one subtask, since all have the same."""

    @abstractmethod
    def splits(self) -> Iterable[Json]:
        """Return the splits that there are. A split that was returned before is known by its value, and is not new."""

    def begin_at(self, spark: SparkSession, split: Json) -> Json:
        """Return the position at which a new split is to be read first; None: what `read` takes for its beginning.

        Called once, when the split is discovered, and written down with it. So a place that is found out, such as
        where a service stood at some time, stays what it was then. `rk.sources.Hybrid` discovers the splits of its
        second part when the job first starts, before the history is read.
        """
        return None

    def prepare_for_available_now(self, spark: SparkSession) -> None:
        """Remember where the source stands now: `read` is to return no rows from there on.

        Called before the first read of an attempt in a run of what is available now (``rekindle run --available-now``),
        which stops once each split has returned no rows. If there are always new rows, the run stops only if you do
        this. Spark's own sources have it as ``prepareForTriggerAvailableNow``.
        """

    def has_caught_up(self, split: Json, position: Json) -> bool:
        """Return False if rows of this split that are there are still to come, although the last read returned none.

        Asked after a read without rows, in a run of what is available now, which then reads on after a pause. So may
        answer, for instance, a service that has empty pages before others.

        Args:
            position: what that read has returned.
        """
        return True

    @abstractmethod
    def read(self, spark: SparkSession, split: Json, position: Json) -> tuple[DataFrame | None, Json, bool]:
        """Read a split from a position on, as much as one batch should have.

        It must not wait for data: where there is none, return no rows. A DataFrame is evaluated once, right after.

        Args:
            position: what the last read of this split returned; where it is the first, what `begin_at` did.

        Returns:
            The rows (None: no rows), the position after them, and whether the split has ended for good.
        """

    def snapshot_state(self) -> Mapping[str, list[Json]]:
        """Return what this subtask keeps, by the names in `state`; called after each read that had rows."""
        return {}

    def initialize_state(self, state: Mapping[str, list[Json]]) -> None:
        """Take over what `snapshot_state` returned, before the first read of an attempt. Called if `state` has names.

        Args:
            state: every name of `state`; without entries where nothing was kept.
        """

    @property
    def poll_ms(self) -> int:
        """The value of `poll_every` in milliseconds."""
        return duration_ms("poll_every", self.poll_every)


def check_source(uid: str, source: SplitSource) -> None:
    """Look at what can be wrong with a source before it is read.

    Raises:
        DefinitionError: ``ARGUMENT_INVALID``.
        ConfigError: ``VALUE_INVALID``.
    """
    kinds = {kind.value for kind in StateKind}
    wrong = {name: kind for name, kind in source.state.items() if kind not in kinds or name == SPLITS}
    if not hasattr(source, "schema"):
        problem: tuple[str, object, str] = ("schema", None, "It has no schema.")
    elif wrong:
        problem = ("state", wrong, f"A name other than {SPLITS!r} has one of the kinds {', '.join(sorted(kinds))}.")
    else:
        _ = source.poll_ms
        return
    argument, value, reason = problem
    raise DefinitionError(
        "ARGUMENT_INVALID",
        what=f"The source {uid!r}",
        argument=argument,
        value=value,
        reason=reason,
        hint="See: rekindle docs guide#your-own-source",
    )
