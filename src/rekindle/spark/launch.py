"""Starting a run: from a definition and what the storage holds to a driver that is ready to loop.

Everything that can be wrong is looked at in the order of its price: the definition (before Spark), the storage (before
Spark), the session, the sources and the plan. Claiming the run comes after the first three, because it fences other
drivers; whatever fails after it is recorded as the run's result.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from rekindle.config import Config
from rekindle.errors import ControlError, RekindleError, RestoreError, StorageError
from rekindle.graph.compatibility import check_drained, check_finished_state, check_graph, check_parallelism
from rekindle.ids import SubtaskId
from rekindle.protocol import events as e
from rekindle.protocol.job import Job
from rekindle.runtime.checkpointing import Checkpointing, finished_operators, snapshots_of
from rekindle.runtime.driver import Clock, Driver, is_driven_here, system_clock
from rekindle.runtime.leftovers import clean, prepared, refuse_sink_ahead, uncommitted
from rekindle.runtime.steps import SteppedStore, Steps
from rekindle.sources.globs import is_glob
from rekindle.spark.assembly import Assembly
from rekindle.spark.batch_assembly import BatchAssembly
from rekindle.spark.freezing import freeze
from rekindle.spark.reach import check_s3a, check_sees
from rekindle.spark.restore import open_lineage
from rekindle.spark.starting import Definition, Starting
from rekindle.spark.state_partitions import repartition, state_partitions
from rekindle.storage import layout
from rekindle.storage.documents import (
    End,
    Identity,
    Lineage,
    Manifest,
    Result,
    Run,
    SubtaskSnapshot,
)
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.liveness import is_alive, silence_ms, this_process
from rekindle.storage.open import open_store
from rekindle.storage.origin import Origin, find_origin
from rekindle.storage.resolve import AlreadyEnded, Decision, Facts, Fresh, Restore, Resume, resolve


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """What the user allows a restore to do."""

    non_restored_state: bool = False
    drained: bool = False
    sink_ahead: bool = False


class Launch:
    """One start of a job, step by step; `prepare` touches neither Spark nor anything durable."""

    def __init__(
        self,
        definition: Definition,
        storage: str,
        config: Config,
        permissions: Permissions,
        steps: Steps,
        clock: Clock = system_clock,
        mode: str = "streaming",
    ) -> None:
        self._definition = definition
        self._mode = mode
        self._graph = definition.graph if mode == "streaming" else definition.graph.with_single_subtasks()
        self._config = config
        self._permissions = permissions
        self._steps = steps
        self._clock = clock
        self._store = SteppedStore(open_store(storage), steps)
        self.storage = JobStorage(self._store, definition.graph.name)
        self._origin: Origin | None = None
        self._decision: Decision | None = None

    # -- before Spark -------------------------------------------------------------------------------------------------

    def prepare(self, restore: str | None) -> Result | None:
        """Decide how to begin; returns the result of a job that has ended already.

        Raises:
            ControlError: ``JOB_ALREADY_RUNNING``.
            RestoreError: whatever forbids this start.
            StorageError: ``STORAGE_PATH_UNSUPPORTED``; the storage cannot be read.
        """
        storage = self.storage
        _refuse_patterns(storage.store.location)
        self._refuse_second_driver()
        run, lineage = storage.latest_run(), storage.lineage()
        newest = next(iter(storage.checkpoints()), None)
        facts = Facts(
            run=run,
            result=storage.result(run.run) if run else None,
            lineage=None if lineage is not None and self._came_to_nothing(lineage, run) else lineage,
            latest_checkpoint=self._checkpoint_path(newest) if newest is not None else None,
        )
        decision = resolve(facts, restore=self._absolute(restore), allow_drained=self._permissions.drained)
        self._check_mode(decision, facts.lineage)
        if isinstance(decision, AlreadyEnded):
            return decision.result
        if isinstance(decision, Resume) and decision.lineage.graph.keys() != {task.uid for task in self._graph.tasks}:
            decision = self._with_other_tasks(decision.lineage)
        self._decision = decision
        if isinstance(decision, Restore):
            self._origin = find_origin(decision.path)
            self._check_origin(self._origin, decision)
        elif isinstance(decision, Resume):
            place = self._place(decision.lineage)
            self._check_finished(self._ends(decision.lineage), decision.lineage.chains, place)
            check_graph(self._graph, decision.lineage.graph, place)
            check_parallelism(self._graph, decision.lineage.parallelism, place)
            self._check_state_partitions(decision.lineage)
        self._check_sinks()
        storage.store.check()
        return None

    def _check_mode(self, decision: Decision, lineage: Lineage | None) -> None:
        """How a job runs never changes under its user."""
        if isinstance(decision, Restore):
            if self._mode == "batch":
                raise RestoreError("BATCH_FROM_CHECKPOINT", path=decision.path)
            return
        if lineage is not None and lineage.mode != self._mode:
            place = f"The job {self._graph.name!r} in {self.storage.store.location}"
            raise RestoreError("MODE_FIXED", path=place, found=lineage.mode, mode=self._mode)

    def _with_other_tasks(self, lineage: Lineage) -> Restore:
        """From the lineage's last checkpoint, in a lineage that is theirs: a task that came back in place would not
        find in its channels what was written while it was gone.
        """
        newest = self.storage.latest_manifest(lineage.lineage) if self._mode == "streaming" else None
        if newest is None:
            before, now = set(lineage.graph), {task.uid for task in self._graph.tasks}
            raise RestoreError(
                "TASKS_CHANGED",
                path=self._place(lineage),
                new=", ".join(sorted(now - before)) or "none",
                gone=", ".join(sorted(before - now)) or "none",
            )
        return Restore(self._checkpoint_path(newest.checkpoint))

    def _place(self, lineage: Lineage) -> str:
        return f"lineage {lineage.lineage} in {self.storage.store.location}"

    def _came_to_nothing(self, lineage: Lineage, run: Run | None) -> bool:
        """Whether every start in it failed before it had a query, or, in batch mode, a record: then what was wrong may
        be changed at will.

        A driver that left no word may only be paused; it and this one have to meet in the same lineage.
        """
        storage = self.storage
        folders = (layout.subtask(storage.job, *subtask, lineage.lineage) for subtask in lineage.subtasks())
        return (
            run is not None
            and lineage.restored_from is None
            and all(storage.result(number) is not None for number in range(lineage.run, run.run + 1))
            and not any(
                storage.store.names(layout.spark_progress_dir(folder)) or storage.records(folder) for folder in folders
            )
        )

    def _refuse_second_driver(self) -> None:
        storage = self.storage
        driver = storage.driver()
        if driver is None or storage.result(driver.run) is not None:
            return
        ours = (driver.host, driver.pid, driver.process_started) == this_process()
        alive = is_driven_here(storage, driver.run) if ours else is_alive(driver)
        if alive is None:
            # Its driver was on another machine: whether it lives shows only in a heartbeat that moves.
            threading.Event().wait(silence_ms(storage.store) / 1000)
            alive = is_alive(storage.driver() or driver, driver)
        if alive:
            raise ControlError("JOB_ALREADY_RUNNING", job=storage.job, run=driver.run, pid=driver.pid, host=driver.host)

    def _absolute(self, restore: str | None) -> str | None:
        """A checkpoint may be named by its number."""
        if restore is None:
            return None
        if restore.isdigit():
            return self._checkpoint_path(int(restore))
        return open_store(restore).location

    def _checkpoint_path(self, number: int) -> str:
        return f"{self.storage.store.location.rstrip('/')}/{layout.checkpoint(self.storage.job, number)}"

    def _check_origin(self, origin: Origin, decision: Restore) -> None:
        manifest = origin.manifest
        if manifest.job != self._graph.name:
            raise RestoreError("JOB_DIFFERENT", path=decision.path, found=manifest.job, job=self._graph.name)
        if manifest.mode != self._mode:
            raise RestoreError("MODE_FIXED", path=decision.path, found=manifest.mode, mode=self._mode)
        ends = {task: snapshot.end for task, snapshot in snapshots_of(manifest).items()}
        self._check_finished(ends, manifest.chains, decision.path, undo_drain=decision.undo_drain)
        check_graph(
            self._graph,
            manifest.graph,
            decision.path,
            allow_non_restored_state=self._permissions.non_restored_state,
        )
        if decision.repeated:
            return
        check_drained(manifest.drained, decision.path, allow_drained=self._permissions.drained)
        if not self._permissions.sink_ahead:
            refuse_sink_ahead(self.storage, manifest, decision.path)

    def _check_finished(
        self,
        ends: Mapping[SubtaskId, End | None],
        chains: Mapping[str, Sequence[str]],
        place: str,
        *,
        undo_drain: bool = False,
    ) -> None:
        """Nothing that still runs may feed what has finished (FLIP-147)."""
        topology = self._graph.topology
        check_finished_state(topology, finished_operators(ends, chains, topology, undo_drain=undo_drain), place)

    def _ends(self, lineage: Lineage) -> dict[SubtaskId, End | None]:
        """How far each subtask of a lineage has come to its end."""
        folders = {
            subtask: layout.subtask(self.storage.job, *subtask, lineage.lineage) for subtask in lineage.subtasks()
        }
        return {subtask: self.storage.end(folder) for subtask, folder in folders.items()}

    def _check_sinks(self) -> None:
        """A sink with prepared rows may not vanish: nobody could commit them."""
        # A lineage that is opened has prepared nothing; what is left is of a checkpoint that was not yet committed.
        lineage = self._decision.lineage.lineage if isinstance(self._decision, Resume) else 0
        for uid in self._prepared(lineage):
            if uid not in self._definition.sinks:
                place, difference = self.storage.store.location, f"sink {uid} has prepared rows and is gone."
                raise RestoreError("GRAPH_CHANGED", path=place, difference=difference)

    def _check_state_partitions(self, lineage: Lineage) -> None:
        """Spark would go on with what it has, and say nothing."""
        wanted = self._config.state_partitions
        for task, end in self._ends(lineage).items():
            folder = layout.subtask(self.storage.job, task.task, task.subtask, lineage.lineage)
            found = state_partitions(self._store, layout.spark_progress_dir(folder))
            if wanted and end is None and found not in (None, wanted):
                raise RestoreError("STATE_PARTITIONS_FIXED", task=task.task, found=found, wanted=wanted)

    def _prepared(self, lineage: int) -> dict[str, list[dict[str, Any]]]:
        """What may still have to be committed: sink uid → committables."""
        return prepared(self.storage, self._graph.subtasks(), lineage, self._covered(lineage))

    def _covered(self, lineage: int) -> dict[SubtaskId, int]:
        """The last batch of each subtask that a checkpoint of the lineage covers."""
        manifest = self._latest_manifest(lineage)
        return {task: snapshot.batch for task, snapshot in snapshots_of(manifest).items()} if manifest else {}

    def _latest_manifest(self, lineage: int) -> Manifest | None:
        """The newest of `lineage`; one that this start opens has none, whatever state the others' are in."""
        return self.storage.latest_manifest(lineage) if isinstance(self._decision, Resume) else None

    # -- with Spark ---------------------------------------------------------------------------------------------------

    def begin(self, spark: SparkSession) -> Driver:
        """Claim the run, open what is to be opened, build the plan; returns the driver. Records what goes wrong."""
        storage, decision = self.storage, self._decision
        for place in (self._store.location, *self._reached()):
            check_s3a(spark, place)
        continues = decision.lineage.lineage if isinstance(decision, Resume) else None

        def make(number: int) -> Run:
            return Run(
                run=number,
                started_ms=self._clock(),
                lineage=continues or number,
                restore_from=decision.path if isinstance(decision, Restore) else None,
                undo_drain=isinstance(decision, Restore) and decision.undo_drain,
                token=secrets.token_hex(8),
                mode=self._mode,
                **this_process()._asdict(),
            )

        identity = Identity(job=storage.job, created_ms=self._clock(), id=secrets.token_hex(4))
        identity = storage.adopt(layout.identity(storage.job), identity)
        check_sees(spark, self._store.location, self._store.spark_path(layout.identity(storage.job)))
        run = storage.claim_run(make)
        self._store.look = lambda: self._refuse_if_fenced(run)
        try:
            return self._open(spark, run, identity.owner)
        except BaseException as error:
            failed = Result(
                run=run.run,
                state="FAILED",
                ended_ms=self._clock(),
                error=error.to_json() if isinstance(error, RekindleError) else None,
            )
            with suppress(StorageError):  # which may be what went wrong
                storage.adopt(layout.result(storage.job, run.run), failed)
            raise

    def _reached(self) -> Iterator[str]:
        """Places that Spark reads or writes beside the storage."""
        for source in self._definition.sources.values():
            yield from getattr(source.spec, "paths", ())
        for sink in self._definition.sinks.values():
            yield from sink.addresses

    def _open(self, spark: SparkSession, run: Run, owner: str) -> Driver:
        storage, graph, sinks = self.storage, self._graph, self._definition.sinks
        if self._origin is not None:
            repartitioned = partial(repartition, spark, storage, count=self._config.state_partitions)
            with self._origin.read_whole():
                open_lineage(
                    storage,
                    self._origin,
                    graph,
                    lineage=run.lineage,
                    run=run.run,
                    undo_drain=run.undo_drain,
                    opened=repartitioned,
                )
        if isinstance(self._decision, Fresh):
            self._forget_lists(run)
        lineage = self._decision.lineage if isinstance(self._decision, Resume) else self._lineage(run)
        if run.lineage == run.run:
            storage.create(layout.lineage(storage.job, run.lineage), lineage)
        for uid, sink in sinks.items():
            sink.stage_in(storage.store, layout.sink(storage.job, uid))
            sink.open(owner, uid)
        job = Job(graph, self._config, batch=self._mode == "batch")
        posted: list[Driver] = []

        def post(event: e.Event) -> None:
            posted[0].post(event)

        assembly = self._assemble(spark, run, owner, lineage, post)
        runners = assembly.runners()
        latest = self._latest_manifest(run.lineage)
        finished = {
            task: snapshot
            for task, snapshot in (snapshots_of(latest) if latest else {}).items()
            if snapshot.end is not None
        }
        checkpointing = Checkpointing(
            storage, run, graph, runners, sinks, assembly.splits, finished, self._steps, self._clock
        )
        started = self._started(run, finished, assembly)
        clean(storage, graph.subtasks(), run, sinks, self._prepared(run.lineage), self._steps)
        driver = Driver(storage, run, job, runners, checkpointing, started, self._config, self._clock)
        posted.append(driver)
        return driver

    def _assemble(
        self, spark: SparkSession, run: Run, owner: str, lineage: Lineage, post: Callable[[e.Event], None]
    ) -> Assembly | BatchAssembly:
        starting = Starting(
            spark=spark,
            storage=self.storage,
            run=run,
            owner=owner,
            graph=self._graph,
            definition=self._definition,
            frozen={
                uid: freeze(spark, self.storage, spec, f"{run.run:06d}-{secrets.token_hex(4)}", self._steps)
                for uid, spec in self._definition.sources.items()
            },
            config=self._config,
            steps=self._steps,
            post=post,
        )
        return BatchAssembly(starting) if self._mode == "batch" else Assembly(starting, lineage)

    def _lineage(self, run: Run) -> Lineage:
        origin = self._origin
        return Lineage(
            lineage=run.lineage,
            run=run.run,
            created_ms=self._clock(),
            restored_from=run.restore_from,
            restored_checkpoint=origin.manifest.checkpoint if origin else None,
            graph={task.uid: list(task.inputs) for task in self._graph.tasks},
            chains={vertex.uid: list(vertex.chain) for vertex in self._graph.topology.vertices},
            parallelism={task.uid: task.parallelism for task in self._graph.tasks if task.parallelism != 1},
            unread=origin.manifest.unread if origin else {},
            mode=run.mode,
        )

    def _forget_lists(self, run: Run) -> None:
        """An earlier start came to nothing: its frozen lists may be just what was wrong with it."""
        for uid in self._definition.sources:
            folder = layout.source(self.storage.job, uid)
            if self.storage.store.exists(folder) and self.storage.fenced_by(run.run) is None:
                self.storage.store.delete_tree(folder)

    def _started(
        self, run: Run, finished: Mapping[SubtaskId, SubtaskSnapshot], assembly: Assembly | BatchAssembly
    ) -> e.JobStarted:
        storage = self.storage
        status = storage.status()
        used = [*storage.checkpoints(), *(stats.id for stats in (status.history if status else ()))]
        restored, draining, covered = {}, False, self._covered(run.lineage)
        for task in self._graph.subtasks():
            folder = layout.subtask(storage.job, task.task, task.subtask, run.lineage)
            end, records = storage.end(folder), storage.records(folder)
            restored[task] = e.RestoredTask(
                closed=task in finished,
                ended=end is not None,
                drained=end is not None and end.drained,
                notes=end.notes if end else (),
                batch=end.batch if end else max(records, default=-1),
                read=assembly.read(task),
                # A lineage begins with the record of the batch that it goes on from, which has nothing to commit.
                committed=covered.get(task, min(records, default=0) - 1),
            )
            draining = draining or (end is None and storage.drain(folder) is not None)
        return e.JobStarted(
            now_ms=self._clock(),
            # One number is left free where the last driver may only be paused, writing one that nothing shows yet.
            next_checkpoint=max(used, default=0) + (1 if run.run == 1 or storage.result(run.run - 1) else 2),
            latest_checkpoint=next(iter(storage.checkpoints()), None),
            committed=uncommitted(storage) is None,
            tasks=restored,
            draining=draining,
        )

    def _refuse_if_fenced(self, run: Run) -> None:
        newer = self.storage.fenced_by(run.run)
        if newer is not None:
            raise ControlError("DRIVER_FENCED", run=run.run, job=self.storage.job, newer=newer)


def _refuse_patterns(location: str) -> None:
    """Spark takes a path with such letters for a pattern, and then ignores the logs of inboxes below it."""
    if is_glob(location):
        raise StorageError("STORAGE_PATH_UNSUPPORTED", uri=location, letters="{ } [ ] * ? \\")
