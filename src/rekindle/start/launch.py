"""The launch of a run: from a definition and the state of the storage to a driver that is ready to loop.

Checks come in the order of their cost: the definition (before Spark), the storage (before Spark), the session, the
sources and the plan. The run is claimed after the first three, because the claim fences other drivers; a later failure
is recorded as the run's result. The start is decided again under the claim (`rekindle.start.decide`).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from rekindle.config import Config
from rekindle.errors import StorageError
from rekindle.graph.settling import with_other_inputs
from rekindle.progress.renumbering import Numbers
from rekindle.protocol.job import JobMachine
from rekindle.runtime.checkpointing import Checkpointing
from rekindle.runtime.definition import Definition, RunContext
from rekindle.runtime.driven import drive_no_more
from rekindle.runtime.driver import Driver
from rekindle.runtime.elapsed import Clock, Elapsed, system_clock
from rekindle.runtime.leftovers import prepared
from rekindle.runtime.mailbox import Mailbox
from rekindle.runtime.orphans import Orphans
from rekindle.runtime.pauses import USUAL, Pauses
from rekindle.runtime.ports import Engine
from rekindle.runtime.rewinding import carry_out
from rekindle.runtime.steps import SteppedStore, Steps, no_steps
from rekindle.start.abandoned import forget_abandoned
from rekindle.start.claiming import Claiming, failed
from rekindle.start.covered import covered_by, finished_in, latest_manifest
from rekindle.start.decide import Decider
from rekindle.start.description import describe
from rekindle.start.examined_sinks import SinkExamination
from rekindle.start.foreseen import IN_PYTHON, foreseen, in_log
from rekindle.start.identity import identify, refuse_unfinished_copy
from rekindle.start.new_lineage import new_lineage
from rekindle.start.opened_sinks import claim_targets, open_sinks
from rekindle.start.permissions import Permissions
from rekindle.start.places import refuse_patterns
from rekindle.start.preview import preview
from rekindle.start.previews import StartPreview
from rekindle.start.resolve import AlreadyEnded, Resume
from rekindle.start.restore import open_lineage
from rekindle.start.saved import examination
from rekindle.start.started import job_started
from rekindle.storage import layout
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.runs import Result, Run
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.origin import Origin
from rekindle.storage.port import Store
from rekindle.storage.reserve import keep_reserve
from rekindle.storage.run_ends import RunEnds


class Launch:
    """One start of a job, step by step; `prepare` uses no Spark and writes nothing durable.

    Args:
        available_now: see `JobStarted`.
        since: first run of this process, if this one continues it; None: this is the first.
        engine_failures: see `JobStarted`.
        elapsed: the time that the run measures intervals by; None: its working time.
        pauses: pauses of its driver.
    """

    def __init__(
        self,
        definition: Definition,
        store: Store,
        config: Config,
        permissions: Permissions,
        *,
        steps: Steps = no_steps,
        clock: Clock = system_clock,
        mode: str = "streaming",
        available_now: bool = False,
        since: int | None = None,
        engine_failures: int = 0,
        elapsed: Elapsed | None = None,
        pauses: Pauses = USUAL,
    ) -> None:
        self._since, self._engine_failures = since, engine_failures
        self._available_now = available_now
        self._definition = definition
        self._mode = mode
        self._graph = definition.graph if mode == "streaming" else definition.graph.with_single_subtasks()
        self._config = config
        self._permissions = permissions
        self._steps = steps
        self._clock = clock
        self._elapsed = elapsed
        self._pauses = pauses
        self.claimed: Run | None = None
        self._store = SteppedStore(store, steps)
        self.storage = JobStorage(self._store, definition.graph.name)
        #: storage for the log: all runs of this process write it, so it does not check the fence of this run
        self.storage_of_log = JobStorage(SteppedStore(store, steps), definition.graph.name)

    # -- before Spark -------------------------------------------------------------------------------------------------

    def prepare(self, restore: str | None) -> Result | None:
        """Decide how to begin; return the result of a job that has ended already, else None.

        Raises:
            ControlError: ``JOB_ALREADY_RUNNING``, ``COPY_UNFINISHED``.
            RestoreError: this start is refused.
            StorageError: ``STORAGE_PATH_UNSUPPORTED``; the storage cannot be read.
            JobError: ``START_FAILED``: no one has foreseen it.
        """
        with foreseen(None, self.storage.job, IN_PYTHON):
            self._decider = self._make_decider(restore)
            refuse_unfinished_copy(self.storage, self.storage.identity())
            self._decided = self._decider.decide()
            if isinstance(self._decided.decision, AlreadyEnded):
                return self._decided.decision.result
            self.storage.store.check()
            return None

    def preview(self, restore: str | None, engine: Engine | None = None) -> StartPreview:
        """Return what this start would do, and start nothing.

        Args:
            engine: the engine that examines the queries; None: they are not examined.

        Raises:
            RestoreError: this start is refused.
            StorageError: ``STORAGE_PATH_UNSUPPORTED``; the storage cannot be read.
        """
        targets = SinkExamination(self._definition.sinks, self.storage, self._permissions, self._clock())
        decider = self._make_decider(restore)
        return preview(self._definition, self._graph, self.storage, decider, self._config, targets, engine)

    def _make_decider(self, restore: str | None) -> Decider:
        refuse_patterns(self.storage.store.location)
        return Decider(
            self.storage,
            self._graph,
            mode=self._mode,
            config=self._config,
            permissions=self._permissions,
            restore=restore,
        )

    # -- with an engine -----------------------------------------------------------------------------------------------

    def begin(self, engine: Engine) -> Driver | Result:
        """Claim the run, open its lineage and sinks, build the plan; return the driver. Record a failure.

        Returns the result instead if the job has ended since `prepare`.
        """
        storage = self.storage
        engine.check_reaches((self._store.location, *self._reached()))
        identity = identify(storage, self._clock())
        with suppress(StorageError):
            keep_reserve(storage.store, storage.job)
        engine.check_sees(self._store.location, self._store.spark_path(layout.identity(storage.job)))
        named = partial(foreseen, engine, storage.job, in_log(storage.job))
        claiming = Claiming(
            storage,
            self._store,
            self._decider,
            clock=self._clock,
            mode=self._mode,
            available_now=self._available_now,
            since=self._since,
            description=describe(self._graph, self._definition, self._config, engine.value_settings),
            noted=partial(setattr, self, "claimed"),
            named=named,
        )
        claimed = claiming.claim(self._decided)
        if isinstance(claimed, Result):
            return claimed
        run, self._decided = claimed
        try:
            with named():
                return self._open(engine, run, identity.owner)
        except BaseException as error:
            if claiming.is_tried_again(error) or (self._since is not None and engine.lifeline.is_gone()):
                drive_no_more(self.storage, run.run)
            else:
                claiming.give_up(run, failed(error), began=True)
            raise

    def _reached(self) -> Iterator[str]:
        """Yield the addresses that Spark reads or writes beside the storage."""
        for source in self._definition.sources.values():
            yield from getattr(source.spec, "paths", ())
        for sink in self._definition.sinks.values():
            yield from sink.addresses

    def _open(self, engine: Engine, run: Run, owner: str) -> Driver:
        storage, graph, sinks = self.storage, self._graph, self._definition.sinks
        open_sinks(sinks, storage, owner, run.run, sink_ahead=self._permissions.sink_ahead)
        if not self._decided.keeps_lists:
            self._forget_lists(run)
        lineage = self._lineage(engine, run)
        job = JobMachine(graph, self._config, batch=self._mode == "batch")
        events = Mailbox(engine.lifeline)
        context = self._context(engine, run, owner, events)
        assembly = engine.assemble(context, lineage)
        runners = assembly.runners()
        # By a job whose plan is not refused.
        claim_targets(sinks, storage, owner, self._clock(), shared=self._permissions.shared_target)
        latest = latest_manifest(storage, self._decided.decision, run.lineage)
        covered, finished = covered_by(latest), finished_in(latest)
        orphans = Orphans(storage, run, sinks, self._steps)
        checkpointing = Checkpointing(
            context, runners, splits=assembly.splits, custom=assembly.custom, finished=finished, orphans=orphans
        )
        started = job_started(context, finished, covered, assembly, self._engine_failures)
        if started.draining:
            context.ends.take_over_drains(self._clock())
        orphans.clean(graph.subtasks(), partial(prepared, storage, graph.subtasks(), run.lineage, covered))
        return Driver(context, job, runners, checkpointing, started=started, events=events, engine=engine.lifeline)

    def _lineage(self, engine: Engine, run: Run) -> Lineage:
        """Return the lineage that the run continues, or one that it has opened."""
        storage, decided = self.storage, self._decided
        if decided.origin is not None:
            self._restore(engine, run, decided.origin)
        if isinstance(decided.decision, Resume):
            lineage = decided.decision.lineage
        else:
            newest = max(storage.numbers_used(), default=None) if decided.goes_back else None
            lineage = new_lineage(run, self._graph, decided.origin, rewound_from=newest, now_ms=self._clock())
        if run.lineage == run.run:
            # Before the lineage is in force: if a start is killed in between, the next begins from the same checkpoint.
            if decided.rewind is not None:
                carry_out(decided.rewind, storage, self._definition.sinks, run.run, self._clock(), self._steps)
            storage.create(layout.lineage(storage.job, run.lineage), lineage)
        return lineage

    def _restore(self, engine: Engine, run: Run, origin: Origin) -> None:
        """Write what the new lineage takes over from its origin; it is not in force yet."""
        storage = self.storage
        forget_abandoned(storage, run)
        numbers = self._numbers(engine)
        repartitioned = partial(engine.repartition, storage, count=self._config.state_partitions)
        with origin.read_whole():
            open_lineage(
                storage,
                origin,
                self._graph,
                lineage=run.lineage,
                run=run.run,
                undo_drain=run.undo_drain,
                opened=repartitioned,
                numbers=numbers,
            )

    def _context(self, engine: Engine, run: Run, owner: str, events: Mailbox) -> RunContext:
        return RunContext(
            storage=self.storage,
            run=run,
            owner=owner,
            graph=self._graph,
            definition=self._definition,
            frozen={
                uid: engine.freeze(self.storage, spec, f"{run.run:06d}-{secrets.token_hex(4)}", self._steps)
                for uid, spec in self._definition.sources.items()
            },
            config=self._config,
            steps=self._steps,
            ends=RunEnds(self.storage, run, self._graph.subtasks()),
            changed_files=self._permissions.changed_files,
            post=events.post,
            clock=self._clock,
            elapsed=self._elapsed or Elapsed(),
            pauses=self._pauses,
        )

    def _numbers(self, engine: Engine) -> dict[str, Numbers]:
        """Return task → numbers of the sources in its plan, for tasks whose inputs, or their order, have changed.

        Raises:
            RekindleError: Spark refuses a plan with changed inputs.
        """
        others = with_other_inputs(self._decided.changes)
        asked = examination(self._definition, self._graph, self.storage, self._decided, numbers_only=True)
        found = engine.examine(asked)
        for uid in others & found.keys():
            error = found[uid].error
            if error is not None:
                raise error
        return {
            uid: one.numbers for uid, one in found.items() if one.numbers is not None and (uid in others or one.moved)
        }

    def _forget_lists(self, run: Run) -> None:
        """Delete the frozen lists of an earlier start that failed: they may be the cause of its failure."""
        for uid in self._definition.sources:
            folder = layout.source(self.storage.job, uid)
            if self.storage.store.exists(folder) and self.storage.fence.newer_than(run.run) is None:
                self.storage.store.delete_tree(folder)
