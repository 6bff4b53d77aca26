"""A JVM on its way up: one that hangs before it answers is ended, so that the start fails, and can be tried again.

PySpark waits without an end for a file that the JVM writes when it is there. How long that takes is not known: a loaded
machine is slow, and Spark may load libraries first. But it says what it does. So what counts is for how long it has
said nothing at all (`SILENCE_S`). Spark's launcher is a script that starts others: all of them are ended. So they are
where the start is interrupted: a JVM that is not up yet does not notice that its driver is gone. A launcher that has
ended with 0, as one does that was asked for a version, brings no JVM. PySpark would wait: it is given an empty file.

A JVM that is up may still wait for its cluster, for as long as the cluster's queue is full. That is not ended, but
said, each minute (`said_to_wait`).
"""

from __future__ import annotations

import logging
import os
import pwd
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from rekindle.errors import DefinitionError
from rekindle.runtime.elapsed import Elapsed

SILENCE_S = 300.0
"""The time that a JVM that starts may say nothing."""

_LOOK_S = 0.2

_LOG = logging.getLogger(__name__)

_Made = TypeVar("_Made")


def said_to_wait(make: Callable[[], _Made], minute_s: float = 60.0) -> _Made:
    """Return what `make` returns, from a thread of its own; each minute that it takes, a warning says so.

    An interrupt does not wait for that thread, as one of a `ThreadPoolExecutor` would be waited for.
    """
    made: Future[_Made] = Future()

    def work() -> None:
        try:
            made.set_result(make())
        except BaseException as error:
            made.set_exception(error)

    threading.Thread(target=work, name="spark-session", daemon=True).start()
    minutes = 0
    while not wait([made], minute_s).done:
        minutes += 1
        _LOG.warning(
            "Spark has been starting for %d min. On a cluster it waits for the master to answer and for room there: "
            "look at spark.master and at the cluster's queue. Ctrl-C gives up.",
            minutes,
        )
    return made.result()


def not_started(reason: str, user: int) -> DefinitionError:
    """Return the error of a start that has failed; Java's libraries do not log in as a user without a name."""
    try:
        pwd.getpwuid(user)
    except KeyError:
        return DefinitionError("SPARK_USER_NAMELESS", reason=reason, user=user)
    return DefinitionError("SPARK_NOT_STARTED", reason=reason)


class JvmWatch:
    """A watcher of the start of one JVM.

    Args:
        silence_s: how long it may say nothing.
    """

    def __init__(self, silence_s: float = SILENCE_S) -> None:
        self._silence_s = silence_s
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._up = threading.Event()
        #: number of times that it has said something
        self._said = 0
        #: the process that has reported itself
        self._process: int | None = None
        #: the file that PySpark waits for
        self._awaited: str | None = None
        #: the cause for which the start was given up
        self._reason: str | None = None

    def begun(self) -> None:
        """Report this process as the one that starts; it calls this itself, before it becomes Spark's launcher."""
        os.write(self._writer, b"%d" % os.getpid())

    def awaits(self, path: str | None) -> None:
        """Note the file that the JVM writes when it is there."""
        self._awaited = path

    def heard(self) -> None:
        """Note that the JVM has said something."""
        self._said += 1

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch while the JVM is started inside; where that fails, or is interrupted, its processes are ended.

        Raises:
            DefinitionError: ``SPARK_NOT_STARTED``, it was silent for too long, or has ended.
        """
        thread = threading.Thread(target=self._watch, name="jvm-start", daemon=True)
        thread.start()
        try:
            yield
        except BaseException as error:
            if self._reason is None or not isinstance(error, Exception):
                self._end_begun()
                raise
            raise DefinitionError("SPARK_NOT_STARTED", reason=self._reason) from error
        finally:
            self._up.set()
            thread.join()
            os.close(self._reader)
            os.close(self._writer)

    def _watch(self) -> None:
        elapsed, said, had_ended = Elapsed(), self._said, False
        since_ms = elapsed.now_ms()
        while not self._up.wait(_LOOK_S):
            now_ms = elapsed.now_ms()
            if had_ended and self._stop_waiting():
                return
            had_ended = self._has_ended()  # PySpark notices most ends itself, and knows more of them
            if said != self._said:
                said, since_ms = self._said, now_ms
            elif now_ms - since_ms >= self._silence_s * 1000 and not had_ended:
                self._reason = (
                    f"it did not come up, and has said nothing for {self._silence_s:g} s; "
                    f"process {self._begun()} was ended"
                )
                self._end_begun()
                return

    def _stop_waiting(self) -> bool:
        """Let PySpark wait no more for the file of a launcher that has ended; return False if the file is there."""
        try:
            with open(self._awaited or os.devnull, "x"):
                self._reason = f"its launcher, process {self._begun()}, has ended, and there is no JVM"
        except OSError:
            return False
        return True

    def _has_ended(self) -> bool:
        """Return True if the process that has reported itself is gone: PySpark looks for its exit code all the time."""
        process = self._begun()
        try:
            if process is not None:
                os.kill(process, 0)
        except ProcessLookupError:
            return True
        return False

    def _begun(self) -> int | None:
        """Return the process that has reported itself, if one has."""
        with suppress(BlockingIOError):
            self._process = self._process or int(os.read(self._reader, 20))
        return self._process

    def _end_begun(self) -> None:
        """End the process that has reported itself, if one has, and its children."""
        process = self._begun()
        for one in (process, *_children(process)) if process is not None else ():
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)


def _children(process: int) -> list[int]:
    """Return the processes that a process has started, and those they have; none where the system does not say."""
    found: list[int] = []
    with suppress(OSError):
        for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
            found += [int(child), *_children(int(child))]
    return found
