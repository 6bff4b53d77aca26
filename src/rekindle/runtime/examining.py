"""What is asked of an engine before a start, and answered without starting anything: what it makes of each query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rekindle.errors import RekindleError
from rekindle.graph.job_graph import JobGraph
from rekindle.graph.queries import QueryChange, QueryDescription
from rekindle.progress.renumbering import Numbers
from rekindle.runtime.definition import Definition
from rekindle.storage.documents.batch import InputPosition
from rekindle.storage.documents.sources import FrozenFiles
from rekindle.storage.port import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What a task has left to a start: that of its first subtask, since all of them have one query."""

    store: Store
    #: of the subtask, in `store`
    folder: str
    #: it has finished, and is not started again
    ended: bool
    positions: Mapping[str, InputPosition] = field(default_factory=dict)
    #: its inputs are others than they were, so that its sources get other numbers
    other_inputs: bool = False
    #: its sources may get other numbers where they stand in another order: what is left is copied first
    may_move: bool = False
    #: None where an older version wrote it
    described: QueryDescription | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What is to be looked at."""

    definition: Definition
    #: the definition's, but where the mode wants another
    graph: JobGraph
    #: task → what it has left; a task that begins has left nothing
    left: Mapping[str, Left]
    #: the list of a bounded source; None where there is none yet
    frozen: Callable[[str], FrozenFiles | None]
    #: only the numbers of sources are asked for; Spark looks at no query whose sources have those that they had
    numbers_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What an engine makes of the query of a task."""

    #: what it accepts, and what alters what comes out
    changes: tuple[QueryChange, ...] = ()
    #: why a start would be refused
    error: RekindleError | None = None
    #: of the sources in its plan; None: it was not looked at
    numbers: Numbers | None = None
    #: its sources stand in another order than before, and its inputs are the same
    moved: bool = False
    #: it would begin with a history and a live stream
    has_history: bool = False
    #: why its history cannot be computed as a batch before the stream; None: it can
    streams_history: str | None = None
    #: why it was not looked at; None: it was
    unseen: str | None = None
