"""The values that the verbs of a handle return: result and status of a job, checkpoints and savepoints."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from rekindle import notebook
from rekindle.errors import JobError, RekindleError, error_from
from rekindle.storage.documents.runs import Result
from rekindle.storage.documents.status import InputStatus, Status, shown_status


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A completed checkpoint; ``start(restore=...)`` takes it."""

    number: int
    #: path of its folder, which retention deletes once newer checkpoints are complete
    path: str

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path

    def _repr_html_(self) -> str:
        return notebook.titled(f"checkpoint {self.number}", self.path)


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepoint, which belongs to its user; ``start(restore=...)`` takes it."""

    path: str
    #: number of the checkpoint that it is a copy of; None: not known
    checkpoint: int | None = None

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path

    def _repr_html_(self) -> str:
        made = f" of checkpoint {self.checkpoint}" if self.checkpoint is not None else ""
        return notebook.titled(f"savepoint{made}", self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """The result of a run of a job."""

    job: str
    #: FINISHED | STOPPED | DRAINED | CANCELED | FAILED
    state: str
    run: int
    #: number of the last completed checkpoint; None: there is none
    checkpoint: int | None = None
    #: path of the savepoint that the stop made; None: it made none
    savepoint: str | None = None
    notes: tuple[str, ...] = ()
    #: code, message, parameters and next_step, for FAILED; else None
    error: dict[str, Any] | None = None
    #: True if the job had ended before, and nothing was run
    already_ended: bool = False

    def __repr__(self) -> str:
        word = "already " if self.already_ended else ""
        parts = [f"{self.job}: {word}{self.state} in run {self.run}", f"checkpoint {self.checkpoint or '-'}"]
        parts += [f"savepoint {self.savepoint}"] if self.savepoint else []
        parts += [f"[{self.error['code']}] {self.error['message']}"] if self.error else []
        return f"<{', '.join([*parts, *self.notes])}>"

    def _repr_html_(self) -> str:
        return notebook.of_result(self.to_json())

    @classmethod
    def of(cls, job: str, result: Result, *, already_ended: bool = False) -> JobResult:
        """Make the result from its document in the storage."""
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
        """Return the result as ``rekindle run --json`` prints it."""
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
        """Make the status from the document that the driver writes."""
        return cls(**{field.name: getattr(status, field.name) for field in fields(status)})

    def __repr__(self) -> str:
        latest = "no checkpoint yet" if self.latest_checkpoint is None else f"checkpoint {self.latest_checkpoint}"
        lines = [f"{self.job}: {self.state} in run {self.run}, {latest}"]
        for task in self.tasks:
            batch = f"batch {task.batch}" if task.batch >= 0 else "no batch yet"
            inputs = ", ".join(f"{uid} {_progress(item)}" for uid, item in task.inputs.items())
            lines.append(f"  {task.uid}/{task.subtask}: {shown_status(task, self.state)}, {batch}; {inputs}")
        if self.failure is not None:
            lines.append(f"  restarts {self.restarts}; last failure: [{self.failure.code}] {self.failure.message}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return notebook.of_status(self)


def _progress(item: InputStatus) -> str:
    if item.ended or item.idle:
        return "ended" if item.ended else "idle"
    return "unbounded" if item.share is None else f"{int(100 * item.share)} %"


def failure(result: JobResult) -> RekindleError | None:
    """Return the error to raise for a job that has failed or was canceled; None: it has ended well."""
    error: RekindleError | None = None
    if result.error is not None:
        error = error_from(result.error["code"], result.error["parameters"])
    elif result.state == "CANCELED":
        error = JobError("JOB_CANCELED", job=result.job, run=result.run)
    if error is not None:
        error.result = result
    return error
