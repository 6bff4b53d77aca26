"""The decision of a start, from the state of the storage and the job as it is now. It uses no Spark and writes nothing.

It is made twice. The first decision comes before Spark is started, so that a start that is refused costs nothing. The
second comes under the claim: in the seconds between, another driver may have run and ended, or one that seemed dead may
have continued. Only the second decision counts; `rekindle.start.resolve` has its rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rekindle.config import Config
from rekindle.errors import ControlError, RestoreError
from rekindle.graph.changes import Change, renames
from rekindle.graph.compatibility import check_drained, check_finished_state
from rekindle.graph.job_graph import JobGraph
from rekindle.graph.settling import refuse_unnamed_rename, settle, unsettled
from rekindle.ids import SubtaskId
from rekindle.progress.partitions import state_partitions
from rekindle.runtime.checkpointing import snapshots_of
from rekindle.runtime.driven import is_driven_here
from rekindle.runtime.leftovers import prepared
from rekindle.runtime.rewinding import plan_given_up, plan_rewind
from rekindle.start.changed import kinds_of, late_by, since_lineage, since_origin, with_chains_of
from rekindle.start.commits import check_commits
from rekindle.start.covered import covered_by, latest_manifest
from rekindle.start.decided import Decided
from rekindle.start.finished import finished_operators
from rekindle.start.lost import Loss, find_loss
from rekindle.start.permissions import Permissions
from rekindle.start.resolve import AlreadyEnded, Decision, Fresh, Restore, Resume, StartFacts, resolve
from rekindle.start.restore import refuse_other_lists
from rekindle.storage import layout
from rekindle.storage.checkpoint_documents import newest_checkpoint
from rekindle.storage.documents.batch import End
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.runs import Run
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.liveness import is_alive, this_process
from rekindle.storage.origin import Origin, check_is_whole, find_origin
from rekindle.storage.run_documents import last_begun
from rekindle.storage.savepoints import find_savepoint
from rekindle.storage.second_look import gives_a_sign


class Decider:
    """The decider of one start of a job.

    Args:
        restore: the number or path of a checkpoint, or the name or path of a savepoint, that the user wants to start
            from; None: the user names none.
    """

    def __init__(
        self,
        storage: JobStorage,
        graph: JobGraph,
        *,
        mode: str,
        config: Config,
        permissions: Permissions,
        restore: str | None,
    ) -> None:
        self._storage = storage
        self._graph = graph
        self._mode = mode
        self._config = config
        self._permissions = permissions
        self._restore = restore

    def decide(self, *, claimed: int | None = None, only_looks: bool = False) -> Decided:
        """Decide how to begin.

        Args:
            claimed: the run that this start has claimed, which the decision ignores; None: none yet.
            only_looks: True if nothing will be started, so that a running driver is no reason to refuse.

        Raises:
            ControlError: ``JOB_ALREADY_RUNNING``.
            RestoreError: this start is refused.
        """
        if claimed is None and not only_looks:
            self._refuse_second_driver()
        newest = self._storage.latest_run()
        facts, loss = self._facts(claimed)
        decision = resolve(
            facts,
            restore=self._absolute(self._restore),
            allow_drained=self._permissions.drained,
            rewind_sinks=self._permissions.rewind_sinks,
            claim=self._permissions.claim,
        )
        self._check_mode(decision, facts.lineage)
        # A new job begins in an empty folder, even if an old job of its name was deleted while it ran.
        number = newest.run if newest is not None else self._storage.fence.highest_number_left()
        decided = Decided(decision=decision, newest_number=number, newest_checkpoint=facts.newest)
        if isinstance(decision, AlreadyEnded):
            return decided
        if isinstance(decision, Resume):
            decided = self._resumed(decided, decision, facts)
        if isinstance(decided.decision, Restore):
            decided = self._restored(decided, decided.decision, facts)
        self._check_sinks(decided.decision, kinds_of(facts.run).sinks)
        return replace(
            decided,
            before=facts.run.description if facts.run is not None else None,
            loss=loss if loss is not None and decided.decision == loss.beginning else None,
            keeps_lists=facts.lineage is not None and not isinstance(decision, Fresh),
        )

    def _facts(self, claimed: int | None) -> tuple[StartFacts, Loss | None]:
        """Return what the storage says, and the reason, if there is one, not to resume the lineage in force."""
        storage = self._storage
        lineage = storage.lineage()
        run, result = last_begun(storage, before=claimed)
        newest = newest_checkpoint(storage)
        if lineage is not None and self._came_to_nothing(lineage, run):
            lineage = None
        loss = find_loss(storage, lineage, self._checkpoint_path, claimed) if lineage is not None else None
        then = run.newest_checkpoint if run is not None else None
        facts = StartFacts(
            run=run,
            result=result,
            lineage=lineage,
            newest=newest,
            latest_checkpoint=self._checkpoint_path(newest) if newest is not None else None,
            newest_then=self._checkpoint_path(then) if then is not None else None,
            whole=loss.beginning if loss is not None else None,
        )
        return facts, loss

    def _resumed(self, decided: Decided, decision: Resume, facts: StartFacts) -> Decided:
        """Return the decision to resume in place; where changes of the job forbid that, to restore."""
        lineage, place = with_chains_of(decision.lineage, facts.run), self._place(decision.lineage)
        ends = self._ends(lineage)
        last = self._storage.latest_manifest(lineage.lineage)
        bounded = last.bounded_sources if last else ()
        changes = since_lineage(self._graph, lineage, ends, kinds_of(facts.run), bounded)
        try:
            resumes_elsewhere = settle(changes, place, in_place=True)
        except RestoreError:
            refuse_unnamed_rename(changes, place, allowed=self._permissions.granted())
            # Finished tasks may forbid the same change for good: that error says more.
            self._check_finished(ends, lineage.chains, place)
            raise
        if resumes_elsewhere:
            return replace(decided, decision=self._from_last_checkpoint(lineage, changes))
        self._check_finished(ends, lineage.chains, place)
        self._check_state_partitions(lineage, ends)
        return replace(decided, changes=tuple(changes), chains=lineage.chains)

    def _restored(self, decided: Decided, decision: Restore, facts: StartFacts) -> Decided:
        """Return the decision to restore, with its origin and what it means for the sinks."""
        storage, permissions = self._storage, self._permissions
        origin = find_origin(decision.path)
        check_is_whole(origin)
        origin = origin.with_renamed(renames(self._graph, origin.manifest.graph))
        changes = since_origin(self._graph, origin, kinds_of(facts.run), undo_drain=decision.undo_drain)
        self._check_origin(origin, decision, changes)
        check_commits(storage, origin, decision, permissions)
        if facts.lineage is not None:  # else the lists are of starts that failed, and are made again
            refuse_other_lists(storage, origin, decision.path, self._graph)
        leave, rewind = decision.repeated or permissions.sink_ahead, None
        if decision.rewind_sinks:
            rewind = plan_rewind(storage, origin.manifest, decision.path, self._graph, leave_others=leave)
        elif leave:
            rewind = plan_given_up(storage, origin.manifest)
        return replace(decided, origin=origin, changes=tuple(changes), rewind=rewind)

    def _refuse_second_driver(self) -> None:
        storage = self._storage
        driver = storage.driver()
        if driver is None or storage.result(driver.run) is not None:
            return
        ours = (driver.host, driver.pid, driver.process_started) == this_process()
        alive = is_driven_here(storage, driver.run) if ours else is_alive(driver)
        if gives_a_sign(storage, driver) if alive is None else alive:
            raise ControlError("JOB_ALREADY_RUNNING", job=storage.job, run=driver.run, pid=driver.pid, host=driver.host)

    def _check_mode(self, decision: Decision, lineage: Lineage | None) -> None:
        """Refuse another mode than the job has had: a job keeps its mode."""
        if isinstance(decision, Restore):
            if self._mode == "batch":
                raise RestoreError("BATCH_FROM_CHECKPOINT", path=decision.path)
            return
        if lineage is not None and lineage.mode != self._mode:
            place = f"The job {self._graph.name!r} in {self._storage.store.location}"
            raise RestoreError("MODE_FIXED", path=place, found=lineage.mode, mode=self._mode)

    def _from_last_checkpoint(self, lineage: Lineage, changes: Sequence[Change]) -> Restore:
        """Return the restore from the lineage's last checkpoint, in a new lineage.

        In place, the channels of a task that is added again would lack the rows written in its absence.
        """
        newest = self._storage.latest_manifest(lineage.lineage) if self._mode == "streaming" else None
        if newest is None:
            difference = "; ".join(f"{change.uid} {change.what}" for change in changes)
            raise RestoreError("TASKS_CHANGED", path=self._place(lineage), difference=difference)
        return Restore(self._checkpoint_path(newest.checkpoint))

    def _place(self, lineage: Lineage) -> str:
        return f"lineage {lineage.lineage} in {self._storage.store.location}"

    def _came_to_nothing(self, lineage: Lineage, run: Run | None) -> bool:
        """Return whether every start in the lineage has failed before it had a query, or, in batch mode, a record.

        Then the user may change anything. A driver without a result may only be paused, so the lineage is kept for it.
        """
        storage = self._storage
        folders = (layout.subtask(storage.job, *subtask, lineage.lineage) for subtask in lineage.subtasks())
        return (
            run is not None
            and lineage.restored_from is None
            and not any(
                storage.store.names(layout.spark_progress_dir(folder)) or storage.records(folder) for folder in folders
            )
            # Last: a lineage may have had thousands of runs.
            and all(storage.result(number) is not None for number in range(lineage.run, run.run + 1))
        )

    def _absolute(self, restore: str | None) -> str | None:
        """Return the absolute path of the checkpoint (path or number) or savepoint (path or name) to start from."""
        if restore is None:
            return None
        if restore.isdigit():
            return self._checkpoint_path(int(restore))
        return find_savepoint(restore, self._storage.store.location)

    def _checkpoint_path(self, number: int) -> str:
        return f"{self._storage.store.location.rstrip('/')}/{layout.checkpoint(self._storage.job, number)}"

    def _check_origin(self, origin: Origin, decision: Restore, changes: Sequence[Change]) -> None:
        manifest = origin.manifest
        if decision.claim and not manifest.savepoint:
            raise RestoreError("CLAIM_OF_CHECKPOINT", path=decision.path)
        permissions = replace(self._permissions, other_name=decision.repeated or self._permissions.other_name)
        if manifest.mode != self._mode:
            raise RestoreError("MODE_FIXED", path=decision.path, found=manifest.mode, mode=self._mode)
        refuse_unnamed_rename(changes, decision.path, allowed=permissions.granted())
        ends = {task: snapshot.end for task, snapshot in snapshots_of(manifest).items()}
        self._check_finished(ends, manifest.chains, decision.path, undo_drain=decision.undo_drain)
        settle(
            [*late_by(origin, self._graph, changes), *changes],
            decision.path,
            in_place=False,
            allowed=permissions.granted(),
        )
        if not decision.repeated:
            check_drained(manifest.drained, decision.path, allow_drained=self._permissions.drained)

    def _check_finished(
        self,
        ends: Mapping[SubtaskId, End | None],
        chains: Mapping[str, Sequence[str]],
        place: str,
        *,
        undo_drain: bool = False,
    ) -> None:
        """Refuse a graph in which a running subtask feeds one that has finished (FLIP-147)."""
        topology = self._graph.topology
        check_finished_state(topology, finished_operators(ends, chains, topology, undo_drain=undo_drain), place)

    def _ends(self, lineage: Lineage) -> dict[SubtaskId, End | None]:
        """Return subtask of a lineage → its end; None: it has not ended."""
        folders = {
            subtask: layout.subtask(self._storage.job, *subtask, lineage.lineage) for subtask in lineage.subtasks()
        }
        return {subtask: self._storage.end(folder) for subtask, folder in folders.items()}

    def _check_sinks(self, decision: Decision, kinds: Mapping[str, str]) -> None:
        """Refuse to drop or replace a sink with prepared rows: they could never be committed.

        Args:
            kinds: sink → its kind in the last run, as far as it is known.
        """
        storage = self._storage
        # A new lineage has prepared nothing; any rows left are of a checkpoint that was not yet committed.
        lineage = decision.lineage.lineage if isinstance(decision, Resume) else 0
        manifest = latest_manifest(storage, decision, lineage)
        left = prepared(storage, self._graph.subtasks(), lineage, covered_by(manifest))
        found = unsettled(self._graph, kinds, [uid for uid, rows in left.items() if rows])
        settle(found, storage.store.location, in_place=not isinstance(decision, Restore))

    def _check_state_partitions(self, lineage: Lineage, ends: Mapping[SubtaskId, End | None]) -> None:
        """Refuse another number of state partitions: Spark would silently continue with the old one."""
        wanted = self._config.state_partitions
        for task, end in ends.items():
            folder = layout.subtask(self._storage.job, task.task, task.subtask, lineage.lineage)
            found = state_partitions(self._storage.store, layout.spark_progress_dir(folder))
            if wanted and end is None and found not in (None, wanted):
                raise RestoreError("STATE_PARTITIONS_FIXED", task=task.task, found=found, wanted=wanted)
