"""Ports: the interface of a run to the engine of its queries, implemented on Spark and, for tests, without it."""

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
from rekindle.storage.documents.batch import BatchRecord
from rekindle.storage.documents.checkpoint import SubtaskSnapshot
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.sources import FrozenFiles
from rekindle.storage.documents.status import TaskStatusDocument
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.port import Store


class Lifeline(Protocol):
    """A watch on the engine, which reports when it is gone."""

    @property
    def replaceable(self) -> bool:
        """Return whether this process can make another engine."""
        ...

    def guard(self) -> None:
        """Begin to watch the engine."""
        ...

    def watch(self, died: Callable[[str], None]) -> None:
        """Call `died` once, from another thread, with the reason, when the engine is gone."""
        ...

    def is_gone(self) -> bool:
        """Return True if the engine is dead or dying, and so the reason of failures now. May block."""
        ...

    def close(self) -> None:
        """Stop watching the engine."""
        ...


class TaskRunner(Protocol):
    """The runner of one subtask. Orders come one at a time and may block; their outcomes are reported as events.

    An order that cannot be carried out raises; the driver reports it as `TaskFailed`.
    """

    def start(self) -> None:
        """Start the query after its last batch record.

        It reports `TaskStarted`, `BatchRecorded` for each batch, and `SourcesEnded` when due.
        """
        ...

    def finish(self, drain: bool) -> tuple[int, tuple[str, ...]]:
        """Hold the query, flush its state, ``finish()`` its sinks, record that; return last batch and notes.

        Before a drain, a batch that has failed is run once more: what it raises leaves the subtask undrained.
        """
        ...

    def abandon(self) -> None:
        """Stop the query of a failed attempt. `close` follows, and then the next order, which begins another."""
        ...

    def close(self) -> None:
        """End an attempt: release everything within a bounded time, whatever a sink does. A repetition does nothing."""
        ...

    def kill(self) -> None:
        """Interrupt the query and return at once. Called from another thread, while an order may hang."""
        ...

    def snapshot(self, batch: int) -> SubtaskSnapshot | None:
        """Return the snapshot after a recorded batch (-1: before the first); None while Spark has not committed it.

        Called from another thread, at any time.
        """
        ...

    def allow(self, producer: SubtaskId, upto: int) -> None:
        """Let the subtask read the first `upto` batches of the producer. Called from another thread.

        If only empty batches are read by that, `BatchRecorded` is reported with the last batch again.
        """
        ...

    def purge(self, oldest_batch: int, oldest_output: int, *, over: bool) -> None:
        """Delete files that no batch from `oldest_batch` on needs, and outputs before `oldest_output`.

        Args:
            over: True if no retained checkpoint of its lineage starts the subtask again: its query is not needed.
        """
        ...

    def status(self) -> TaskStatusDocument:
        """Return the status for people to read. Called from another thread."""
        ...


@runtime_checkable
class StreamRunner(TaskRunner, Protocol):
    """The runner of a subtask that runs as a stream: it gets the time, can be stopped, and goes into savepoints.

    A batch run has none: its inputs are never idle, and there is no place where it could be held.
    """

    def suspend(self) -> int:
        """Hold the query at a batch boundary, whether it runs or not; return the last batch.

        Spark has then committed every recorded batch.
        """
        ...

    def stop_sources(self) -> None:
        """Stop reading the sources; channels are still read. Called from another thread."""
        ...

    def tick(self, now_ms: int) -> None:
        """Take in the time, which decides whether inputs are idle. Called from another thread, 20 times a second."""
        ...

    def copy(self, snapshot: SubtaskSnapshot, store: Store, folder: str) -> int:
        """Copy the files that `snapshot` needs into a savepoint's folder; return their size in bytes."""
        ...


def streams_of(runners: Mapping[SubtaskId, TaskRunner]) -> dict[SubtaskId, StreamRunner]:
    """Return the runners of streams: all of them, or none in a batch run."""
    return {subtask: runner for subtask, runner in runners.items() if isinstance(runner, StreamRunner)}


class Subtasks(Protocol):
    """The subtasks of a run, each after its last batch record."""

    @property
    def splits(self) -> Mapping[str, Mapping[str, Splits]]:
        """The files shared out: task → bounded source → its splits."""
        ...

    @property
    def custom(self) -> Mapping[str, Mapping[str, CustomSplits]]:
        """The custom splits: task → custom source → its splits."""
        ...

    def runners(self) -> Mapping[SubtaskId, TaskRunner]:
        """Return a runner for every subtask of the job, also for those that have ended.

        Raises:
            RekindleError: the function of a task, or its plan, is wrong.
        """
        ...

    def read(self, subtask: SubtaskId, record: BatchRecord | None) -> dict[SubtaskId, int]:
        """Return producer → number of its batches that a subtask has read by a record of its; None: it has none."""
        ...


class Engine(Protocol):
    """The engine that carries out the queries of a run, and answers the questions of a start."""

    @property
    def lifeline(self) -> Lifeline:
        """The watch that reports when the engine is gone."""
        ...

    def quiet(self) -> AbstractContextManager[None]:
        """Keep the engine from logging, inside, errors of queries that are held or canceled on purpose."""
        ...

    def stop(self) -> None:
        """Stop the engine; one that belongs to the user stays."""
        ...

    def check_reaches(self, places: Iterable[str]) -> None:
        """Check that the engine has the libraries to read and write at these addresses.

        Raises:
            DefinitionError: ``S3A_MISSING``.
        """
        ...

    def check_sees(self, place: str, path: str) -> None:
        """Check that the engine finds the object at `path` of the store at `place`, which exists.

        Raises:
            StorageError: ``STORAGE_OTHER_FOR_SPARK``.
        """
        ...

    @property
    def value_settings(self) -> Mapping[str, str]:
        """The engine's settings that values depend on, such as its time zone; none of them is a secret."""
        ...

    def freeze(self, storage: JobStorage, spec: SourceSpec, attempt: str, steps: Steps) -> FrozenFiles | None:
        """Freeze the list of files of a bounded source, once for the job; return None if it is not bounded.

        Args:
            attempt: a fresh name for the files that are written.
        """
        ...

    def words_of(self, error: BaseException) -> str:
        """Return the reason of an exception in one line, of one of the engine's own the words that tell it."""
        ...

    def repartition(self, storage: JobStorage, folder: str, task: str, count: int) -> None:
        """Repartition the state of a subtask of a new lineage into `count` partitions.

        Raises:
            RestoreError: ``STATE_PARTITIONS_UNCHANGEABLE``.
        """
        ...

    def examine(self, of: Examination) -> Mapping[str, Examined]:
        """Return task → findings about its query, and start none."""
        ...

    def assemble(self, run: RunContext, lineage: Lineage) -> Subtasks:
        """Assemble the subtasks of a run.

        Args:
            lineage: the lineage that the run continues or has opened.
        """
        ...


class Engines(Protocol):
    """A factory of the engines of one process."""

    def make(self) -> Engine:
        """Return an engine; another one only if the one before is `Lifeline.replaceable`.

        Raises:
            DefinitionError: ``SPARK_NOT_STARTED``; or the session that the user has given cannot be used.
        """
        ...

    def forget_failed(self) -> None:
        """End the remains of an engine that could not be made, or does not start."""
        ...
