"""A storage as those see it that watch its jobs: the command line, the pages, REST, metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

from rekindle.config import SETTINGS
from rekindle.errors import ControlError, RekindleError
from rekindle.history import statistics
from rekindle.history.statistics import Summary
from rekindle.ids import check_uid
from rekindle.logs import pieces
from rekindle.logs.lines import LogLine
from rekindle.monitoring import checkpoint_views, checkpoints, sign_of_life, views
from rekindle.monitoring.checkpoints import Checkpoints
from rekindle.monitoring.contents import contents
from rekindle.monitoring.facts import Facts, Now, ReadAgain
from rekindle.monitoring.graph import described, graph
from rekindle.monitoring.overviews import error_view, overview
from rekindle.monitoring.runs import run_views
from rekindle.storage.documents.runs import JobDescription
from rekindle.storage.job_storage import JobStorage, jobs
from rekindle.storage.origin import find_origin
from rekindle.storage.port import Store

Answer = TypeVar("Answer")

_FRESH_MS = 1_000
"""How long an answer is good for on a store of pace 1: a driver beats once a second."""

_AT_ONCE = 16
"""Jobs read at the same time, where each look is a request."""

UNREADABLE = "UNREADABLE"
"""State of a job with a damaged document, or one of a newer version."""


class Monitor:
    """Reads the jobs of one storage. Threads may use it at the same time."""

    def __init__(
        self,
        store: Store,
        index: int = 0,
        prefix: str = "",
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        elapsed_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        """Watch `store`.

        Args:
            index: which of the storages it is.
            prefix: what the ids of its jobs begin with.
        """
        self.store = store
        self.index = index
        self._prefix = prefix
        self._now_ms = now_ms
        self._elapsed_ms = elapsed_ms
        self._facts: dict[str, Facts] = {}
        self._answers: dict[tuple[Any, ...], tuple[int, Any]] = {}

    # -- all jobs -----------------------------------------------------------------------------------------------------

    def overview(self) -> list[views.JobOverview]:
        """Return all jobs, by name; one that cannot be read is ``UNREADABLE``, with the reason."""
        return self._fresh(("overview",), self._overview)

    def _overview(self) -> list[views.JobOverview]:
        names = jobs(self.store)
        for gone in self._facts.keys() - set(names):
            self._facts.pop(gone, None)
        if self.store.pace == 1:
            return [self.line(name) for name in names]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return [*pool.map(self.line, names)]

    def line(self, name: str) -> views.JobOverview:
        """Return the line of a job in the list; ``UNREADABLE``, with the reason, where it cannot be read."""
        try:
            return self.job(name).overview
        except RekindleError as error:
            return views.JobOverview(
                id=f"{self._prefix}{name}",
                job=name,
                storage=self.index,
                state=UNREADABLE,
                error=error_view(error.to_json()),
            )

    def second_look_ms(self) -> int:
        """Return how long to wait before `look_again`: 0 unless a heartbeat that was read looks old.

        For those that look once; a server looks again and again.
        """
        doubtful = any(facts.doubtful for facts in self._facts.values())
        return sign_of_life.BEATS_MS * self.store.pace if doubtful else 0

    def look_again(self) -> None:
        """Forget the answers of a moment ago."""
        self._answers.clear()

    # -- a job --------------------------------------------------------------------------------------------------------

    def job(self, name: str) -> views.JobView:
        """Return a job with its subtasks; ``JOB_UNKNOWN`` where there is none."""
        return self._fresh(("job", name), lambda: self._job(name))

    def _job(self, name: str) -> views.JobView:
        facts, now = self._now(name)
        subtasks = self._subtasks(facts, now)
        result = now.result
        return views.JobView(
            overview=replace(
                overview(facts, now, subtasks, self._now_ms()), id=f"{self._prefix}{name}", storage=self.index
            ),
            subtasks=tuple(subtasks),
            savepoint=result.savepoint if result else None,
            notes=result.notes if result else (),
        )

    def now(self, name: str) -> Now:
        """Return the documents that tell where a job stands."""
        return self._now(name)[1]

    def _subtasks(self, facts: Facts, now: Now) -> list[views.SubtaskView]:
        if now.status is None:
            return []
        sample = facts.logs.latest_rates() if now.at_work else None
        rates = sample.tasks if sample is not None and sample.run == now.status.run else {}
        return [
            views.SubtaskView(status=task, rates=rates.get(f"{task.uid}/{task.subtask}")) for task in now.status.tasks
        ]

    def graph(self, name: str) -> views.GraphView:
        """Return what a job consists of, with figures."""
        facts, now = self._now(name)
        found = self._description(now) or described(facts.storage.lineage())
        return graph(found, self._subtasks(facts, now), now.at_work)

    def settings(self, name: str) -> views.SettingsView:
        """Return the settings of the newest run."""
        _, now = self._now(name)
        found = self._description(now) or JobDescription()
        return views.SettingsView(
            run=now.run.run if now.run else None,
            version=found.version,
            settings=dict(found.settings),
            what={key: SETTINGS[key].metadata["doc"].replace("`", "") for key in found.settings if key in SETTINGS},
        )

    def _description(self, now: Now) -> JobDescription | None:
        return now.run.description if now.run else None

    # -- its history --------------------------------------------------------------------------------------------------

    def runs(self, name: str, limit: int | None = 200) -> list[views.RunView]:
        """Return the runs of a job, the newest first."""
        return run_views(*self._now(name), limit)

    def events(
        self, name: str, run: int | None = None, after: int = -1, limit: int | None = 500
    ) -> list[views.EventView]:
        """Return the newest events with numbers above `after`, the oldest first."""
        rows = [row for row in self._known(name).logs.events(after) if run is None or row.row.run == run]
        first = 0 if limit is None else max(len(rows) - limit, 0)
        return [views.EventView(number=row.number, event=row.row) for row in rows[first:]]

    def logs(self, name: str, run: int | None = None, limit: int = 500) -> list[LogLine]:
        """Return the last lines of the log of a run, of the newest one unless it is named."""
        return pieces.tail(self._known(name).storage, run, limit)

    def rates(self, name: str, since_ms: int = 0) -> views.RatesView:
        """Return the samples of rates after a moment."""
        return views.RatesView(samples=tuple(self._known(name).logs.rates(since_ms)))

    # -- its checkpoints ----------------------------------------------------------------------------------------------

    def checkpoints(self, name: str, limit: int = 50) -> checkpoint_views.CheckpointsView:
        """Return the overview of the checkpoints, and the newest ones."""
        return self._checkpoints(name).view(limit)

    def checkpoint(self, name: str, checkpoint: int) -> checkpoint_views.CheckpointView:
        """Return a checkpoint with its subtasks; ``CHECKPOINT_NOT_KNOWN`` where nothing is known of it."""
        found = self._checkpoints(name).one(checkpoint)
        if found is None:
            raise ControlError("CHECKPOINT_NOT_KNOWN", job=name, checkpoint=checkpoint)
        return found

    def all_checkpoints(self, name: str) -> list[checkpoint_views.CheckpointView]:
        """Return all checkpoints that anything is known of, with their subtasks, the newest first."""
        found = self._checkpoints(name)
        return [checkpoint_views.CheckpointView(overview=found.row(record), record=record) for record in found.records]

    def summary(self, name: str) -> Summary:
        """Return what the newest thousand completed checkpoints cost."""
        return statistics.summary(checkpoints.completed(self._checkpoints(name).records))

    def checkpoint_config(self, name: str) -> checkpoint_views.CheckpointConfig:
        """Return how checkpoints are taken."""
        facts, now = self._now(name)
        description = self._description(now)
        return checkpoints.config(facts, dict(description.settings) if description else None)

    def savepoints(self, name: str) -> list[checkpoint_views.SavepointView]:
        """Return the savepoints that the history knows, the newest first."""
        return self._checkpoints(name).savepoints()

    def contents(self, name: str, checkpoint: int, savepoint: bool) -> checkpoint_views.ContentsView:
        """Return what is in a checkpoint, or in the savepoint that was made of it, if it is still there."""
        path = self.checkpoint(name, checkpoint).overview
        place = path.savepoint if savepoint else path.path
        if place is None:
            raise ControlError("CHECKPOINT_NOT_KNOWN", job=name, checkpoint=checkpoint)
        return contents(find_origin(place), place)

    def _checkpoints(self, name: str) -> Checkpoints:
        return self._fresh(("checkpoints", name), lambda: Checkpoints(*self._now(name)))

    # -- reading ------------------------------------------------------------------------------------------------------

    def storage(self, name: str) -> JobStorage:
        """Return the documents of a job that exists."""
        return self._known(name).storage

    def identity(self, name: str) -> str:
        """Return what tells a job from a later one of its name."""
        return self._known(name).identity.id

    def _known(self, name: str) -> Facts:
        facts = self._facts.get(name)
        try:
            storage = facts.storage if facts is not None else ReadAgain(self.store, check_uid(name))
        except RekindleError:
            raise ControlError("JOB_UNKNOWN", job=name, storage=self.store.location) from None
        identity = storage.identity()
        if identity is None:
            self._facts.pop(name, None)
            raise ControlError("JOB_UNKNOWN", job=name, storage=self.store.location)
        if facts is None or facts.identity != identity:
            facts = self._facts[name] = Facts(storage, identity, self._now_ms, self._elapsed_ms)
        return facts

    def _now(self, name: str) -> tuple[Facts, Now]:
        facts = self._known(name)
        return facts, self._fresh(("now", name, facts.identity.id), facts.now)

    def _fresh(self, key: tuple[Any, ...], read: Callable[[], Answer]) -> Answer:
        """Return the answer of a moment ago, or read it."""
        now_ms = self._elapsed_ms()
        found = self._answers.get(key)
        if found is not None and now_ms - found[0] < _FRESH_MS * self.store.pace:
            answer: Answer = found[1]
            return answer
        answer = read()
        self._answers[key] = (now_ms, answer)
        if len(self._answers) > 10_000:
            self._answers.clear()
        return answer
