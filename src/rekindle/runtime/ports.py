"""What a run needs of the engine that carries out its queries: ports, implemented on Spark and, for tests, without."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

from rekindle.channels.custom_splits import CustomSplits
from rekindle.channels.splits import Splits
from rekindle.ids import SubtaskId
from rekindle.runtime.definition import RunContext, SourceSpec
from rekindle.runtime.examining import Examination, Examined
from rekindle.runtime.steps import Steps
from rekindle.storage.documents.checkpoint import SubtaskSnapshot
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.sources import FrozenFiles
from rekindle.storage.documents.status import TaskStatusDocument
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.port import Store


class Lifeline(Protocol):
    """Tells when the engine is gone."""

    @property
    def replaceable(self) -> bool:
        """This process can make another one."""
        ...

    def guard(self) -> None:
        """Begin to look whether it lives."""
        ...

    def watch(self, died: Callable[[str], None]) -> None:
        """Call `died` once, from another thread, with the reason, when it is gone."""
        ...

    def is_gone(self) -> bool:
        """Return True if it is dead or dying, so that what fails now fails for that reason. May block."""
        ...

    def close(self) -> None:
        """Watch it no more."""
        ...


class TaskRunner(Protocol):
    """One subtask. Orders come one at a time and may block; what comes of them is reported as events.

    An order that cannot be carried out raises; the driver makes a `TaskFailed` of it.
    """

    def start(self) -> None:
        """Begin its query where its last batch record stands. Reports `TaskStarted`, `BatchRecorded` for each batch,
        and `SourcesEnded` when due."""
        ...

    def finish(self, drain: bool) -> tuple[int, tuple[str, ...]]:
        """Hold it, flush its state, ``finish()`` its sinks, make that durable; returns last batch and notes."""
        ...

    def abandon(self) -> None:
        """Stop what an attempt has left running. `close` follows, and then the next order, which begins another."""
        ...

    def close(self) -> None:
        """End an attempt: release everything, within a bounded time, whatever a sink does; once, also if it is asked
        for again."""
        ...

    def kill(self) -> None:
        """Interrupt its query and return at once. Comes from another thread, while an order may hang."""
        ...

    def snapshot(self, batch: int) -> SubtaskSnapshot | None:
        """Where it stands after a batch that is recorded (-1: at its beginning); None while Spark has not committed
        that. Comes from another thread, at any time."""
        ...

    def allow(self, producer: SubtaskId, upto: int) -> None:
        """Let it read that many of the producer's batches. Reports `BatchRecorded`, with the batch that was the last,
        where empty ones alone are read by that. Comes from another thread."""
        ...

    def purge(self, oldest_batch: int, oldest_output: int, *, over: bool) -> None:
        """Delete what neither `oldest_batch` nor a later one needs, of its outputs those before `oldest_output`.

        Args:
            over: no retained checkpoint of its lineage starts it again, so that its query is not needed either.
        """
        ...

    def status(self) -> TaskStatusDocument:
        """What a person sees. Comes from another thread."""
        ...


@runtime_checkable
class StreamRunner(TaskRunner, Protocol):
    """One subtask that runs as a stream: it hears the time, can be stopped, and goes into savepoints.

    One of a batch run is no such thing: nothing of it is idle, and there is no place where it could be held.
    """

    def suspend(self) -> int:
        """Hold its query at a batch boundary, whether it runs or not, with every batch that is recorded committed;
        returns the last one."""
        ...

    def stop_sources(self) -> None:
        """Give it nothing more of its sources; channels are read on. Comes from another thread."""
        ...

    def tick(self, now_ms: int) -> None:
        """Hear the time, which decides what is idle. Comes from another thread, twenty times a second."""
        ...

    def copy(self, snapshot: SubtaskSnapshot, store: Store, folder: str) -> int:
        """Copy what `snapshot` needs into a savepoint's folder; returns bytes."""
        ...


def streams_of(runners: Mapping[SubtaskId, TaskRunner]) -> dict[SubtaskId, StreamRunner]:
    """Return those that run as streams: all, or none in a batch run."""
    return {subtask: runner for subtask, runner in runners.items() if isinstance(runner, StreamRunner)}


class Subtasks(Protocol):
    """The subtasks of a run, each where its last batch record stands."""

    @property
    def splits(self) -> Mapping[str, Mapping[str, Splits]]:
        """Task → bounded source → how its files are shared out."""
        ...

    @property
    def custom(self) -> Mapping[str, Mapping[str, CustomSplits]]:
        """Task → custom source → its splits."""
        ...

    def runners(self) -> Mapping[SubtaskId, TaskRunner]:
        """Return every subtask of the job, those that have ended too.

        Raises:
            RekindleError: what is wrong with a task's function or its plan.
        """
        ...

    def read(self, subtask: SubtaskId) -> dict[SubtaskId, int]:
        """Return how many batches of each producer a subtask has read."""
        ...


class Engine(Protocol):
    """What carries out the queries of a run, and what a start asks of it."""

    @property
    def lifeline(self) -> Lifeline:
        """Tells when it is gone."""
        ...

    def quiet(self) -> AbstractContextManager[None]:
        """Keep it from logging what is held back or cancelled on purpose."""
        ...

    def stop(self) -> None:
        """Let go of it; one that belongs to the user stays."""
        ...

    def check_reaches(self, places: Iterable[str]) -> None:
        """Check that it has what it takes to read and write at these addresses.

        Raises:
            DefinitionError: ``S3A_MISSING``.
        """
        ...

    def check_sees(self, place: str, path: str) -> None:
        """Check that it finds the object at `path` of the store at `place`, which is there.

        Raises:
            StorageError: ``STORAGE_OTHER_FOR_SPARK``.
        """
        ...

    def freeze(self, storage: JobStorage, spec: SourceSpec, attempt: str, steps: Steps) -> FrozenFiles | None:
        """Fix what a bounded source consists of, once for the job; None where the source is not bounded.

        Args:
            attempt: a fresh name for what is written.
        """
        ...

    def repartition(self, storage: JobStorage, folder: str, task: str, count: int) -> None:
        """Lay out the state of a subtask of a new lineage in `count` partitions.

        Raises:
            RestoreError: ``STATE_PARTITIONS_UNCHANGEABLE``.
        """
        ...

    def examine(self, of: Examination) -> Mapping[str, Examined]:
        """Say what it makes of the query of each task, and start none."""
        ...

    def assemble(self, run: RunContext, lineage: Lineage) -> Subtasks:
        """Put the subtasks of a run together.

        Args:
            lineage: the one that the run continues or has opened.
        """
        ...


class Engines(Protocol):
    """Where the engines of one process come from."""

    def make(self) -> Engine:
        """Return an engine; a further one only where the one before is `Lifeline.replaceable`.

        Raises:
            DefinitionError: ``SPARK_NOT_STARTED``; what forbids the session that the user has given.
        """
        ...

    def forget_failed(self) -> None:
        """End what is left of an engine that could not be made, or does not come up."""
        ...
