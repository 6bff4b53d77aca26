"""The cost of a heartbeat: the status and the history of a job with many subtasks, written to a local disk.

    python bench/heartbeat.py [SUBTASKS]

Prints the CPU time of a beat, which comes once a second: milliseconds, and so thousandths of a core.
"""

from __future__ import annotations

import sys
import tempfile
import time
from typing import Any

from rekindle.config import Config
from rekindle.graph.job_graph import JobGraph, Source, Task
from rekindle.ids import SubtaskId
from rekindle.protocol import events as e
from rekindle.protocol.job import JobMachine
from rekindle.runtime.heartbeat import Heartbeat
from rekindle.storage.documents.runs import Run
from rekindle.storage.documents.status import InputStatus, TaskStatusDocument
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore

BEATS = 600


class Shown:
    """As much of a runner as a heartbeat asks for: a subtask that reads 1,000 rows a second."""

    def __init__(self, task: SubtaskId, clock: list[int]) -> None:
        self._task = task
        self._clock = clock

    def status(self) -> TaskStatusDocument:
        """See `TaskRunner`."""
        now_s = self._clock[0] // 1000
        return TaskStatusDocument(
            uid=self._task.task,
            subtask=self._task.subtask,
            status="",
            batch=now_s,
            watermark=self._clock[0] - 5_000,
            inputs={"source": InputStatus(position={"files": now_s, "bytes": 10**9}, share=0.5, rows_per_second=1e3)},
            rows_in=1_000 * now_s,
            rows_of_sources=1_000 * now_s,
            busy_ms=700 * now_s,
            state_rows=10**6,
            state_bytes=10**9,
        )


def main() -> int:
    subtasks = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    tasks = [SubtaskId("hourly", index) for index in range(subtasks)]
    graph = JobGraph(
        name="job",
        sources=(Source(uid="source", bounded=True),),
        tasks=(Task(uid="hourly", inputs=("source",), parallelism=subtasks),),
    )
    clock = [1_700_000_000_000]
    with tempfile.TemporaryDirectory() as folder:
        job = JobMachine(graph, Config.of({"checkpoint.interval": "0"}))
        runners: Any = {task: Shown(task, clock) for task in tasks}
        run = Run(run=1, started_ms=clock[0], host="here", pid=1, lineage=1)
        heartbeat = Heartbeat(JobStorage(LocalStore(folder), "job"), run, job, runners, lambda: clock[0], graph)

        def hear(event: e.Event) -> None:
            heartbeat.heard(event)
            for command in job.handle(event):
                heartbeat.ordered(command)

        hear(e.JobStarted(now_ms=0, tasks={task: e.RestoredTask() for task in tasks}))
        cpu_s = 0.0
        for beat in range(BEATS):
            clock[0] += 1_000
            hear(e.Ticked(now_ms=1_000 * (beat + 1)))
            began_s = time.process_time()
            for task in tasks:
                heartbeat.heard(e.BatchRecorded(task=task, batch=beat, rows_out=10))
            heartbeat.beat()
            cpu_s += time.process_time() - began_s
    print(f"{subtasks} subtasks: {1000 * cpu_s / BEATS:.2f} ms of CPU a beat")
    return 0


if __name__ == "__main__":
    sys.exit(main())
