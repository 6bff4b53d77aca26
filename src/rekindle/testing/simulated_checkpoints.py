"""How a simulated driver makes checkpoints, commits and savepoints, and records how it ends."""

from __future__ import annotations

from rekindle.ids import SubtaskId
from rekindle.protocol import commands as c
from rekindle.protocol import events as e
from rekindle.testing.simulated_facts import SealedFromNothing
from rekindle.testing.simulated_files import SimulatedManifest, SimulatedSnapshot
from rekindle.testing.simulated_parts import SimulatedParts, Steps


def snapshot(driver: SimulatedParts, command: c.TakeSnapshot) -> None:
    task, number = command.task, command.checkpoint
    if driver.faults.strike(0.03):
        driver.post("checkpoint", e.SnapshotDeclined(task=task, checkpoint=number, detail="it said no"))
        return
    driver.on(("snapshot", task), gather(driver, command))


def gather(driver: SimulatedParts, command: c.TakeSnapshot) -> Steps:
    files, task, number = driver.world.tasks[command.task], command.task, command.checkpoint
    while files.committed < command.batch and not (files.end and files.end.batch == command.batch):
        if number in driver.aborted:
            return
        yield
    # An end that came after the snapshot was ordered belongs to the next one.
    end = files.end if files.end and files.end.batch == command.batch else None
    taken = SimulatedSnapshot(command.batch, end, command.read, command.in_flight)
    driver.gathered.setdefault(number, {})[task] = taken
    driver.post("checkpoint", e.SnapshotTaken(task=task, checkpoint=number, batch=command.batch))


def manifest_of(driver: SimulatedParts, command: c.WriteManifest) -> SimulatedManifest:
    gathered = driver.gathered.get(command.checkpoint, {})
    finished = {task: snapshot_of_end(driver, task) for task in command.finished}
    transactions = tuple(
        (task, batch) for task, (first, last) in command.transactions.items() for batch in range(first, last + 1)
    )
    return SimulatedManifest(driver.run, {**gathered, **finished}, transactions)


def snapshot_of_end(driver: SimulatedParts, task: SubtaskId) -> SimulatedSnapshot:
    files = driver.world.tasks[task]
    return SimulatedSnapshot(files.batch, files.end, files.last.read)


def write_manifest(driver: SimulatedParts, command: c.WriteManifest) -> None:
    if driver.is_fenced():
        return
    number, manifest = command.checkpoint, manifest_of(driver, command)
    passed_over = all(driver.world.use_up(driver.run, other) for other in range(driver.used_upto + 1, number))
    taken = number in driver.world.void or driver.world.manifests.get(number, manifest) != manifest
    if taken or not passed_over:
        driver.post("checkpoint", e.ManifestFailed(checkpoint=number, detail="its number is taken"))
        return
    if driver.faults.strike(0.05):
        if driver.faults.chance.random() < 0.5:
            driver.world.create_manifest(number, manifest)  # it arrived, only the answer was lost
        driver.post("checkpoint", e.ManifestFailed(checkpoint=number, detail="the storage timed out"))
        return
    driver.world.create_manifest(number, manifest)
    driver.used_upto = number
    if not driver.is_fenced():
        driver.post("checkpoint", e.ManifestWritten(checkpoint=number))


def commit(driver: SimulatedParts, number: int) -> Steps:
    yield
    # Without a manifest a driver could commit what it knows of; it is not for the driver to find that wrong.
    manifest = driver.world.manifests.get(number)
    if manifest is None and driver.run != driver.world.run:
        driver.post("sinks", e.CommitFailed(checkpoint=number, detail="a newer run has deleted its manifest"))
        return
    everything = tuple((task, batch) for task, last in driver.last.items() for batch in range(last + 1))
    transactions = manifest.transactions if manifest else everything
    for task, batch in transactions:
        if driver.faults.strike(0.02):
            driver.post("sinks", e.CommitFailed(checkpoint=number, detail="the sink is away"))
            return
        driver.world.commit(driver.run, number, task, batch)
        yield
    driver.world.commit_by_number(number, transactions)
    driver.post("sinks", e.TransactionsCommitted(checkpoint=number))


def seal(driver: SimulatedParts, command: c.SealSavepoint) -> Steps:
    for _ in range(driver.faults.chance.choice((1, 1, 30, 200))):
        yield
        if command.checkpoint not in driver.world.manifests and not driver.exited:
            driver.world.note(driver.run, SealedFromNothing(command.checkpoint, fenced=driver.run != driver.world.run))
    if driver.faults.strike(0.4):
        driver.post("savepoints", e.SavepointFailed(checkpoint=command.checkpoint, detail="the folder is full"))
        return
    path = f"{command.directory}/{driver.world.run}-{command.checkpoint}"
    driver.world.savepoints[path] = command.checkpoint
    yield
    driver.post("savepoints", e.SavepointSealed(checkpoint=command.checkpoint, path=path))


def discard_older(driver: SimulatedParts, command: c.DiscardOlder) -> None:
    driver.retention = command
    driver.on("retention", discard(driver))


def discard(driver: SimulatedParts) -> Steps:
    yield
    command = driver.retention  # the last one, if others have come since this was ordered
    if command is not None and not driver.is_fenced():
        driver.world.discard_older(driver.run, command.keep, command.pinned)


def result(driver: SimulatedParts, command: c.RecordResult) -> None:
    if driver.is_fenced():
        return
    driver.world.record_result(driver.run, command, driver.last)
    driver.post("loop", e.ResultRecorded())


def answer(driver: SimulatedParts, command: c.AnswerRequest) -> None:
    driver.unanswered.pop(command.request, None)


def fail_over(driver: SimulatedParts, command: c.FailOver) -> None:
    driver.failed_over = command


def leave(driver: SimulatedParts, command: c.Exit) -> None:
    driver.exited = True
