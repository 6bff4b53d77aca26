"""What a driver leaves in the storage, written by hand, and the command to run on it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from click.testing import CliRunner
from click.testing import Result as Invocation

from rekindle.cli.clock import VerbClock
from rekindle.cli.verbs import rekindle
from rekindle.runtime.pauses import Pauses
from rekindle.storage import layout
from rekindle.storage.documents.batch import InputPosition
from rekindle.storage.documents.checkpoint import Manifest, SubtaskSnapshot, Transaction
from rekindle.storage.documents.control import Answer, Request
from rekindle.storage.documents.runs import Identity, Result, Run
from rekindle.storage.documents.status import InputStatus, Status, TaskStatusDocument
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.liveness import this_process
from rekindle.storage.open import open_store
from tests.claims import claim

JANUARY_MS = 1_735_689_600_000
"""2025-01-01T00:00:00Z"""

GONE = {"host": this_process().host, "pid": this_process().pid, "process_started": this_process().process_started + "0"}
"""A process with our pid that started at another time: it does not live."""


@dataclass
class ManualClock:
    """What the clock of a command shows, and what is done in its pauses, which take no time."""

    #: shortly after the heartbeats of `beat`
    shows_ms: int = JANUARY_MS + 1_200
    pause: Callable[[float], object] = lambda seconds: None
    waited_s: float = 0

    def wait(self, seconds: float) -> None:
        """Pause for so long."""
        self.waited_s += seconds
        self.pause(seconds)

    def clock(self) -> VerbClock:
        """Return it as a verb takes it, which looks for answers often."""
        return VerbClock(
            now_ms=lambda: self.shows_ms,
            elapsed_ms=lambda: time.monotonic_ns() // 1_000_000 + round(self.waited_s * 1_000),
            wait=self.wait,
            pauses=Pauses(driver_s=0.01),
        )


def start(job: JobStorage, **changes: Any) -> Run:
    """Claim a run for this very process, which lives, or for the process in `changes`."""
    job.create(layout.identity(job.job), Identity(job=job.job, created_ms=JANUARY_MS))
    process: dict[str, Any] = this_process()._asdict() | changes
    begun: dict[str, Any] = {"started_ms": JANUARY_MS, "lineage": 1} | process
    return claim(job, lambda run: Run(**({"run": run} | begun)))


def beat(job: JobStorage, run: int = 1, state: str = "RUNNING", **changes: Any) -> None:
    """Write the heartbeat of a job with two inputs."""
    task = TaskStatusDocument(
        uid="hourly",
        subtask=0,
        status="running",
        batch=41,
        watermark=JANUARY_MS,
        inputs={
            "history": InputStatus(position={"files": 3}, share=0.63, rows_per_second=12_345.6),
            "live": InputStatus(position={"0": 7}, rows_per_second=800.0),
        },
        batch_duration_ms=4_800,
    )
    status = {
        "beat": 1,
        "written_ms": JANUARY_MS,
        "tasks": (task,),
        "checkpoints_completed": 7,
        "checkpoints_failed": 1,
        "latest_checkpoint": 7,
        "latest_checkpoint_ms": JANUARY_MS + 60_000,
    }
    process = this_process()._asdict()
    job.replace(
        layout.status(job.job),
        Status(job=job.job, state=state, run=run, **(process | status | changes)),
    )


def complete(job: JobStorage, checkpoint: int, kind: str = "periodic", lineage: int = 1, **changes: Any) -> Manifest:
    """Write the manifest of a checkpoint whose first input has ended."""
    inputs = {
        "history": InputPosition(files=4, bytes=2_048),
        "live": InputPosition(offset={"0": 7}),
    }
    manifest = Manifest(
        checkpoint=checkpoint,
        job=job.job,
        kind=kind,
        run=1,
        lineage=lineage,
        triggered_ms=JANUARY_MS + checkpoint * 1_000,
        completed_ms=JANUARY_MS + checkpoint * 1_000 + 250,
        graph={"hourly": ["history", "live"]},
        tasks={"hourly": {0: SubtaskSnapshot(batch=40, inputs=inputs, watermark_ms=JANUARY_MS)}},
        unread={"hourly": {"history": ()}},
        transactions={"out": [Transaction(task="hourly", subtask=0, batch=40, committables=[{"file": "a"}])]},
        **changes,
    )
    job.create(layout.manifest(layout.checkpoint(job.job, checkpoint)), manifest)
    return manifest


def end(job: JobStorage, state: str, run: int = 1, **changes: Any) -> Result:
    """Write how a run ended."""
    result = Result(run=run, state=state, ended_ms=JANUARY_MS, **changes)
    job.create(layout.result(job.job, run), result)
    return result


@dataclass
class Command:
    """The command on one storage."""

    storage: str
    clock: ManualClock = field(default_factory=ManualClock)

    def __call__(self, *arguments: str, **extra: Any) -> Invocation:
        clock = self.clock.clock()
        return CliRunner().invoke(rekindle, [*arguments, "--storage", self.storage], obj=clock, **extra)

    def plain(self, *arguments: str) -> Invocation:
        """The same for a verb that takes no ``--storage``."""
        return CliRunner().invoke(rekindle, arguments, obj=self.clock.clock())

    def plain_json(self, *arguments: str, code: int = 0) -> Any:
        """What such a verb prints with ``--json``; it must end with `code`."""
        return self._json(self.plain(*arguments, "--json"), code)

    def json(self, *arguments: str, code: int = 0) -> Any:
        """What a verb prints with ``--json``; it must end with `code`."""
        return self._json(self(*arguments, "--json"), code)

    @staticmethod
    def _json(result: Invocation, code: int) -> Any:
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)

    def error(self, *arguments: str, code: int = 1) -> str:
        """Code of the error a verb prints, which must be one, in two lines on stderr."""
        result = self(*arguments)
        assert result.exit_code == code, result.output
        first, second = result.stderr.splitlines()
        assert second.startswith("next: ")
        assert len(second) > len("next: ")
        return first[1:].split("]")[0]


def answer(request: Request, state: str = "RUNNING", **changes: Any) -> Answer:
    return Answer(id=request.id, job="bids", state=state, answered_ms=JANUARY_MS, **changes)


Reply = Callable[[Request], Answer | None]


def see_a_job_there(storage: str) -> None:
    """Let the verbs list, show, inspect and forget a job in this storage."""
    command, job = Command(storage), JobStorage(open_store(storage), "bids")
    start(job, **GONE)
    beat(job, **GONE)
    complete(job, 7)
    end(job, "STOPPED", checkpoint=7)

    assert [(one["job"], one["state"]) for one in command.json("list")] == [("bids", "STOPPED")]
    assert command.json("status", "bids")["checkpoints"]["latest"] == 7
    [checkpoint] = command.json("checkpoints", "bids")
    assert checkpoint["path"] == f"{storage}/bids/checkpoints/000000007"
    assert command("inspect", checkpoint["path"]).exit_code == 0
    assert command("forget", "bids", "--yes").exit_code == 0
    assert command.json("list") == []
    assert list(job.store.walk("")) == []
