"""The answers that a monitor has read of the jobs of one storage, and the time for which they are good."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, TypeVar

from rekindle.errors import ControlError, RekindleError
from rekindle.ids import check_uid
from rekindle.monitoring.facts import JobFacts, Now, ReadAgain
from rekindle.storage.checkpoint_documents import CheckpointDocuments
from rekindle.storage.documents.status import Status
from rekindle.storage.port import Store

Answer = TypeVar("Answer")

_FRESH_MS = 1_000
"""The time for which an answer is good on a store of pace 1: a driver beats once a second."""

_TIMES = 10
"""An answer is good for this many times the time that it took to read, if that is longer: thousands of jobs, or a slow
storage, are read for a tenth of the time, however often they are looked at."""

_LONGEST_MS = 30_000
"""But no longer than this, or than twice that time."""

_MOST = 100_000
"""Answers that are remembered at most."""


class Watch:
    """A reader of the documents of jobs, each no more often than they change. Threads may use it at the same time."""

    def __init__(self, store: Store, now_ms: Callable[[], int], elapsed_ms: Callable[[], int]) -> None:
        self.store = store
        self._now_ms = now_ms
        self._elapsed_ms = elapsed_ms
        self._facts: dict[str, JobFacts] = {}
        #: of each, until when it is good
        self._answers: dict[tuple[Any, ...], tuple[int, Any]] = {}
        self._being_read: set[tuple[Any, ...]] = set()
        self._lock = threading.Lock()

    def known(self, name: str) -> JobFacts:
        """Return what is known of a job; ``JOB_UNKNOWN`` where there is none."""
        storage = self._documents(name)
        identity = storage.identity()
        if identity is None:
            self._forget({name} & self._facts.keys())
            raise ControlError("JOB_UNKNOWN", job=name, storage=self.store.location)
        facts = self._facts[name] = self._of(storage, identity.id)
        return facts

    def _documents(self, name: str) -> CheckpointDocuments:
        """Return the documents of a job; ``JOB_UNKNOWN`` where no job can have this name."""
        facts = self._facts.get(name)
        try:
            return facts.storage if facts is not None else ReadAgain(self.store, check_uid(name))
        except RekindleError:
            raise ControlError("JOB_UNKNOWN", job=name, storage=self.store.location) from None

    def _of(self, storage: CheckpointDocuments, identity: str) -> JobFacts:
        facts = self._facts.get(storage.job)
        if facts is None or facts.identity != identity:
            facts = JobFacts(storage, identity, self._now_ms, self._elapsed_ms)
        return facts

    def now(self, name: str) -> tuple[JobFacts, Now]:
        """Return the same, and the documents that tell where the job stands."""
        facts = self.known(name)
        return facts, self.fresh(("now", name, facts.identity), facts.now)

    def at_a_glance(self, name: str) -> tuple[JobFacts, Now]:
        """Return the same for a list of many jobs: where the heartbeat tells all, little else is read."""
        storage = self._documents(name)
        status = storage.status()
        if status is not None and (well := self._by_its_heartbeat(storage, status)) is not None:
            return well, Now(state=status.state, status=status)
        facts = self.known(name)
        now = self.fresh(("glance", name, facts.identity), partial(facts.at_a_glance, status))
        if now.run is not None:  # all was read: the page of the job need not read it again
            now = self.fresh(("now", name, facts.identity), lambda: now)
        return facts, now

    def _by_its_heartbeat(self, storage: CheckpointDocuments, status: Status) -> JobFacts | None:
        """Return what is known of a job that a young heartbeat shows at work; None: its identity has to be read.

        A heartbeat that was written just after its job was deleted is soon an old one.
        """
        if self.store.pace == 1 or not status.identity:
            return None
        facts = self._of(storage, status.identity)
        if not facts.is_well(status):
            return None
        self._facts[storage.job] = facts
        return facts

    def fresh(self, key: tuple[Any, ...], read: Callable[[], Answer]) -> Answer:
        """Return the answer of a moment ago, or read it; meanwhile others are given the last one for a while."""
        now_ms = self._elapsed_ms()
        with self._lock:
            found = self._answers.get(key)
            if found is not None and now_ms < found[0] + (_LONGEST_MS if key in self._being_read else 0):
                answer: Answer = found[1]
                return answer
            self._being_read.add(key)
        try:
            answer = read()
        finally:
            self._being_read.discard(key)
        took_ms = self._elapsed_ms() - now_ms
        good_ms = max(_FRESH_MS * self.store.pace, min(_TIMES * took_ms, max(_LONGEST_MS, 2 * took_ms)))
        self._answers[key] = (now_ms + good_ms, answer)
        if len(self._answers) > _MOST:
            self._answers.clear()
        return answer

    def identity_of(self, name: str) -> str:
        """Return the id of a job that was read before; empty where it was not."""
        facts = self._facts.get(name)
        return facts.identity if facts is not None else ""

    def forget_all_but(self, names: Collection[str]) -> None:
        """Forget all jobs except these: the others are gone."""
        self._forget(self._facts.keys() - set(names))

    def _forget(self, gone: Collection[str]) -> None:
        """Forget jobs, and the answers about them."""
        for name in gone:
            self._facts.pop(name, None)
        for key in list(self._answers) if gone else ():
            if key[1:] and key[1] in gone:
                self._answers.pop(key, None)

    def second_look_ms(self) -> int:
        """Return how long to wait before `look_again_where_in_doubt`: 0 unless a heartbeat that was read looks old.

        For those that look once; a server looks again and again.
        """
        return max((facts.doubtful_ms for facts in self._facts.values()), default=0)

    def look_again_where_in_doubt(self) -> None:
        """Forget the answers about jobs whose heartbeat looks old, and those about all jobs; the others stay good."""
        doubtful = {name for name, facts in self._facts.items() if facts.doubtful_ms}
        until_ms = self._elapsed_ms() + _FRESH_MS * self.store.pace
        self._answers = {
            key: (max(good_ms, until_ms), answer)
            for key, (good_ms, answer) in self._answers.items()
            if key[1:] and key[1] not in doubtful
        }

    def look_again(self) -> None:
        """Forget the answers of a moment ago, so that all is read again."""
        self._answers.clear()
