"""The past of a job as the pages and verbs show it: its runs, events, log lines and rates."""

from __future__ import annotations

from rekindle.logs import pieces
from rekindle.logs.lines import LogLine
from rekindle.monitoring import views
from rekindle.monitoring.runs import run_views
from rekindle.monitoring.watch import Watch
from rekindle.storage.run_documents import check_run


class JobHistory:
    """The past of each job of a storage."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def runs(self, name: str, limit: int | None = 200) -> list[views.RunView]:
        """Return the runs of a job, the newest first."""
        return run_views(*self._watch.now(name), limit)

    def events(
        self, name: str, run: int | None = None, after: int = -1, limit: int | None = 500
    ) -> list[views.EventView]:
        """Return the newest events with numbers above `after`, the oldest first; ``RUN_UNKNOWN`` for no such run."""
        facts = self._watch.known(name)
        rows = [row for row in facts.logs.events(after) if run is None or row.row.run == run]
        if run is not None and not rows and after < 0:
            check_run(facts.storage, run)
        first = 0 if limit is None else max(len(rows) - limit, 0)
        return [views.EventView(number=row.number, event=row.row) for row in rows[first:]]

    def logs(self, name: str, run: int | None = None, limit: int = 500) -> list[LogLine]:
        """Return the last lines of the log of a run, of the newest one unless it is named; ``RUN_UNKNOWN`` likewise."""
        storage = self._watch.known(name).storage
        lines = pieces.tail(storage, run, limit)
        if run is not None and not lines:
            check_run(storage, run)
        return lines

    def rates(self, name: str, since_ms: int = 0) -> views.RatesView:
        """Return the samples of rates after a moment."""
        return views.RatesView(samples=tuple(self._watch.known(name).logs.rates(since_ms)))
