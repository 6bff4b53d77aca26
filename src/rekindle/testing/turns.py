"""Threads that take turns: one runs at a time, from one of its *moments* to the next, and a seed says which.

A thread that is not chosen is a process that is paused, for as long as that lasts; one may also die at a moment. The
choice follows priorities that change now and then, so that one thread is often paused for long while another does much.

A thread that waits for a lock which a paused one holds reaches no moment. After a while it is left alone, and another
one is chosen.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from weakref import WeakKeyDictionary

from rekindle.testing.effects import ProcessDiedError

CHANGES = (0.01, 0.03, 0.1)
"""The chances that another actor is chosen at a moment: a run has one of them."""

HANGS_AFTER_S = 180.0


class Turns:
    """The turns of some actors.

    Args:
        deaths: how likely an actor dies at one of its moments.
        patience_s: for how long an actor may reach no moment before another one is chosen.
        between: called between two turns, when all are paused.
    """

    def __init__(self, chance: random.Random, *, deaths: float, patience_s: float, between: Callable[[], None]) -> None:
        self._chance, self._deaths, self._patience_s = chance, deaths, patience_s
        self._changes = chance.choice(CHANGES)
        self._between = between
        self._changed = threading.Condition()
        #: actor → its threads that wait for its turn
        self._waiting: dict[str, list[threading.Event]] = {}
        self._actors: WeakKeyDictionary[threading.Thread, str] = WeakKeyDictionary()
        self._dead: set[str] = set()
        self._ended: set[str] = set()
        #: the actor whose turn it is
        self._current = ""
        #: turns and moments in their order, to find out what happened
        self.story: list[str] = []

    def hear(self, moment: str) -> None:
        """Wait at a moment for the next turn; do nothing before the run, and in the main thread.

        Raises:
            ProcessDiedError: the actor has died.
        """
        thread = threading.current_thread()
        with self._changed:
            if not self._current or thread is threading.main_thread():
                return
            # The threads of a pool belong to the actor whose turn it is when they are first heard of.
            actor, turn = self._actors.setdefault(thread, self._current), threading.Event()
            if actor not in self._dead:
                self._waiting.setdefault(actor, []).append(turn)
                self.story.append(f"{actor}: {moment}")
                self._changed.notify_all()
            else:
                turn.set()
        turn.wait()
        if actor in self._dead:
            raise ProcessDiedError(moment)

    def run(self, actors: Mapping[str, Callable[[], None]]) -> None:
        """Let all actors run to their end."""
        threads = [threading.Thread(target=self._play, args=one, name=one[0], daemon=True) for one in actors.items()]
        order = self._chance.sample(list(actors), len(actors))
        self._current = order[0]
        for thread in threads:
            thread.start()
        try:
            with self._changed:
                assert self._changed.wait_for(lambda: len(self._waiting) == len(actors), HANGS_AFTER_S)
            while len(self._ended) < len(actors):
                self._take_turn(order)
        finally:
            self._end()
            for thread in threads:
                thread.join(HANGS_AFTER_S)

    def _end(self) -> None:
        """Let the actors die that still wait."""
        with self._changed:
            self._dead.update(self._actors.values())
            for turn in (turn for turns in self._waiting.values() for turn in turns):
                turn.set()

    def _play(self, actor: str, act: Callable[[], None]) -> None:
        self._actors[threading.current_thread()] = actor
        try:
            self.hear("begins")
            act()
        except ProcessDiedError:
            self.story.append(f"{actor}: dies")
        finally:
            with self._changed:
                self._ended.add(actor)
                self._changed.notify_all()

    def _take_turn(self, order: list[str]) -> None:
        deadline = time.monotonic() + HANGS_AFTER_S
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or len(self._ended) == len(order), HANGS_AFTER_S)
            ready = [actor for actor in order if actor in self._waiting]
        if not ready:
            assert time.monotonic() < deadline, f"all hang: {self.story[-20:]}"
            return
        if self._chance.random() < self._changes:
            order.append(order.pop(order.index(ready[0])))
            ready.append(ready.pop(0))
        self._between()
        actor = self._current = ready[0]
        if self._chance.random() < self._deaths:
            self._dead.add(actor)
        with self._changed:
            for turn in self._waiting.pop(actor):
                turn.set()
            self._changed.wait_for(lambda: actor in self._waiting or actor in self._ended, self._patience_s)
