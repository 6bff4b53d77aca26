"""An engine without Spark: a test says what its subtasks are, and when it dies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext

from rekindle.channels.custom_splits import CustomSplits
from rekindle.channels.splits import Splits
from rekindle.errors import one_line
from rekindle.ids import SubtaskId
from rekindle.runtime.definition import RunContext, SourceSpec
from rekindle.runtime.examining import Examination, Examined
from rekindle.runtime.ports import TaskRunner
from rekindle.runtime.steps import Steps
from rekindle.storage.documents.batch import BatchRecord
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.sources import FrozenFiles
from rekindle.storage.job_storage import JobStorage


class FakeLifeline:
    """A `Lifeline` of an engine that dies when a test says so."""

    def __init__(self) -> None:
        self.replaceable = False
        self.gone = False
        self._died: Callable[[str], None] = lambda reason: None

    def guard(self) -> None:
        """See `Lifeline`."""

    def watch(self, died: Callable[[str], None]) -> None:
        """See `Lifeline`."""
        self._died = died

    def is_gone(self) -> bool:
        """See `Lifeline`."""
        return self.gone

    def close(self) -> None:
        """See `Lifeline`."""
        self._died = lambda reason: None

    def die(self, reason: str = "killed") -> None:
        """Let the engine be gone."""
        self.gone = True
        self._died(reason)


class FakeSubtasks:
    """Subtasks that share nothing out and read no other."""

    def __init__(self, runners: Mapping[SubtaskId, TaskRunner]) -> None:
        self._runners = runners
        self.splits: Mapping[str, Mapping[str, Splits]] = {}
        self.custom: Mapping[str, Mapping[str, CustomSplits]] = {}

    def runners(self) -> Mapping[SubtaskId, TaskRunner]:
        """See `Subtasks`."""
        return self._runners

    def read(self, subtask: SubtaskId, record: BatchRecord | None) -> dict[SubtaskId, int]:
        """See `Subtasks`."""
        return {}


class FakeEngine:
    """An `Engine` that reaches every place.

    Args:
        runner: makes a subtask of a run.

    Attributes:
        before: ``check_sees`` or ``examine`` → called first; may raise.
        value_settings: see `Engine`.
    """

    def __init__(self, runner: Callable[[RunContext, SubtaskId], TaskRunner]) -> None:
        self._runner = runner
        self.before: dict[str, Callable[[], object]] = {}
        self.value_settings: Mapping[str, str] = {}
        self.lifeline = FakeLifeline()

    def quiet(self) -> AbstractContextManager[None]:
        """See `Engine`."""
        return nullcontext()

    def stop(self) -> None:
        """See `Engine`."""

    def check_reaches(self, places: Iterable[str]) -> None:
        """See `Engine`."""

    def check_sees(self, place: str, path: str) -> None:
        """See `Engine`."""
        self._called("check_sees")

    def freeze(self, storage: JobStorage, spec: SourceSpec, attempt: str, steps: Steps) -> FrozenFiles | None:
        """See `Engine`."""
        return None

    def words_of(self, error: BaseException) -> str:
        """See `Engine`."""
        return one_line(error)

    def repartition(self, storage: JobStorage, folder: str, task: str, count: int) -> None:
        """See `Engine`."""

    def examine(self, of: Examination) -> Mapping[str, Examined]:
        """See `Engine`."""
        self._called("examine")
        return {task.uid: Examined() for task in of.graph.tasks}

    def _called(self, method: str) -> None:
        if method in self.before:
            self.before[method]()

    def assemble(self, run: RunContext, lineage: Lineage) -> FakeSubtasks:
        """See `Engine`."""
        return FakeSubtasks({task: self._runner(run, task) for task in run.graph.subtasks()})
