"""A storage as the command line, the pages, REST and metrics watch it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from rekindle.config import SETTINGS
from rekindle.errors import RekindleError, StorageError
from rekindle.monitoring import views
from rekindle.monitoring.facts import JobFacts, Now
from rekindle.monitoring.graph import described, graph
from rekindle.monitoring.job_checkpoints import JobCheckpoints
from rekindle.monitoring.job_history import JobHistory
from rekindle.monitoring.overviews import error_view, overview
from rekindle.monitoring.watch import Watch
from rekindle.storage.documents.runs import JobDescription
from rekindle.storage.job_documents import place
from rekindle.storage.job_storage import may_be_a_job
from rekindle.storage.open import open_store
from rekindle.storage.port import Store

_LOG = logging.getLogger(__name__)

UNREADABLE = "UNREADABLE"
"""State of a job with a damaged document, or one of a newer version."""


_UNREADABLE_HEARTBEAT = "The heartbeat, status.json, cannot be read: figures of the job are missing."


class Monitor:
    """A reader of the jobs of one storage. Threads may use it at the same time."""

    def __init__(
        self,
        store: Store,
        index: int = 0,
        prefix: str = "",
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        elapsed_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
        at_once: int = 16,
        opened: Callable[[str], Store] = open_store,
    ) -> None:
        """Watch `store`.

        Args:
            index: which of the storages it is.
            prefix: what the ids of its jobs begin with.
            at_once: how many jobs are read at the same time, where each look is a request.
            opened: opens the places of savepoints.
        """
        self.store = store
        self.index = index
        self._prefix = prefix
        self._at_once = at_once
        self._now_ms = now_ms
        self.watch = Watch(store, now_ms, elapsed_ms)
        self.history = JobHistory(self.watch)
        self.checkpoints = JobCheckpoints(self.watch, opened)

    # -- all jobs -----------------------------------------------------------------------------------------------------

    def overview(self) -> list[views.JobOverview]:
        """Return all jobs, by name; one that cannot be read is ``UNREADABLE``, with the reason.

        Raises:
            StorageError: ``STORAGE_MISSING``; it cannot be read.
        """
        return self.watch.fresh(("overview",), self._overview)

    def _overview(self) -> list[views.JobOverview]:
        names = self.store.names("")
        if not names and not self.store.exists(""):
            raise StorageError("STORAGE_MISSING", uri=self.store.location)
        self.watch.forget_all_but(names)
        if self.store.pace == 1:
            lines = [*map(self._line, names)]
        else:
            with ThreadPoolExecutor(self._at_once) as pool:
                lines = [*pool.map(self._line, names)]
        return [line for line in lines if line is not None]

    def _line(self, name: str) -> views.JobOverview | None:
        """Return the line of a folder; None where it is no job.

        The line reads the identity, which tells it, except that of a folder whose name no job can have.
        """
        line = self.line(name)
        unknown = line.state == UNREADABLE and line.error is not None and line.error.code == "JOB_UNKNOWN"
        return None if unknown and not may_be_a_job(self.store, name) else line

    def line(self, name: str) -> views.JobOverview:
        """Return the line of a job in the list; ``UNREADABLE``, with the reason, where it cannot be read."""
        try:
            return self.watch.fresh(("line", name), lambda: self._overview_of(name))
        except RekindleError as error:
            found = error
        except Exception as error:  # its documents hold what no one has thought of; that must hide no other job
            _LOG.warning("The job %s cannot be read", name, exc_info=True)
            found = StorageError(
                "OBJECT_CORRUPT", path=place(self.store, name), reason=f"{type(error).__name__}: {error}"
            )
        return views.JobOverview(
            id=f"{self._prefix}{name}",
            job=name,
            storage=self.index,
            identity=self.watch.identity_of(name),
            state=UNREADABLE,
            error=error_view(found.to_json()),
        )

    # -- a job --------------------------------------------------------------------------------------------------------

    def job(self, name: str) -> views.JobView:
        """Return a job with its subtasks; ``JOB_UNKNOWN`` where there is none."""
        return self.watch.fresh(("job", name), lambda: self._job(name))

    def _overview_of(self, name: str) -> views.JobOverview:
        """Return the line of a job, whose history is read only where an older version wrote the heartbeat."""
        facts, now = self.watch.at_a_glance(name)
        status = now.status
        if status is None or status.newest is None:
            return self._as_line(name, facts, now, self._subtasks(facts, now))
        return self._as_line(name, facts, now, [views.SubtaskView(status=one) for one in status.tasks])

    def _as_line(
        self, name: str, facts: JobFacts, now: Now, subtasks: Sequence[views.SubtaskView]
    ) -> views.JobOverview:
        line = overview(facts, now, subtasks, self._now_ms())
        return replace(line, id=f"{self._prefix}{name}", storage=self.index)

    def _job(self, name: str) -> views.JobView:
        facts, now = self.watch.now(name)
        subtasks = self._subtasks(facts, now)
        result = now.result
        return views.JobView(
            overview=self._as_line(name, facts, now, subtasks),
            subtasks=tuple(subtasks),
            savepoint=result.savepoint if result else None,
            notes=(*(result.notes if result else ()), *((_UNREADABLE_HEARTBEAT,) if now.unreadable else ())),
        )

    def now(self, name: str) -> Now:
        """Return the documents that tell where a job stands."""
        return self.watch.now(name)[1]

    def _subtasks(self, facts: JobFacts, now: Now) -> list[views.SubtaskView]:
        if now.status is None:
            return []
        sample = facts.logs.latest_rates() if now.at_work else None
        of_this_run = sample is not None and now.heartbeat is not None and sample.run == now.heartbeat.run
        rates = sample.tasks if sample is not None and of_this_run else {}
        return [
            views.SubtaskView(status=task, rates=rates.get(f"{task.uid}/{task.subtask}")) for task in now.status.tasks
        ]

    def graph(self, name: str) -> views.GraphView:
        """Return what a job consists of, with figures."""
        facts, now = self.watch.now(name)
        found = now.description or described(facts.storage.lineage())
        return graph(found, self._subtasks(facts, now), now.at_work)

    def settings(self, name: str) -> views.SettingsView:
        """Return the settings of the newest run."""
        _, now = self.watch.now(name)
        found = now.description or JobDescription()
        return views.SettingsView(
            run=now.run.run if now.run else None,
            version=found.version,
            settings=dict(found.settings),
            what={key: SETTINGS[key].metadata["doc"].replace("`", "") for key in found.settings if key in SETTINGS},
        )
