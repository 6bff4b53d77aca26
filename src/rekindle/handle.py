"""What a user holds while a job runs and after its end: `JobHandle`, and what it returns."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol

from rekindle.errors import JobError, RekindleError, error_from
from rekindle.runtime import client
from rekindle.runtime.saving import savepoint_at_rest
from rekindle.storage import layout
from rekindle.storage.documents.runs import Result
from rekindle.storage.documents.status import InputStatus, Status
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store

if TYPE_CHECKING:
    from rekindle.runtime.heartbeat import Heartbeat


class Shown(Protocol):
    """What drives the job, as far as a handle needs to know it."""

    @property
    def heartbeat(self) -> Heartbeat:
        """What it shows of itself."""
        ...


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A completed checkpoint; ``start(restore=...)`` takes it."""

    number: int
    #: where it lies; retention deletes it once newer ones are complete
    path: str

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepoint, which belongs to its user; ``start(restore=...)`` takes it."""

    path: str
    #: number of the checkpoint that it is a copy of
    checkpoint: int | None = None

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """How a run of a job ended."""

    job: str
    #: FINISHED | STOPPED | DRAINED | CANCELED | FAILED
    state: str
    run: int
    #: number of the last completed checkpoint
    checkpoint: int | None = None
    #: path of the savepoint that the stop made
    savepoint: str | None = None
    notes: tuple[str, ...] = ()
    #: code, message, parameters and next_step, for FAILED
    error: dict[str, Any] | None = None
    #: the job had ended before: nothing was run
    already_ended: bool = False

    def __repr__(self) -> str:
        word = "already " if self.already_ended else ""
        parts = [f"{self.job}: {word}{self.state} in run {self.run}", f"checkpoint {self.checkpoint or '-'}"]
        parts += [f"savepoint {self.savepoint}"] if self.savepoint else []
        parts += [f"[{self.error['code']}] {self.error['message']}"] if self.error else []
        return f"<{', '.join([*parts, *self.notes])}>"

    @classmethod
    def of(cls, job: str, result: Result, *, already_ended: bool = False) -> JobResult:
        """From what the storage keeps."""
        return cls(
            job=job,
            state=result.state,
            run=result.run,
            checkpoint=result.checkpoint,
            savepoint=result.savepoint,
            notes=result.notes,
            error=result.error,
            already_ended=already_ended,
        )

    def to_json(self) -> dict[str, Any]:
        """As ``rekindle run --json`` prints it."""
        return {
            "job": self.job,
            "state": self.state,
            "run": self.run,
            "checkpoint": self.checkpoint,
            "savepoint": self.savepoint,
            "notes": list(self.notes),
            "error": self.error,
            "already_ended": self.already_ended,
        }


class JobStatus(Status):
    """The status of a job: its tasks, their inputs, its checkpoints."""

    __slots__ = ()

    @classmethod
    def of(cls, status: Status) -> JobStatus:
        """From what its driver shows of itself."""
        return cls(**{field.name: getattr(status, field.name) for field in fields(status)})

    def __repr__(self) -> str:
        latest = "no checkpoint yet" if self.latest_checkpoint is None else f"checkpoint {self.latest_checkpoint}"
        lines = [f"{self.job}: {self.state} in run {self.run}, {latest}"]
        for task in self.tasks:
            batch = f"batch {task.batch}" if task.batch >= 0 else "no batch yet"
            inputs = ", ".join(f"{uid} {_progress(item)}" for uid, item in task.inputs.items())
            lines.append(f"  {task.uid}/{task.subtask}: {task.status}, {batch}; {inputs}")
        if self.failure is not None:
            lines.append(f"  restarts {self.restarts}; last failure: [{self.failure.code}] {self.failure.message}")
        return "\n".join(lines)


def _progress(item: InputStatus) -> str:
    if item.ended or item.idle:
        return "ended" if item.ended else "idle"
    return "unbounded" if item.share is None else f"{int(100 * item.share)} %"


def failure(result: JobResult) -> RekindleError | None:
    """Return why a job has failed, or that it was cancelled, to be raised; None where it has ended as it should."""
    error: RekindleError | None = None
    if result.error is not None:
        error = error_from(result.error["code"], result.error["parameters"])
    elif result.state == "CANCELED":
        error = JobError("JOB_CANCELED", job=result.job, run=result.run)
    if error is not None:
        error.result = result
    return error


def spark_log() -> str | None:
    """Return the path of Spark's log; None where no Spark was started here, or the user has configured Log4j."""
    jvm = sys.modules.get("rekindle.spark.session.jvm")
    return jvm.spark_log() if jvm is not None else None


def advise(error: RekindleError) -> None:
    """Let the last lines of an error's traceback say where Spark's log is, and what to do now."""
    log = spark_log()
    lines = [str(error), *([f"Spark's log: {log}"] if log else []), f"next: {error.next_step}"]
    error.args = ("\n".join(lines),)


class JobHandle:
    """A job that runs in this process. Its verbs go through the storage, as the command line's do."""

    def __init__(
        self,
        storage: JobStorage,
        *,
        mode: str = "streaming",
        ended: JobResult | None = None,
        driver: Shown | None = None,
        run: Callable[[], Result] | None = None,
    ) -> None:
        self._storage = storage
        #: "streaming" or "batch"
        self.mode = mode
        self._driver = driver
        self._result = ended
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        if run is not None:
            self._thread = threading.Thread(target=self._run, args=(run,), name=f"driver-{storage.job}", daemon=True)
            self._thread.start()

    def _run(self, run: Callable[[], Result]) -> None:
        try:
            self._result = JobResult.of(self._storage.job, run())
        except BaseException as error:
            self._error = error

    def __repr__(self) -> str:
        if self._result is not None:
            return repr(self._result)
        return f"<{self._storage.job}: {'failed' if self._error else 'started'} in {self._storage.store.location}>"

    def is_running(self) -> bool:
        """Whether its driver has not ended yet."""
        return self._thread is not None and self._thread.is_alive()

    def status(self) -> JobStatus:
        """The status as of now."""
        if self._driver is not None:
            return JobStatus.of(self._driver.heartbeat.status())
        status = self._storage.status()
        assert status is not None, "a job that has ended has written its status"
        return JobStatus.of(status)

    def wait(self, timeout_s: float | None = None) -> JobResult | None:
        """Wait for the end; None if it has not come within `timeout_s`.

        Raises:
            ControlError: ``DRIVER_FENCED``.
            StorageError: the storage failed, so that nothing could be recorded.
        """
        if self._thread is not None:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                return None
        if self._error is not None:
            raise self._error
        return self._result

    def checkpoint(self) -> Checkpoint:
        """Take a checkpoint now; return it once it is complete and committed."""
        answer = self._ask(client.ControlRequest(verb="checkpoint"))
        assert answer.checkpoint is not None, "an answer names its checkpoint"
        folder = layout.checkpoint(self._storage.job, answer.checkpoint)
        return Checkpoint(answer.checkpoint, f"{self._storage.store.location.rstrip('/')}/{folder}")

    def savepoint(self, directory: str | None = None, *, unaligned: bool = False) -> Savepoint:
        """Make a savepoint in a new folder below `directory`; return it. Default: inside the storage.

        Once the job has ended, its last checkpoint is copied.

        Args:
            unaligned: do not wait until what lies between tasks has been read: copy it.
        """
        target = self._directory(directory)
        if self._thread is None or not self._thread.is_alive():
            answer: client.Ending = savepoint_at_rest(self._storage, target)
        else:
            answer = self._ask(client.ControlRequest(verb="savepoint", savepoint=target, unaligned=unaligned))
        assert answer.savepoint is not None, "an answer names its savepoint"
        return Savepoint(answer.savepoint, answer.checkpoint)

    def stop(self, drain: bool = False, savepoint: str | None = None, *, unaligned: bool = False) -> JobResult:
        """End at a batch boundary with a last checkpoint; with `drain`, flush everything and end for good.

        Returns how the job has ended, as `wait` does.

        Args:
            savepoint: a directory: make a savepoint of the same cut below it.
            unaligned: do not wait until what lies between tasks has been read: name it, and copy it. Not for a drain,
                which reads everything.
        """
        directory = self._directory(savepoint) if savepoint is not None else None
        wanted = client.ControlRequest(verb="stop", drain=drain, savepoint=directory, unaligned=unaligned)
        return self._ended(self._ask(wanted))

    def cancel(self, timeout_s: float = client.CANCEL_S) -> JobResult:
        """End now, without a checkpoint; works while a stop hangs. Returns how the job has ended.

        Raises:
            ControlError: ``CANCEL_TIMED_OUT``, the driver has not answered; the request stands.
        """
        return self._ended(self._ask(client.ControlRequest(verb="cancel"), timeout_s))

    def _ended(self, answer: client.Ending) -> JobResult:
        if isinstance(answer, Result):
            return JobResult.of(self._storage.job, answer)
        return JobResult(
            job=self._storage.job,
            state=answer.state,
            run=self.status().run,
            checkpoint=answer.checkpoint,
            savepoint=answer.savepoint,
            notes=answer.notes,
        )

    def _directory(self, directory: str | None) -> str:
        if directory is None:
            return f"{self._storage.store.location.rstrip('/')}/{layout.SAVEPOINTS}"
        return open_store(directory).location

    def _ask(self, wanted: client.ControlRequest, timeout_s: float | None = None) -> client.Ending:
        sent = client.send(self._storage, wanted)
        if isinstance(sent, Result):
            return sent
        thread = self._thread
        return client.wait(
            self._storage, wanted, sent, timeout_s, is_lost=lambda: thread is not None and not thread.is_alive()
        )
