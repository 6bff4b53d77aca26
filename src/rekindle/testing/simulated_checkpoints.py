"""Make the checkpoints, commits and savepoints of a simulated driver, and record how it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.testing.simulated_facts import Discarded, ResultDurable, SealedFromNothing
from rekindle.testing.simulated_files import SimulatedManifest, SimulatedSnapshot
from rekindle.testing.simulated_run import Steps

if TYPE_CHECKING:
    from rekindle.testing.simulated_driver import SimulatedDriver


@dataclass(slots=True)
class Making:
    """The memory that a driver has of the checkpoints that it makes. All of it is volatile."""

    #: checkpoint → snapshots
    gathered: dict[int, dict[SubtaskId, SimulatedSnapshot]] = field(default_factory=dict)
    #: every number up to this one is used
    used_upto: int = 0
    #: checkpoints that were given up
    aborted: set[int] = field(default_factory=set)
    #: the last order on what is to be kept
    retention: c.DiscardOlder | None = None


def snapshot(driver: SimulatedDriver, command: c.TakeSnapshot) -> None:
    task, number = command.task, command.checkpoint
    if driver.run.faults.strike(0.03):
        driver.run.post("checkpoint", e.SnapshotDeclined(task=task, checkpoint=number, detail="it said no"))
        return
    driver.lanes.put(("snapshot", task), gather(driver, command))


def gather(driver: SimulatedDriver, command: c.TakeSnapshot) -> Steps:
    files, task, number = driver.run.world.tasks[command.task], command.task, command.checkpoint
    while files.committed < command.batch and not (files.end and files.end.batch == command.batch):
        if number in driver.checkpoints.aborted:
            return
        yield
    # An end that came after the snapshot was ordered belongs to the next one.
    end = files.end if files.end and files.end.batch == command.batch else None
    taken = SimulatedSnapshot(command.batch, end, command.read, command.in_flight)
    driver.checkpoints.gathered.setdefault(number, {})[task] = taken
    driver.run.post("checkpoint", e.SnapshotTaken(task=task, checkpoint=number, batch=command.batch))


def manifest_of(driver: SimulatedDriver, command: c.WriteManifest) -> SimulatedManifest:
    gathered = driver.checkpoints.gathered.get(command.checkpoint, {})
    finished = {task: snapshot_of_end(driver, task) for task in command.finished}
    transactions = tuple(
        (task, batch) for task, (first, last) in command.transactions.items() for batch in range(first, last + 1)
    )
    return SimulatedManifest(driver.run.number, {**gathered, **finished}, transactions)


def snapshot_of_end(driver: SimulatedDriver, task: SubtaskId) -> SimulatedSnapshot:
    files = driver.run.world.tasks[task]
    return SimulatedSnapshot(files.batch, files.end, files.last.read)


def write_manifest(driver: SimulatedDriver, command: c.WriteManifest) -> None:
    if driver.run.is_fenced():
        return
    number, manifest = command.checkpoint, manifest_of(driver, command)
    folder = driver.run.world.checkpoints
    passed_over = folder.use_up(driver.run.number, range(driver.checkpoints.used_upto + 1, number))
    if folder.is_taken(number, manifest) or not passed_over:
        driver.run.post("checkpoint", e.ManifestFailed(checkpoint=number, detail="its number is taken"))
        return
    if driver.run.faults.strike(0.05):
        if driver.run.faults.chance.random() < 0.5:
            driver.run.world.create_manifest(number, manifest)  # it arrived, only the answer was lost
        driver.run.post("checkpoint", e.ManifestFailed(checkpoint=number, detail="the storage timed out"))
        return
    driver.run.world.create_manifest(number, manifest)
    driver.checkpoints.used_upto = number
    if not driver.run.is_fenced():
        driver.run.post("checkpoint", e.ManifestWritten(checkpoint=number))


def commit(driver: SimulatedDriver, number: int) -> Steps:
    yield
    # Without a manifest a driver could commit what it knows of; it is not for the driver to find that wrong.
    manifest = driver.run.world.checkpoints.manifests.get(number)
    if manifest is None and not driver.run.is_newest():
        driver.run.post("sinks", e.CommitFailed(checkpoint=number, detail="a newer run has deleted its manifest"))
        return
    everything = tuple((task, batch) for task, one in driver.tasks.items() for batch in range(one.last + 1))
    transactions = manifest.transactions if manifest else everything
    for task, batch in transactions:
        if driver.run.faults.strike(0.02):
            driver.run.post("sinks", e.CommitFailed(checkpoint=number, detail="the sink is away"))
            return
        driver.run.world.commit(driver.run.number, number, task, batch)
        yield
    records = (driver.run.world.tasks[task].records[batch] for task, batch in transactions)
    driver.run.world.outputs.show_by_number(number, records)
    driver.run.post("sinks", e.TransactionsCommitted(checkpoint=number))


def seal(driver: SimulatedDriver, command: c.SealSavepoint) -> Steps:
    for _ in range(driver.run.faults.chance.choice((1, 1, 30, 200))):
        yield
        if command.checkpoint not in driver.run.world.checkpoints.manifests and not driver.exited:
            driver.run.note(SealedFromNothing(command.checkpoint, fenced=not driver.run.is_newest()))
    if driver.run.faults.strike(0.4):
        driver.run.post("savepoints", e.SavepointFailed(checkpoint=command.checkpoint, detail="the folder is full"))
        return
    path = f"{command.directory}/{driver.run.world.run}-{command.checkpoint}"
    driver.run.world.checkpoints.savepoints[path] = command.checkpoint
    yield
    driver.run.post("savepoints", e.SavepointSealed(checkpoint=command.checkpoint, path=path))


def discard_older(driver: SimulatedDriver, command: c.DiscardOlder) -> None:
    driver.checkpoints.retention = command
    driver.lanes.put("retention", discard(driver))


def discard(driver: SimulatedDriver) -> Steps:
    yield
    command = driver.checkpoints.retention  # the last one, if others have come since this was ordered
    if command is not None and not driver.run.is_fenced():
        newest = driver.run.world.checkpoints.discard_older(command.keep, command.pinned)
        driver.run.note(Discarded(newest))


def result(driver: SimulatedDriver, command: c.RecordResult) -> None:
    if driver.run.is_fenced():
        return
    last = {task: one.last for task, one in driver.tasks.items()}
    driver.run.world.results[driver.run.number] = command
    driver.run.note(ResultDurable(command.state, driver.run.world.outputs.not_shown(last)))
    driver.run.post("loop", e.ResultRecorded())


def answer(driver: SimulatedDriver, command: c.AnswerRequest) -> None:
    driver.unanswered.pop(command.request, None)


def fail_over(driver: SimulatedDriver, command: c.FailOver) -> None:
    driver.engine.failed_over = command


def leave(driver: SimulatedDriver, command: c.Exit) -> None:
    driver.exited = True
