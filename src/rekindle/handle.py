"""The handle of a job that was started in this process: `JobHandle`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from rekindle.advice import advised
from rekindle.results import Checkpoint, JobResult, JobStatus, Savepoint
from rekindle.runtime import client
from rekindle.runtime.pauses import USUAL, Pauses
from rekindle.runtime.saving import savepoint_at_rest
from rekindle.storage import layout
from rekindle.storage.documents.runs import Result
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from rekindle.storage.savepoints import default_folder

if TYPE_CHECKING:
    from rekindle.runtime.heartbeat import Heartbeat


class DriverOfHandle(Protocol):
    """The driver of the job, as far as a handle needs it."""

    @property
    def heartbeat(self) -> Heartbeat:
        """The heartbeat, which has the status of the job."""
        ...

    def look(self) -> None:
        """Read the requests now."""
        ...


class JobHandle:
    """A job that runs in this process. Its verbs use the storage, like those of the command line."""

    def __init__(
        self,
        storage: JobStorage,
        *,
        mode: str = "streaming",
        ended: JobResult | None = None,
        driver: DriverOfHandle | None = None,
        run: Callable[[], Result] | None = None,
        pauses: Pauses = USUAL,
    ) -> None:
        self._storage = storage
        #: "streaming" or "batch"
        self.mode = mode
        self._driver = driver
        self._pauses = pauses
        self._result = ended
        self._error: BaseException | None = None
        #: set once the driver has ended. Python 3.11 takes a thread for dead whose `join` was interrupted.
        self._over = threading.Event()
        if run is None:
            self._over.set()
        else:
            threading.Thread(target=self._run, args=(run,), name=f"driver-{storage.job}", daemon=True).start()

    def _run(self, run: Callable[[], Result]) -> None:
        try:
            self._result = JobResult.of(self._storage.job, run())
        except BaseException as error:
            self._error = error
        finally:
            self._over.set()

    def __repr__(self) -> str:
        if self._result is not None:
            return repr(self._result)
        return f"<{self._storage.job}: {'failed' if self._error else 'started'} in {self._storage.store.location}>"

    def _repr_html_(self) -> str:
        """Return the HTML for a notebook: the status of the job, or its result."""
        return self._result._repr_html_() if self._result is not None else self.status()._repr_html_()

    def is_running(self) -> bool:
        """Return whether the driver of the job has not ended yet."""
        return not self._over.is_set()

    @advised
    def status(self) -> JobStatus:
        """Return the status of the job now."""
        if self._driver is not None:
            return JobStatus.of(self._driver.heartbeat.status())
        status = self._storage.status()
        assert status is not None, "a job that has ended has written its status"
        return JobStatus.of(status)

    @advised
    def wait(self, timeout_s: float | None = None) -> JobResult | None:
        """Wait for the end and return the result; None if the job has not ended within `timeout_s` seconds.

        Raises:
            ControlError: ``DRIVER_FENCED``.
            StorageError: the storage failed, so that nothing could be recorded.
        """
        if not self._over.wait(timeout_s):
            return None
        if self._error is not None:
            raise self._error
        return self._result

    def progress(self) -> JobResult:
        """Show the progress of the job until it has ended, and return its result, like ``rekindle run``.

        A notebook shows a table with bars, which is updated; a terminal shows a live display; other outputs get a line
        at intervals. An interrupt (Ctrl-C or the notebook's stop button) stops the job, and a second one cancels it.

        Raises:
            ControlError, StorageError: as `wait`.
        """
        from rekindle.cli.progress import follow

        return follow(self)

    @advised
    def checkpoint(self) -> Checkpoint:
        """Take a checkpoint now; return it once it is complete and committed."""
        answer = self._ask(client.ControlRequest(verb="checkpoint"))
        assert answer.checkpoint is not None, "an answer names its checkpoint"
        folder = layout.checkpoint(self._storage.job, answer.checkpoint)
        return Checkpoint(answer.checkpoint, f"{self._storage.store.location.rstrip('/')}/{folder}")

    @advised
    def savepoint(self, directory: str | None = None, *, unaligned: bool = False) -> Savepoint:
        """Make a savepoint in a new folder below `directory`; return it. Default: inside the storage.

        Once the job has ended, its last checkpoint is copied.

        Args:
            unaligned: True to copy the rows between tasks, instead of waiting until they are read.
        """
        target = self._directory(directory)
        if self._over.is_set():
            answer: client.Ending = savepoint_at_rest(self._storage, target)
        else:
            answer = self._ask(client.ControlRequest(verb="savepoint", savepoint=target, unaligned=unaligned))
        assert answer.savepoint is not None, "an answer names its savepoint"
        return Savepoint(answer.savepoint, answer.checkpoint)

    @advised
    def stop(self, drain: bool = False, savepoint: str | None = None, *, unaligned: bool = False) -> JobResult:
        """End at a batch boundary with a last checkpoint; with `drain`, flush everything and end for good.

        Returns the result of the job, like `wait`.

        Args:
            savepoint: a directory: make a savepoint of the same cut below it.
            unaligned: True to end without reading the rows between tasks: the checkpoint names them, and a savepoint
                copies them. Not for a drain, which reads everything.
        """
        directory = self._directory(savepoint) if savepoint is not None else None
        wanted = client.ControlRequest(verb="stop", drain=drain, savepoint=directory, unaligned=unaligned)
        return self._ended(self._ask(wanted))

    @advised
    def cancel(self, timeout_s: float = USUAL.cancel_s) -> JobResult:
        """End now, without a checkpoint, even while a stop hangs; return the result of the job.

        Raises:
            ControlError: ``CANCEL_TIMED_OUT``, the driver has not answered; the request stays in force.
        """
        return self._ended(self._ask(client.ControlRequest(verb="cancel"), timeout_s))

    def _ended(self, answer: client.Ending) -> JobResult:
        # What comes next, a new start or `spark.stop()`, must not meet what this run still closes and writes.
        self._over.wait(self._pauses.close_s)
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
            return default_folder(self._storage.store.location)
        return open_store(directory).location

    def _ask(self, wanted: client.ControlRequest, timeout_s: float | None = None) -> client.Ending:
        sent = client.send(self._storage, wanted)
        if isinstance(sent, Result):
            return sent
        is_ours = not self._over.is_set()
        if self._driver is not None:
            self._driver.look()
        return client.wait(
            client.looks(
                self._storage,
                wanted,
                sent,
                timeout_s,
                is_lost=lambda: is_ours and self._over.is_set(),
                pauses=self._pauses,
            )
        )
