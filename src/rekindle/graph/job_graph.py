"""The job graph: sources, tasks and sinks by uid, and how they are joined.

A graph is plain data, made once from the user's definitions and then validated as a whole (`validation`). Sources that
a task reads are *chained* into it: they are its inputs, and there is no channel between them. So are its sinks. Tasks
that read tasks are joined by channels, and make up the graph's `topology`, in which each task is a vertex. What a
source or sink is made of (paths, functions), and which of all this a version can run, is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rekindle.config import duration_ms
from rekindle.graph.topology import Edge, EdgeKind, Topology, Vertex
from rekindle.ids import SubtaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """An input of a job."""

    #: stable identity
    uid: str
    #: whether it ends by itself
    bounded: bool
    #: name of the event-time column, None where the source has no event time
    event_time: str | None = None
    #: lateness of an unbounded source (or overlap of an ordered bounded one) as Spark writes it, e.g. "4 seconds"
    watermark: str | None = None
    #: whether it is made of splits, which subtasks share although it may have no end
    divisible: bool = False
    #: what a person calls this kind of source, e.g. "Files": positions in it mean nothing to another; empty: not known
    kind: str = ""
    #: uid of a bounded source that has to be read before it, by each task; None: it waits for none
    follows: str | None = None
    #: how long it has no data before it holds the watermark back no more, e.g. "5 minutes"; None: forever
    idle_after: str | None = None

    @property
    def idle_after_ms(self) -> int | None:
        """`idle_after` in milliseconds; ConfigError ``VALUE_INVALID`` where it is none."""
        return None if self.idle_after is None else duration_ms(f"idle_after of source {self.uid}", self.idle_after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A chain of operators: inputs → DataFrame code → outputs."""

    uid: str
    #: uids of the sources and tasks it reads, in the order of the function's parameters
    inputs: tuple[str, ...]
    parallelism: int = 1
    output_mode: str = "append"
    #: name of the event-time column of its output, for tasks that read it; None where that has no event time
    event_time: str | None = None
    #: how far that column may lag the task's own watermark, e.g. "1 hour"; None: not at all
    watermark: str | None = None
    #: uid that it had before, under which a checkpoint may know it
    was: str | None = None

    @property
    def lateness_ms(self) -> int:
        """`watermark` in milliseconds; ConfigError ``VALUE_INVALID`` where it is none."""
        return 0 if self.watermark is None else duration_ms(f"watermark of task {self.uid}", self.watermark)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """A place a task's output is committed to."""

    uid: str
    task: str
    #: what a person calls this kind of sink, e.g. "Parquet"
    kind: str = "sink"
    #: output modes it can take
    output_modes: tuple[str, ...] = ("append",)
    #: why what is committed to it cannot be taken back; None: it can
    cannot_rewind: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGraph:
    """A whole job. One that a user defines passes `graph.validation` before anything else sees it."""

    name: str
    sources: tuple[Source, ...] = ()
    tasks: tuple[Task, ...] = ()
    sinks: tuple[Sink, ...] = ()
    #: what a task can read
    _by_uid: Mapping[str, Source | Task] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self,
            "_by_uid",
            {**{source.uid: source for source in self.sources}, **{task.uid: task for task in self.tasks}},
        )

    def task(self, uid: str) -> Task:
        """The task named `uid`; KeyError where it is none."""
        item = self._by_uid[uid]
        if not isinstance(item, Task):
            raise KeyError(uid)
        return item

    def sources_of(self, task: Task) -> tuple[Source, ...]:
        """The sources chained into `task`, in its order."""
        return tuple(item for uid in task.inputs if isinstance(item := self._by_uid.get(uid), Source))

    def producers_of(self, task: Task) -> tuple[Task, ...]:
        """The tasks whose output `task` reads, in its order."""
        return tuple(item for uid in task.inputs if isinstance(item := self._by_uid.get(uid), Task))

    def consumers_of(self, task: Task) -> tuple[Task, ...]:
        """The tasks that read its output."""
        return tuple(other for other in self.tasks if task.uid in other.inputs)

    def sinks_of(self, task: Task) -> tuple[Sink, ...]:
        """The sinks fed by `task`, in the order of their definition."""
        return tuple(sink for sink in self.sinks if sink.task == task.uid)

    def subtasks(self) -> tuple[SubtaskId, ...]:
        """Every subtask of the job, task by task."""
        return tuple(SubtaskId(task.uid, index) for task in self.tasks for index in range(task.parallelism))

    def with_single_subtasks(self) -> JobGraph:
        """The same job, every task of it with one subtask."""
        return replace(self, tasks=tuple(replace(task, parallelism=1) for task in self.tasks))

    @property
    def topology(self) -> Topology:
        """Tasks as vertices and channels as edges; ``TASKS_CYCLIC`` where tasks read each other in a circle.

        A task chains its sources, its function and its sinks. A source is named with its reader (``hourly/live``): each
        reader has a position of its own in it.
        """
        return Topology(
            tuple(
                Vertex(uid=task.uid, parallelism=task.parallelism, operators=self._operators_of(task))
                for task in self.tasks
            ),
            tuple(
                Edge(producer.uid, task.uid, edge_kind(producer.parallelism, task.parallelism))
                for task in self.tasks
                for producer in self.producers_of(task)
            ),
        )

    def _operators_of(self, task: Task) -> tuple[str, ...]:
        sources = dict.fromkeys(f"{task.uid}/{source.uid}" for source in self.sources_of(task))
        return (*sources, task.uid, *map(self._operator_of, self.sinks_of(task)))

    def _operator_of(self, sink: Sink) -> str:
        """Its uid, unless a task has that too: operators of all kinds share their names, uids do not hold a colon."""
        return f"sink:{sink.uid}" if isinstance(self._by_uid.get(sink.uid), Task) else sink.uid


def edge_kind(producers: int, consumers: int) -> EdgeKind:
    """Between parallel tasks subtask i feeds subtask i, or its range; a single one feeds, and reads, all."""
    return EdgeKind.ALL_TO_ALL if 1 in (producers, consumers) else EdgeKind.POINTWISE
