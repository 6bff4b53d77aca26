"""The examination of each query by an engine before a start: the questions and the answers. Nothing is started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rekindle.errors import RekindleError
from rekindle.graph.job_graph import JobGraph
from rekindle.graph.queries import QueryChange, QueryDescription
from rekindle.progress.renumbering import Numbers
from rekindle.runtime.definition import Definition
from rekindle.storage.documents.batch import InputPosition
from rekindle.storage.documents.sources import FrozenFiles
from rekindle.storage.port import Store

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """The state that a task has left to a start: that of its first subtask, since all subtasks have the same query."""

    store: Store
    #: folder of the subtask, in `store`
    folder: str
    #: True if it has finished, and is not started again
    ended: bool
    positions: Mapping[str, InputPosition] = field(default_factory=dict)
    #: True if its inputs have changed, so that its sources get other numbers
    other_inputs: bool = False
    #: True if its sources may get other numbers when their order changes: the state is copied first
    may_move: bool = False
    #: description of its query; None: an older version wrote the state
    described: QueryDescription | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """The job to examine, and the state that its tasks have left."""

    definition: Definition
    #: graph of the definition, changed if the mode needs another
    graph: JobGraph
    #: task → state that it has left; a new task is not in here
    left: Mapping[str, Left]
    #: source uid → frozen list of a bounded source; None: there is none yet
    frozen: Callable[[str], FrozenFiles | None]
    #: True if only the numbers of sources are wanted; Spark plans no query whose sources keep their numbers
    numbers_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """The findings of an engine about the query of a task."""

    #: changes that Spark accepts, and that alter the output
    changes: tuple[QueryChange, ...] = ()
    #: error with which a start would be refused; None: it would not
    error: RekindleError | None = None
    #: numbers of the sources in its plan; None: the query was not planned
    numbers: Numbers | None = None
    #: True if its sources have another order than before, although its inputs are the same
    moved: bool = False
    #: True if it would begin with a history and a live stream
    has_history: bool = False
    #: reason why its history cannot be computed as a batch before the stream; None: it can
    streams_history: str | None = None
    #: reason why it was not examined; None: it was
    unseen: str | None = None
    #: columns of its rows; None: they are not known
    columns: StructType | None = None
