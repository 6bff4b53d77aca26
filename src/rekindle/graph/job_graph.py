"""The job graph: sources, tasks and sinks by uid, and how they are joined.

A graph is plain data, made once from the user's definitions and then validated as a whole (`validation`). Sources that
a task reads are *chained* into it: they are its inputs, and there is no channel between them. So are its sinks. Tasks
that read tasks are joined by channels, and make up the graph's `topology`, in which each task is a vertex. This
module does not know what a source or sink is made of (paths, functions), or what a version of Spark can run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from rekindle.config import duration_ms
from rekindle.graph.topology import Edge, EdgeKind, Topology, Vertex
from rekindle.ids import SubtaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """An input of a job."""

    #: stable identity
    uid: str
    #: True if it ends by itself
    bounded: bool
    #: name of the event-time column; None: the source has no event time
    event_time: str | None = None
    #: lateness of an unbounded source (or overlap of an ordered bounded one) as Spark writes it, e.g. "4 seconds"
    watermark: str | None = None
    #: True if it is made of splits, which subtasks share although it may have no end
    divisible: bool = False
    #: name of this kind of source, e.g. "Files": its positions mean nothing to another kind; empty: not known
    kind: str = ""
    #: uid of the bounded source that each task reads before this one; None: it waits for none
    follows: str | None = None
    #: time without data after which it no longer holds the watermark back, e.g. "5 minutes"; None: it always does
    idle_after: str | None = None

    @property
    def idle_after_ms(self) -> int | None:
        """The value of `idle_after` in milliseconds; ConfigError ``VALUE_INVALID`` if it is not a duration."""
        return None if self.idle_after is None else duration_ms(f"idle_after of source {self.uid}", self.idle_after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A chain of operators: inputs → DataFrame code → outputs."""

    uid: str
    #: uids of the sources and tasks it reads, in the order of the function's parameters
    inputs: tuple[str, ...]
    parallelism: int = 1
    output_mode: str = "append"
    #: name of the event-time column of its output, for tasks that read it; None: the output has no event time
    event_time: str | None = None
    #: lateness that the column may have to the task's own watermark, e.g. "1 hour"; None: none
    watermark: str | None = None
    #: uid that it had before, under which a checkpoint may know it; None: it was not renamed
    was: str | None = None

    @property
    def lateness_ms(self) -> int:
        """The value of `watermark` in milliseconds; ConfigError ``VALUE_INVALID`` if it is not a duration."""
        return 0 if self.watermark is None else duration_ms(f"watermark of task {self.uid}", self.watermark)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """A target that a task's output is committed to."""

    uid: str
    task: str
    #: name of this kind of sink, e.g. "Parquet"
    kind: str = "sink"
    #: output modes it can take
    output_modes: tuple[str, ...] = ("append",)
    #: reason why committed rows cannot be taken back; None: they can
    cannot_rewind: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGraph:
    """A whole job. The graph of a user's job passes `graph.validation` before it is used."""

    name: str
    sources: tuple[Source, ...] = ()
    tasks: tuple[Task, ...] = ()
    sinks: tuple[Sink, ...] = ()
    #: sources and tasks by uid: the items that a task can read
    _by_uid: Mapping[str, Source | Task] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self,
            "_by_uid",
            {**{source.uid: source for source in self.sources}, **{task.uid: task for task in self.tasks}},
        )

    def task(self, uid: str) -> Task:
        """Return the task named `uid`; KeyError if there is none."""
        item = self._by_uid[uid]
        if not isinstance(item, Task):
            raise KeyError(uid)
        return item

    def sources_of(self, task: Task) -> tuple[Source, ...]:
        """Return the sources chained into `task`, in the order of its inputs."""
        return tuple(item for uid in task.inputs if isinstance(item := self._by_uid.get(uid), Source))

    def producers_of(self, task: Task) -> tuple[Task, ...]:
        """Return the tasks whose output `task` reads, in the order of its inputs."""
        return tuple(item for uid in task.inputs if isinstance(item := self._by_uid.get(uid), Task))

    def consumers_of(self, task: Task) -> tuple[Task, ...]:
        """Return the tasks that read the output of `task`."""
        return tuple(other for other in self.tasks if task.uid in other.inputs)

    def sinks_of(self, task: Task) -> tuple[Sink, ...]:
        """Return the sinks fed by `task`, in the order of their definition."""
        return tuple(sink for sink in self.sinks if sink.task == task.uid)

    def subtasks(self) -> tuple[SubtaskId, ...]:
        """List every subtask of the job, task by task."""
        return tuple(SubtaskId(task.uid, index) for task in self.tasks for index in range(task.parallelism))

    def with_single_subtasks(self) -> JobGraph:
        """Return the same job with one subtask for each task."""
        return replace(self, tasks=tuple(replace(task, parallelism=1) for task in self.tasks))

    @property
    def topology(self) -> Topology:
        """The tasks as vertices and the channels as edges; ``TASKS_CYCLIC`` if tasks read each other in a circle.

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
        """Return the sink's uid, with "sink:" in front if a task has the same: all operators share one namespace."""
        return f"sink:{sink.uid}" if isinstance(self._by_uid.get(sink.uid), Task) else sink.uid


def reached(first: Task, following: Callable[[Task], Iterable[Task]]) -> list[Task]:
    """Return a task and all that are reached from it, each once, by however many ways."""
    found, left = {first: None}, [first]
    while left:
        new = dict.fromkeys(task for task in following(left.pop()) if task not in found)
        found |= new
        left += new
    return [*found]


def edge_kind(producers: int, consumers: int) -> EdgeKind:
    """Return POINTWISE between parallel tasks (subtask i feeds subtask i, or its range), else ALL_TO_ALL."""
    return EdgeKind.ALL_TO_ALL if 1 in (producers, consumers) else EdgeKind.POINTWISE
