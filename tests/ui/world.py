"""A storage with jobs in every state that a watcher meets, written as drivers write it, without Spark.

    python -m tests.ui.world DIR [--jobs 100] [--checkpoints 100]

It beats for the jobs that run until it is interrupted, since a driver that does not beat is silent or lost.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from rekindle.errors import error_from
from rekindle.history import log
from rekindle.logs.lines import LogLine
from rekindle.storage import layout
from rekindle.storage.documents.checkpoint import Manifest, SubtaskSnapshot
from rekindle.storage.documents.history import (
    CheckpointRecord,
    CheckpointSegment,
    EventError,
    EventSegment,
    HistoryEvent,
    RateSample,
    RateSegment,
    SubtaskStats,
    TaskRates,
)
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.runs import (
    Identity,
    JobDescription,
    Result,
    Run,
    SinkDescription,
    SourceDescription,
    TaskDescription,
)
from rekindle.storage.documents.status import CheckpointStats, Failure, InputStatus, Newest, Status, TaskStatusDocument
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.liveness import Process, this_process
from rekindle.storage.local import LocalStore

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
"""A text that must be seen as text, wherever it is shown."""

TRACE = f"""Traceback (most recent call last):
  File "orders.py", line 41, in enrich
    raise ValueError("no such customer")
ValueError: no such customer {HOSTILE}"""

INTERVAL_MS = 30_000
SAVEPOINT_EVERY = 20
SETTINGS = {
    "checkpoint.interval": "30 seconds",
    "checkpoint.mode": "unaligned",
    "checkpoint.timeout": "10 minutes",
    "checkpoint.retained": "3",
    "restart.delay": "1 second",
}

DESCRIPTION = JobDescription(
    sources=(
        SourceDescription(uid="history", kind="Files", bounded=True, event_time="ts"),
        SourceDescription(
            uid="live", kind="Stream", bounded=False, event_time="ts", watermark="4 seconds", idle_after="1 minute"
        ),
    ),
    tasks=(
        TaskDescription(uid="clean", inputs=("history", "live"), parallelism=2, event_time="ts"),
        TaskDescription(uid="hourly", inputs=("clean",), event_time="window.end"),
    ),
    sinks=(
        SinkDescription(uid="rows", task="clean", kind="Delta"),
        SinkDescription(uid="counts", task="hourly", kind="Parquet"),
    ),
    settings=SETTINGS,
    version="0.1.0",
)
SUBTASKS = (("clean", 0), ("clean", 1), ("hourly", 0))


@dataclass
class Written:
    """A job of the world: its documents, and the heartbeat that is replaced."""

    storage: JobStorage
    status: Status
    #: it beats until the world ends
    beats: bool = False
    rates: list[RateSample] = field(default_factory=list)


class World:
    """Writes jobs into the storage at `folder`."""

    def __init__(self, folder: str, checkpoints: int = 40, now_ms: int | None = None, customer: str = HOSTILE) -> None:
        #: what a user's function finds fault with; it comes to be in errors, traces and reasons
        self.customer = customer
        self.store = LocalStore(folder)
        self.now_ms = now_ms or time.time_ns() // 1_000_000
        self.checkpoints = checkpoints
        self.jobs: dict[str, Written] = {}
        #: those that start: the last sign of life of each
        self.starting: dict[str, Run] = {}

    def everything(self) -> World:
        """One job of each kind."""
        self.healthy("healthy")
        self.back_pressured("back-pressured")
        self.failing("failing")
        self.failed("failed")
        self.lost("lost")
        self.silent("silent")
        self.ended("finished", "FINISHED")
        self.ended("stopped", "STOPPED")
        self.created("just-started")
        return self

    def many(self, count: int, ended: int = 0) -> World:
        """So many jobs, of which so many have ended, and the others run."""
        for number in range(count):
            name = f"job-{number:03d}"
            self.ended(name, "STOPPED") if number < ended else self.healthy(name)
        return self

    # -- kinds of jobs ------------------------------------------------------------------------------------------------

    def healthy(self, name: str) -> Written:
        """A job that runs, and has nothing to complain of."""
        written = self._job(name, this_process(), state="RUNNING", tasks=self._tasks())
        written.beats = True
        return written

    def back_pressured(self, name: str) -> Written:
        """A job whose last task is too slow for those before it."""
        tasks = self._tasks(
            clean={"busy": 0.08, "back_pressured": 0.9, "idle": 0.02, "lag_ms": 185_000},
            hourly={"busy": 1.0, "back_pressured": 0.0, "idle": 0.0, "lag_ms": 240_000, "batch_duration_ms": 12_400},
        )
        written = self._job(name, this_process(), state="RUNNING", tasks=tasks)
        written.beats = True
        return written

    def failing(self, name: str) -> Written:
        """A job one of whose tasks fails again and again."""
        error = error_from(
            "TASK_FAILED", {"task": "hourly/0", "reason": f"ValueError: no such customer {self.customer}"}
        )
        failure = Failure(
            code=error.code, message=error.message, next_step=error.next_step, failed_ms=self.now_ms - 4_000
        )
        again = {
            "status": "restarting",
            "restarts": 7,
            "next_attempt_ms": self.now_ms + 28_000,
            "failure": failure,
            "busy": None,
            "idle": None,
            "back_pressured": None,
            "rows_per_second": None,
        }
        written = self._job(
            name,
            this_process(),
            state="RUNNING",
            tasks=self._tasks(hourly=again),
            failure=failure,
            restarts=7,
            restarts_total=12,
            next_attempt_ms=self.now_ms + 28_000,
            failed_every=4,
        )
        written.beats = True
        return written

    def failed(self, name: str) -> Written:
        """A job that has given up."""
        written = self._job(name, self._dead(), state="FAILED", tasks=self._tasks(), failed_every=3)
        error = error_from(
            "TASK_FAILED", {"task": "hourly/0", "reason": f"ValueError: no such customer {self.customer}"}
        )
        self._end(written, "FAILED", error=error.to_json())
        return written

    def lost(self, name: str) -> Written:
        """A job whose driver was killed."""
        return self._job(name, self._dead(), state="RUNNING", tasks=self._tasks(), age_ms=3_600_000)

    def silent(self, name: str) -> Written:
        """A job whose driver is there, and does nothing."""
        return self._job(name, this_process(), state="RUNNING", tasks=self._tasks(), age_ms=600_000)

    def ended(self, name: str, state: str) -> Written:
        """A job that has ended as it should."""
        closed = {"status": "closed", "busy": None, "idle": None, "back_pressured": None, "lag_ms": None}
        tasks = self._tasks(clean=closed, hourly=closed)
        written = self._job(name, self._dead(), state=state, tasks=tasks)
        self._end(written, state, notes=("2 files of history were left unread",) if state == "STOPPED" else ())
        return written

    def created(self, name: str) -> JobStorage:
        """A job whose driver has not beaten yet: Spark starts."""
        storage = JobStorage(self.store, name)
        storage.create(layout.identity(name), Identity(job=name, created_ms=self.now_ms, id="0000"))
        run = self.starting[name] = Run(run=1, started_ms=self.now_ms, lineage=1, **this_process()._asdict())
        storage.fence.claim(run)
        return storage

    # -- how they are written -----------------------------------------------------------------------------------------

    def _job(
        self,
        name: str,
        process: Process,
        *,
        state: str,
        tasks: tuple[TaskStatusDocument, ...],
        age_ms: int = 0,
        failed_every: int = 0,
        failure: Failure | None = None,
        **more: int,
    ) -> Written:
        storage = JobStorage(self.store, name)
        until_ms = self.now_ms - age_ms
        begun_ms = until_ms - self.checkpoints * INTERVAL_MS
        storage.create(layout.identity(name), Identity(job=name, created_ms=begun_ms - 60_000, id=f"{name}-id"))
        before = Run(run=1, started_ms=begun_ms - 60_000, lineage=1, description=DESCRIPTION, **self._dead()._asdict())
        storage.fence.claim(before)
        storage.record_result(Result(run=1, state="STOPPED", ended_ms=begun_ms - 1_000, checkpoint=2))
        storage.fence.claim(Run(run=2, started_ms=begun_ms, lineage=1, description=DESCRIPTION, **process._asdict()))
        storage.create(
            layout.lineage(name, 1),
            Lineage(
                lineage=1,
                run=1,
                created_ms=begun_ms,
                graph={"clean": ["history", "live"], "hourly": ["clean"]},
                chains={"clean": ["history", "live", "clean", "rows"], "hourly": ["hourly", "counts"]},
                parallelism={"clean": 2},
            ),
        )
        self._log(storage, begun_ms, until_ms)
        records = self._records(storage, begun_ms, failed_every)
        self._segments(storage, records)
        events = self._events(begun_ms, records, failure)
        storage.replace(layout.history_segment(name, "events", 2, 0, 0), EventSegment(first=0, rows=tuple(events)))
        rates = self._rates(until_ms, tasks)
        storage.replace(layout.history_segment(name, "rates", 2, 0, 0), RateSegment(first=0, rows=tuple(rates)))
        completed = [record for record in records if record.status == "completed"]
        for record in completed[-3:]:
            self._manifest(storage, record)
        for record in [one for one in completed if one.savepoint][-1:]:
            self._manifest(storage, record, f"{layout.SAVEPOINTS}/{name}-{record.id}")
        status = Status(
            job=name,
            state=state,
            run=2,
            beat=1,
            written_ms=until_ms,
            tasks=tasks,
            checkpoints_completed=len(completed),
            checkpoints_failed=len(records) - len(completed),
            latest_checkpoint=completed[-1].id if completed else None,
            latest_checkpoint_ms=completed[-1].completed_ms if completed else None,
            history=tuple(_stats(record) for record in reversed(records[-50:])),
            failure=failure,
            started_ms=begun_ms,
            rows_in=sum(task.rows_in or 0 for task in tasks),
            rows_out=sum(task.rows_out or 0 for task in tasks),
            batches=sum(task.batches for task in tasks),
            rows_uncommitted=4_200,
            newest=_newest(completed, rates),
            version="0.1.0",
            identity=f"{name}-id",
            **process._asdict(),
            **more,  # type: ignore[arg-type]
        )
        storage.replace(layout.status(name), status)
        self.jobs[name] = Written(storage, status, rates=rates)
        return self.jobs[name]

    def _tasks(self, **changes: Mapping[str, object]) -> tuple[TaskStatusDocument, ...]:
        tasks = []
        for uid, subtask in SUBTASKS:
            inputs = (
                {"history": InputStatus(share=0.63, rows_per_second=900.0), "live": InputStatus(rows_per_second=350.0)}
                if uid == "clean"
                else {"clean": InputStatus(rows_per_second=2_500.0)}
            )
            task = TaskStatusDocument(
                uid=uid,
                subtask=subtask,
                status="running",
                batch=1_482,
                watermark=self.now_ms - 6_000,
                inputs=inputs,
                rows_per_second=sum(item.rows_per_second or 0 for item in inputs.values()),
                batch_duration_ms=640,
                rows_in=1_234_567 + subtask,
                rows_out=1_200_000 if uid == "clean" else 48_000,
                batches=1_483,
                lag_ms=6_000,
                busy=0.42,
                back_pressured=0.03,
                idle=0.55,
                state_rows=None if uid == "clean" else 98_765,
                state_bytes=None if uid == "clean" else 7_654_321,
                unread_bytes={"hourly": 4_096} if uid == "clean" else {},
            )
            tasks.append(replace(task, **changes.get(uid, {})))  # type: ignore[arg-type]
        return tuple(tasks)

    def _records(self, storage: JobStorage, begun_ms: int, failed_every: int) -> list[CheckpointRecord]:
        records = []
        for number in range(1, self.checkpoints + 1):
            triggered_ms = begun_ms + (number - 1) * INTERVAL_MS
            took_ms = 800 + number * 37 % 900
            stats = tuple(
                SubtaskStats(
                    uid=uid,
                    subtask=subtask,
                    acknowledged_ms=took_ms // 2 + subtask * 100,
                    alignment_ms=number % 40,
                    sync_ms=120 + number % 90,
                    unaligned=uid == "hourly",
                    in_flight_bytes=1_024 * (number % 5) if uid == "hourly" else 0,
                    state_bytes=7_000_000 + number * 1_000 if uid == "hourly" else 0,
                )
                for uid, subtask in SUBTASKS
            )
            savepoint = number % SAVEPOINT_EVERY == 0
            record = CheckpointRecord(
                id=number,
                run=2,
                kind="savepoint" if savepoint else "periodic",
                status="completed",
                triggered_ms=triggered_ms,
                completed_ms=triggered_ms + took_ms,
                duration_ms=took_ms,
                subtasks=stats,
                state_bytes=7_000_000 + number * 1_000,
                in_flight_bytes=1_024 * (number % 5),
                commit_ms=40 + number % 30,
                sink_commit_ms={"rows": 30 + number % 30, "counts": 9},
                path=f"{self.store.location}/{layout.checkpoint(storage.job, number)}",
                savepoint=f"{self.store.location}/_savepoints/{storage.job}-{number}" if savepoint else None,
                savepoint_bytes=9_876_543 if savepoint else None,
            )
            if failed_every and number % failed_every == 0:
                record = replace(
                    record,
                    status="failed",
                    completed_ms=None,
                    duration_ms=None,
                    commit_ms=None,
                    sink_commit_ms={},
                    path=None,
                    savepoint=None,
                    subtasks=(*stats[:2], replace(stats[2], acknowledged_ms=None, sync_ms=None)),
                    failure=f"TASK_FAILED: ValueError: no such customer {self.customer}",
                    failed_ms=triggered_ms + 2_000,
                )
            records.append(record)
        return records

    def _segments(self, storage: JobStorage, records: list[CheckpointRecord]) -> None:
        size = log.CHECKPOINTS.rows
        for k, first in enumerate(range(0, len(records), size)):
            segment = CheckpointSegment(first=first, rows=tuple(records[first : first + size]))
            storage.replace(layout.history_segment(storage.job, "checkpoints", 2, k, segment.first), segment)

    def _events(self, begun_ms: int, records: list[CheckpointRecord], failure: Failure | None) -> list[HistoryEvent]:
        events = [
            HistoryEvent(time_ms=begun_ms - 60_000, run=1, kind="run_started", message="Run 1 started."),
            HistoryEvent(
                time_ms=begun_ms - 2_000,
                run=1,
                kind="stop_requested",
                message="Stop asked for.",
                by=f"ann {self.customer}",
            ),
            HistoryEvent(time_ms=begun_ms - 1_000, run=1, kind="run_ended", message="Run 1 ended: STOPPED."),
            HistoryEvent(time_ms=begun_ms, run=2, kind="run_started", message="Run 2 started."),
        ]
        for record in records:
            completed = record.status == "completed"
            events.append(
                HistoryEvent(
                    time_ms=record.completed_ms or record.failed_ms or 0,
                    run=2,
                    kind="checkpoint_completed" if completed else "checkpoint_failed",
                    severity="info" if completed else "warning",
                    checkpoint=record.id,
                    message=f"Checkpoint {record.id} {record.status}.",
                )
            )
        if failure is not None:
            error = EventError(
                code=failure.code,
                message=failure.message,
                next_step=failure.next_step,
                parameters={"task": "hourly/0"},
                trace=TRACE.replace(HOSTILE, self.customer),
            )
            events.append(
                HistoryEvent(
                    time_ms=failure.failed_ms,
                    run=2,
                    kind="task_failed",
                    severity="error",
                    task="hourly/0",
                    message=failure.message,
                    error=error,
                )
            )
        return events[-log.EVENTS.rows :]

    def _rates(self, until_ms: int, tasks: tuple[TaskStatusDocument, ...]) -> list[RateSample]:
        samples = []
        for number in range(log.RATES.rows):
            wave = 1 + (number % 12 - 6) / 20 if number < log.RATES.rows - 1 else 1.0
            rates = {
                f"{task.uid}/{task.subtask}": TaskRates(
                    rows_in=round((task.rows_per_second or 0) * wave, 1),
                    rows_out=round((400.0 if task.uid == "clean" else 20.0) * wave, 1),
                    batches=1.2,
                    batch_ms=round((task.batch_duration_ms or 0) * wave, 1),
                    watermark_ms=task.watermark,
                    lag_ms=task.lag_ms,
                    busy=task.busy or 0,
                    idle=task.idle or 0,
                    back_pressured=task.back_pressured or 0,
                    state_rows=task.state_rows,
                    state_bytes=task.state_bytes,
                )
                for task in tasks
            }
            samples.append(
                RateSample(
                    time_ms=until_ms - (log.RATES.rows - 1 - number) * 10_000,
                    run=2,
                    tasks=rates,
                    rows_uncommitted=900,
                    restarts=0,
                )
            )
        return samples

    def _log(self, storage: JobStorage, begun_ms: int, until_ms: int) -> None:
        """A log of each run; the second one ends with what is hostile."""
        first = [LogLine(time_ms=begun_ms - 59_000, level="INFO", logger="rekindle.driver", message="Run 1 began.")]
        second = [
            LogLine(
                time_ms=begun_ms + number * 1_000, level="INFO", logger="rekindle.driver", message=f"Line {number}."
            )
            for number in range(300)
        ]
        second.append(
            LogLine(
                time_ms=until_ms - 4_000,
                level="ERROR",
                logger="rekindle.driver",
                message=f"No such customer {self.customer}",
                trace=TRACE.replace(HOSTILE, self.customer),
            )
        )
        for run, lines in ((1, first), (2, second)):
            data = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
            self.store.replace(layout.log_piece(storage.job, run, 1), data)

    def _manifest(self, storage: JobStorage, record: CheckpointRecord, savepoint: str | None = None) -> None:
        tasks = {
            "clean": {0: SubtaskSnapshot(batch=record.id), 1: SubtaskSnapshot(batch=record.id)},
            "hourly": {0: SubtaskSnapshot(batch=record.id)},
        }
        manifest = Manifest(
            checkpoint=record.id,
            job=storage.job,
            kind=record.kind,
            run=2,
            lineage=1,
            triggered_ms=record.triggered_ms,
            completed_ms=record.completed_ms or 0,
            graph={"clean": ["history", "live"], "hourly": ["clean"]},
            tasks=tasks,
            savepoint=savepoint is not None,
            finished_tasks=("history_once",) if savepoint else (),
            in_flight_bytes=record.in_flight_bytes,
            size_bytes=record.savepoint_bytes or 0,
        )
        if savepoint is not None:
            self._state(layout.spark_progress_dir(layout.savepoint_subtask(savepoint, "hourly", 0)), record.id)
        storage.create(layout.manifest(savepoint or layout.checkpoint(storage.job, record.id)), manifest)

    def _state(self, folder: str, batch: int) -> None:
        """Write the state of a query as a savepoint has it: two partitions of 1,000 rows each."""
        operator = json.dumps({"operatorInfo": {"operatorName": "stateStoreSave"}, "stateStoreInfo": []})
        self.store.create(f"{folder}/state/0/_metadata/metadata", f"v1\n{operator}".encode())
        for partition in range(2):
            data = io.BytesIO()
            with zipfile.ZipFile(data, "w") as archive:
                archive.writestr("metadata", 'v1\n{"sstFiles": [], "numKeys": 1000}')
            self.store.create(f"{folder}/state/0/{partition}/{batch + 1}.zip", data.getvalue())

    def _end(self, written: Written, state: str, error: dict[str, object] | None = None, **more: object) -> None:
        result = Result(
            run=2,
            state=state,
            ended_ms=self.now_ms - 30_000,
            checkpoint=written.status.latest_checkpoint,
            error=error,
            **more,  # type: ignore[arg-type]
        )
        written.storage.record_result(result)
        written.status = replace(written.status, result=result)
        written.storage.replace(layout.status(written.storage.job), written.status)

    def _dead(self) -> Process:
        """A process of this machine that has ended."""
        here = this_process()
        namespace = here.process_started.partition("/")[0]
        return here._replace(pid=_ended_pid(), process_started=f"{namespace}/1")

    # -- as time goes by ----------------------------------------------------------------------------------------------

    def beat(self) -> None:
        """Let each job that runs give a sign of life."""
        now_ms = time.time_ns() // 1_000_000
        for written in self.jobs.values():
            if written.beats:
                written.status = replace(written.status, beat=written.status.beat + 1, written_ms=now_ms)
                written.storage.replace(layout.status(written.storage.job), written.status)
        for name, run in self.starting.items():
            self.starting[name] = replace(run, beat=run.beat + 1, written_ms=now_ms)
            JobStorage(self.store, name).replace(layout.status(name, begun=False), self.starting[name])


def _newest(completed: Sequence[CheckpointRecord], rates: Sequence[RateSample]) -> Newest:
    """What a driver repeats in its heartbeat of the newest rows of the history."""
    sinks = {sink.task for sink in DESCRIPTION.sinks}
    named = rates[-1].tasks.items() if rates else ()
    rows_out = [one.rows_out for task, one in named if task.rpartition("/")[0] in sinks and one.rows_out is not None]
    return Newest(
        checkpoint_duration_ms=completed[-1].duration_ms if completed else None,
        checkpoint_bytes=completed[-1].state_bytes if completed else None,
        rows_out_per_second=sum(rows_out) if rows_out else None,
    )


def _stats(record: CheckpointRecord) -> CheckpointStats:
    return CheckpointStats(
        id=record.id,
        kind=record.kind,
        status=record.status,
        triggered_at=record.triggered_ms,
        duration_ms=record.duration_ms,
        acknowledged=(3, 3) if record.status == "completed" else (2, 3),
        in_flight_bytes=record.in_flight_bytes,
        path=record.path,
        failure=record.failure,
    )


_PIDS: list[int] = []


def _ended_pid() -> int:
    if not _PIDS:
        ended = subprocess.Popen([sys.executable, "-c", ""])
        ended.wait()
        _PIDS.append(ended.pid)
    return _PIDS[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--jobs", type=int, default=0, help="so many healthy ones beside one of each kind")
    parser.add_argument("--checkpoints", type=int, default=40, help="of each job")
    options = parser.parse_args()
    world = World(os.path.abspath(options.folder), options.checkpoints).everything().many(options.jobs)
    print(f"{len(world.jobs)} jobs in {options.folder}; Ctrl-C ends their drivers", flush=True)
    try:
        while True:
            world.beat()
            time.sleep(1)
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
