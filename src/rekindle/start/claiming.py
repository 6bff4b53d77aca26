"""The claim of a run: its number fences every other driver, and the start is decided again under the claim.

If the second decision is another one, the start gives the claimed run up, which did nothing, and claims the next.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial

from rekindle.errors import ControlError, RekindleError, StorageError
from rekindle.runtime.driven import drive_here, drive_no_more
from rekindle.runtime.elapsed import Clock
from rekindle.runtime.steps import SteppedStore
from rekindle.start.decide import Decider
from rekindle.start.decided import Decided
from rekindle.start.description import other_addresses, other_value_settings
from rekindle.start.resolve import AlreadyEnded, Decision, Restore, Resume
from rekindle.storage.checkpoint_documents import CheckpointDocuments
from rekindle.storage.documents.runs import JobDescription, Result, Run
from rekindle.storage.liveness import this_process

_LOG = logging.getLogger(__name__)


class Claiming:
    """The claims of one start.

    Args:
        store: the store of `storage`; it checks the fence of the claimed run from then on.
        since: first run of this process, if this one continues it; None: this is the first.
        noted: called with each run, as soon as it is claimed.
        named: names the errors that are raised inside.
    """

    def __init__(
        self,
        storage: CheckpointDocuments,
        store: SteppedStore,
        decider: Decider,
        *,
        clock: Clock,
        mode: str,
        available_now: bool,
        since: int | None,
        description: JobDescription,
        noted: Callable[[Run], None],
        named: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._storage = storage
        self._store = store
        self._decider = decider
        self._clock = clock
        self._mode = mode
        self._available_now = available_now
        self._since = since
        self._description = description
        self._noted = noted
        self._named = named

    def claim(self, decided: Decided) -> tuple[Run, Decided] | Result:
        """Claim a run, and decide again under the claim.

        Returns the run and the decision; or the result of a job that has ended meanwhile.
        """
        while not isinstance(decided.decision, AlreadyEnded):
            run = self._new_run(decided)
            if not self._claimed(run):
                decided = self._decider.decide()
                continue
            self._noted(run)
            self._store.look = partial(self._storage.fence.check, run.run)
            try:
                with self._named():
                    self._storage.fence_checkpoints(run.run)
                    again = self._decider.decide(claimed=run.run)
            except BaseException as error:
                if self.is_tried_again(error):
                    drive_no_more(self._storage, run.run)
                else:
                    self.give_up(run, failed(error), began=False)
                raise
            as_before = again.decision == decided.decision
            decided = again
            if as_before:
                self._tell(decided)
                return run, decided
            self.give_up(run, _overtaken(again.decision), began=False)
        return decided.decision.result

    def _tell(self, decided: Decided) -> None:
        if decided.loss is not None:
            _LOG.warning("%s", decided.loss)
        if decided.before is None or not decided.keeps_lists:
            return
        for changed in other_value_settings(decided.before, self._description):
            _LOG.warning(_OTHER_VALUES, *changed)
        for name in other_addresses(decided.before, self._description):
            stays = _STAYS[name.partition(" ")[0]]
            _LOG.warning("The address of %s is another than in the last run. %s", name, stays)

    def _claimed(self, run: Run) -> bool:
        """Claim a run. Other starts in this process see that it has a driver as soon as it exists."""
        claimed = False
        drive_here(self._storage, run.run)
        try:
            claimed = self._storage.fence.claim(run)
        finally:
            if not claimed:
                drive_no_more(self._storage, run.run)
        return claimed

    def _new_run(self, decided: Decided) -> Run:
        number, decision = decided.newest_number + 1, decided.decision
        return Run(
            run=number,
            started_ms=self._clock(),
            lineage=decision.lineage.lineage if isinstance(decision, Resume) else number,
            restore_from=decision.path if isinstance(decision, Restore) else None,
            asked=isinstance(decision, Restore) and decision.asked,
            newest_checkpoint=decided.newest_checkpoint,
            undo_drain=isinstance(decision, Restore) and decision.undo_drain,
            rewind_sinks=isinstance(decision, Restore) and decision.rewind_sinks,
            claim=isinstance(decision, Restore) and decision.claim,
            token=secrets.token_hex(8),
            boot_id=self._storage.store.boot_id,
            mode=self._mode,
            available_now=self._available_now,
            since=self._since,
            description=self._description,
            **this_process()._asdict(),
        )

    def is_tried_again(self, error: BaseException) -> bool:
        """Return True if another run of this process follows this one, which then ends without a result."""
        return self._since is not None and may_go_well(error)

    def give_up(self, run: Run, result: Result, *, began: bool) -> None:
        """Record the result of a run that gets no driver."""
        ended = replace(result, run=run.run, ended_ms=self._clock(), began=began)
        try:
            with suppress(StorageError):  # the storage may be the cause of the failure
                self._storage.record_result(ended)
                # Once more: an earlier driver of this process may have beaten just before the claim.
                self._storage.fence.take_back(run.run)
        finally:
            drive_no_more(self._storage, run.run)


_OTHER_VALUES = (
    "%s was %s in the last run, and is %s now. The query computes other values from here on; state and sinks keep the"
    " old ones."
)

_STAYS = {
    "source": "Its list of files is kept: what is at the new address is not read.",
    "sink": "What was committed stays at the old one.",
}
"""Kind → the things that a new address leaves as they are."""


def may_go_well(error: BaseException) -> bool:
    """Return True if another try may succeed: not after a user's mistake, or if another driver runs the job."""
    if not isinstance(error, RekindleError):
        return isinstance(error, Exception)
    return error.code == "SPARK_NOT_STARTED" or not (error.permanent or isinstance(error, ControlError))


def failed(error: BaseException) -> Result:
    """Return the result to record for a run whose start has failed, or was interrupted."""
    if not isinstance(error, Exception):
        return Result(run=0, state="CANCELED", ended_ms=0, notes=("It was interrupted while it was starting.",))
    document = error.to_json() if isinstance(error, RekindleError) else None
    return Result(run=0, state="FAILED", ended_ms=0, error=document)


def _overtaken(decision: Decision) -> Result:
    """Return the result to record for a run that found another decision under its claim."""
    if isinstance(decision, AlreadyEnded):
        return decision.result
    note = "It did nothing: an earlier run had continued while it started. The next run begins where that one stopped."
    return Result(run=0, state="CANCELED", ended_ms=0, notes=(note,))
