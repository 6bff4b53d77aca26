"""Threads that take turns: one runs at a time, and a seed decides which is next, so that each run can be repeated.

The driver, its workers, its queries and whoever asks it things are threads, as in life. Here each is a *strand*, a
greenlet, that gives way only where it would sleep, wait or write; time is simulated, and passes only while no one has
anything to do.
A kill ends all strands of a process where they stand: whatever they try to do next raises `Killed`. A process that is
frozen, as one on a machine that is suspended, gets no turn until it is thawed, and knows nothing of the time between.

`Threading` and `Queues` stand in for the standard library's modules in the modules under test.
"""

from __future__ import annotations

import contextlib
import math
import queue
import random
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType, TracebackType
from typing import Any

import greenlet

from rekindle.testing.crash import fail

_YIELDS_AT_A_WRITE = 0.3
_LONGEST_S = 60_000
"""How long, in simulated time, anything may take."""


class Killed(BaseException):
    """The process is dead."""


class Process:
    """Strands that are killed, or frozen, together."""

    def __init__(self) -> None:
        self.dead = False
        self.frozen = False
        #: it was frozen once: others have taken it for dead
        self.was_frozen = False
        #: of the machine that it is on
        self.boot_id = ""


class Strand:
    """One of the threads."""

    def __init__(self, name: str, process: Process) -> None:
        self.name = name
        self.process = process
        #: it alone is to end
        self.dropped = False
        self.begun = False
        self.over = False
        self.wakes_s = 0.0
        self.until: Callable[[], bool] | None = None
        #: what runs it; switched to when it has its turn
        self.stack = greenlet.getcurrent()

    @property
    def dead(self) -> bool:
        """Whether it must not do anything any more."""
        return self.dropped or self.process.dead


class Scheduler:
    """Whose turn it is; made by the thread that becomes the first strand.

    Args:
        calm: nobody is killed, and no one gives way at a write.
    """

    def __init__(self, seed: int, *, calm: bool = False) -> None:
        self.chance = random.Random(seed)
        self.calm = calm
        self.now_s = 1_000.0
        #: how likely it is that a process dies at a write
        self.kill_at_a_write = 0.0
        #: how likely it is that a process is frozen at a write, or between its last look at the fence and the write
        self.freeze_at_a_write = 0.0
        #: the kind of files at whose writes alone it is; empty: at all
        self.freeze_at = ""
        #: how likely it is that a step fails, as long as faults are left
        self.fail_at_a_write = 0.0
        self.faults_left = 0
        #: a new thread runs before the one that starts it goes on, as those of Python mostly do
        self.starts_at_once = False
        #: steps that have failed
        self.failed: list[str] = []
        #: processes that are frozen, and were taken for dead
        self.sleepers: list[Process] = []
        #: what one of the strands has raised: a bug, in the product or in what stands in
        self.failure: BaseException | None = None
        self._current = self._first = Strand("main", Process())
        self._strands = [self._current]

    @property
    def dead(self) -> bool:
        """Whether the strand whose turn it is, or its process, is dead."""
        return self._current.dead

    @property
    def process(self) -> Process:
        """The process whose turn it is."""
        return self._current.process

    @property
    def is_alone(self) -> bool:
        """Whether no process but that whose turn it is lives, frozen or not, beside the first strand's."""
        alive = {one.process for one in self._strands if not one.dead}
        return alive <= {self._first.process, self.process}

    def spawn(self, act: Callable[[], None], name: str, process: Process | None = None) -> Strand:
        """Let `act` be done beside the others; in the process whose turn it is unless another is named."""
        strand = Strand(name, process or self.process)
        if strand.dead:
            strand.over = True
            return strand

        def run(*_: object) -> None:
            strand.begun = True
            try:
                if not strand.dead:
                    act()
            except Killed:
                pass
            except BaseException as error:
                self.failure = self.failure or error
                self.kill()
            finally:
                strand.over = True
                self._strands.remove(strand)
                self._current = self._next()
                strand.stack.parent = self._current.stack  # which is switched to at its end

        self._strands.append(strand)
        strand.stack = greenlet.greenlet(run, self._first.stack)
        return strand

    def pause(self, for_s: float = 0.0, until: Callable[[], bool] | None = None) -> None:
        """Give way for so long, or until something holds."""
        if self.dead:
            raise Killed
        me = self._current
        me.wakes_s, me.until = self.now_s + for_s, until
        self._give_way(me)
        if me.dead:
            raise Killed

    def step(self, name: str) -> None:
        """A write is about to be done, or was: the process may die here, or others may go on first."""
        if self.dead:
            raise Killed
        if self.calm:
            return
        if self.chance.random() < self.kill_at_a_write:
            self.kill()
            raise Killed
        self.may_freeze(name)
        if self.faults_left and self.chance.random() < self.fail_at_a_write:
            self.faults_left -= 1
            self.failed.append(name)
            fail(name)
        if self.chance.random() < _YIELDS_AT_A_WRITE:
            self.pause()

    def may_freeze(self, what: str) -> None:
        """The process may be frozen here, all of it, until it is thawed; or another may be thawed.

        Args:
            what: a path, or the name of a step.
        """
        if not self.freeze_at_a_write or self.freeze_at not in what:
            return
        if self.sleepers and self.chance.random() < self.freeze_at_a_write:
            self.thaw()
            self.pause()
        if not self.process.was_frozen and len(self.sleepers) < 2 and self.chance.random() < self.freeze_at_a_write:
            self.freeze()

    def thaw(self) -> None:
        """Wake one of those that were taken for dead."""
        if self.sleepers:
            self.sleepers.pop(0).frozen = False

    def freeze(self) -> None:
        """Freeze the process whose turn it is."""
        self.process.frozen = self.process.was_frozen = True
        self.pause()

    def kill(self, process: Process | None = None) -> None:
        """A process is dead, the one whose turn it is or another: nothing that it still does reaches the outside."""
        process = process or self.process
        process.dead, process.frozen = True, False

    def bury(self, process: Process | None = None) -> None:
        """Let the strands of a dead process come to their end. From a strand that is none of them, or the first."""
        me, process = self._current, process or self.process
        self.kill(process)
        self._await_end(me, lambda: [one for one in self._strands if one.process is process and one is not me])
        process.dead = process is not me.process
        if self.failure is not None:
            raise self.failure

    def drop(self, strand: Strand) -> None:
        """Let one strand come to its end."""
        strand.dropped = True
        self._await_end(self._current, lambda: () if strand.over else (strand,))

    def _await_end(self, me: Strand, of: Callable[[], Sequence[Strand]]) -> None:
        while of():
            me.wakes_s, me.until = self.now_s, None
            self._give_way(me)

    def _give_way(self, me: Strand) -> None:
        following = self._next(me)
        if following is not me:
            self._current = following
            following.stack.switch()

    def _next(self, me: Strand | None = None) -> Strand:
        while True:
            others = [one for one in self._strands if (one.dropped or one.process.dead) and one is not me]
            now_s = self.now_s
            ready = others or [  # written out: it is asked millions of times
                one
                for one in self._strands
                if (one.dropped or one.process.dead)
                or (not one.process.frozen and (one.wakes_s <= now_s or (one.until is not None and one.until())))
            ]
            if ready:
                return ready[0] if len(ready) == 1 else self.chance.choice(ready)
            self.now_s = min(one.wakes_s for one in self._strands if not one.process.frozen)
            assert self.now_s < math.inf, "everybody waits for somebody else"
            assert self.now_s < _LONGEST_S, "it does not come to an end"


def the_product() -> list[ModuleType]:
    """Return the product's modules that are imported, but for its test kit."""
    return [one for name, one in sys.modules.items() if name.startswith("rekindle.") and ".testing" not in name]


class Threading:
    """What the modules under test use of ``threading``, ``queue`` and ``time``."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    @contextlib.contextmanager
    def stood_in(self) -> Iterator[None]:
        """Put it where any module of the product would use the standard library's; nothing starts a real thread."""
        replaced: list[tuple[Any, str, Any]] = [(threading.Thread, "start", threading.Thread.start)]
        stand_ins: dict[str, Any] = {"start": self._refuse}
        for name in ("threading", "queue", "time"):
            real, stand_ins[name] = sys.modules[name], self
            replaced += [(module, name, real) for module in the_product() if getattr(module, name, None) is real]
        for holder, name, _ in replaced:
            setattr(holder, name, stand_ins[name])
        try:
            yield
        finally:
            for holder, name, real in replaced:
                setattr(holder, name, real)

    def _refuse(self, *_: object) -> None:
        error = AssertionError("a real thread starts in a simulated life")
        self._scheduler.failure = self._scheduler.failure or error
        raise error

    def Lock(self) -> Lock:  # noqa: N802
        """See ``threading``."""
        return Lock(self._scheduler)

    def Condition(self) -> Condition:  # noqa: N802
        """See ``threading``."""
        return Condition(self._scheduler)

    def Event(self) -> Event:  # noqa: N802
        """See ``threading``."""
        return Event(self._scheduler)

    def Thread(self, target: Callable[..., None], args: Any = (), name: str = "", **_: Any) -> Thread:  # noqa: N802
        """See ``threading``."""
        return Thread(self._scheduler, lambda: target(*args), name)

    def SimpleQueue(self) -> SimpleQueue:  # noqa: N802
        """See ``queue``."""
        return SimpleQueue(self._scheduler)

    Empty = queue.Empty

    def sleep(self, seconds: float) -> None:
        """See ``time``."""
        self._scheduler.pause(seconds)

    def monotonic(self) -> float:
        """See ``time``."""
        return self._scheduler.now_s

    time = monotonic

    def monotonic_ns(self) -> int:
        """See ``time``."""
        return round(self._scheduler.now_s * 1_000_000_000)

    time_ns = monotonic_ns


class Lock:
    """See ``threading``."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._taken = False

    def acquire(self, blocking: bool = True) -> bool:
        """See ``threading``."""
        while self._taken:
            if not blocking:
                return False
            self._scheduler.pause(math.inf, lambda: not self._taken)
        self._taken = True
        return True

    def release(self) -> None:
        """See ``threading``."""
        self._taken = False

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Condition(Lock):
    """See ``threading``."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self._news = 0

    def wait(self, timeout: float = math.inf) -> None:
        """See ``threading``."""
        seen = self._news
        self._taken = False
        self._scheduler.pause(timeout, lambda: self._news > seen and not self._taken)
        self.__enter__()

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """See ``threading``."""
        until_s = self._scheduler.now_s + (math.inf if timeout is None else timeout)
        while not (held := predicate()) and self._scheduler.now_s < until_s:
            self.wait(until_s - self._scheduler.now_s)
        return held

    def notify_all(self) -> None:
        """See ``threading``."""
        self._news += 1


class Event:
    """See ``threading``."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_set = False

    def set(self) -> None:
        """See ``threading``."""
        self._is_set = True

    def clear(self) -> None:
        """See ``threading``."""
        self._is_set = False

    def is_set(self) -> bool:
        """See ``threading``."""
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """See ``threading``."""
        if not self._is_set:
            self._scheduler.pause(math.inf if timeout is None else timeout, self.is_set)
        return self._is_set


class Thread:
    """See ``threading``."""

    def __init__(self, scheduler: Scheduler, act: Callable[[], None], name: str) -> None:
        self._scheduler, self._act, self._name = scheduler, act, name
        self._strand: Strand | None = None

    def start(self) -> None:
        """See ``threading``."""
        strand = self._strand = self._scheduler.spawn(self._act, self._name)
        if self._scheduler.starts_at_once:
            self._scheduler.pause(math.inf, lambda: strand.begun)

    def join(self, timeout: float | None = None) -> None:
        """See ``threading``."""
        strand = self._strand
        if strand is not None and not strand.over and not self._scheduler.dead:
            self._scheduler.pause(math.inf if timeout is None else timeout, lambda: strand.over)

    def is_alive(self) -> bool:
        """See ``threading``."""
        return self._strand is not None and not self._strand.over


class SimpleQueue:
    """See ``queue``."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._items: deque[Any] = deque()

    def put(self, item: Any) -> None:
        """See ``queue``."""
        self._items.append(item)

    def get(self, timeout: float | None = None) -> Any:
        """See ``queue``."""
        if not self._items:
            self._scheduler.pause(math.inf if timeout is None else timeout, lambda: bool(self._items))
        return self.get_nowait()

    def get_nowait(self) -> Any:
        """See ``queue``."""
        if not self._items:
            raise queue.Empty
        return self._items.popleft()
