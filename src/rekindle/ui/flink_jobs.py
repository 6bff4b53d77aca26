"""The jobs of the storages, found by the ids that Flink's clients know."""

from __future__ import annotations

import time

from starlette.requests import Request

from rekindle.errors import ControlError
from rekindle.monitoring.monitor import Monitor
from rekindle.monitoring.monitors import Monitors
from rekindle.monitoring.views import JobOverview, VertexView
from rekindle.ui.actions import Actions
from rekindle.ui.flink_names import job_id, vertex_id
from rekindle.ui.flink_views import FlinkJob


class Flink:
    """Jobs by their ids in Flink's form."""

    def __init__(self, monitors: Monitors, actions: Actions, version: str, *, allow_actions: bool) -> None:
        self.monitors = monitors
        self.actions = actions
        self.version = version
        self.allow_actions = allow_actions
        #: id in Flink's form → id
        self._ids: dict[str, str] = {}

    def jobs(self) -> list[JobOverview]:
        """Return all jobs."""
        return self.monitors.overview()

    def line(self, request: Request) -> JobOverview:
        """Return the job that an address names."""
        wanted = request.path_params["job"]
        found = self._known_line(wanted)
        if found is None:
            self._ids = {job_id(job): job.id for job in self.jobs()}
            found = self._known_line(wanted)
        if found is None:
            raise ControlError("JOB_ID_UNKNOWN", id=wanted)
        return found

    def _known_line(self, wanted: str) -> JobOverview | None:
        """Return the job that had this id when all were read, if it still has it: only its own documents are read."""
        known = self._ids.get(wanted)
        if known is None:
            return None
        monitor, name = self.monitors.find(known)
        line = monitor.line(name)
        return line if job_id(line) == wanted else None

    def place(self, request: Request) -> tuple[Monitor, str]:
        """Return where the documents of that job are."""
        return self.monitors.find(self.line(request).id)

    def shown(self, request: Request) -> FlinkJob:
        """Return that job with its graph."""
        monitor, name = self.place(request)
        return FlinkJob(job=monitor.job(name), graph=monitor.graph(name), now_ms=now_ms())

    def vertex(self, request: Request) -> tuple[FlinkJob, VertexView]:
        """Return that job, and the task of it that an address names."""
        shown, wanted = self.shown(request), request.path_params["vertex"]
        found = next((one for one in shown.tasks if vertex_id(shown.id, one.uid) == wanted), None)
        if found is None:
            raise ControlError("ADDRESS_UNKNOWN", method="GET", path=request.url.path)
        return shown, found


def now_ms() -> int:
    """Return the time, as Flink's pages compare it with that of events."""
    return time.time_ns() // 1_000_000
