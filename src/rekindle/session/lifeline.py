"""Watch whether Spark still lives: the one place where its death becomes known.

A connection to the JVM is held open and never used. The system closes it at once when the JVM ends, however that comes
about (killed for memory, a crash, a signal), and whether the JVM is our child or our parent (``spark-submit``). Where
the JVM lives on and its SparkContext has been stopped, by someone else or because the cluster is gone, queries are as
dead; that is asked twice a second. So are those of a standalone cluster's application that its master has forgotten
(`standalone`).

A JVM may also hang: stopped by a signal, or so short of memory that it only collects. Calls into it then wait forever.
So it is asked by a thread that does nothing else, and one that has not answered for two minutes counts as dead, far
beyond any pause of a collection that it recovers from. One of our own is killed then: it must not wake up beside its
successor, and threads that wait for its answer continue. Time in which this process did not run does not count. Nothing
here is called by the driver's loop.
"""

from __future__ import annotations

import gc
import logging
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.udf import UserDefinedFunction

from rekindle.runtime.elapsed import Elapsed
from rekindle.session.standalone import Registration

_LOG = logging.getLogger(__name__)
_REPLACING = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class LifelinePauses:
    """The times that a lifeline waits, in seconds."""

    #: between two looks
    look_s: float = 0.5
    #: the silence after which a JVM that was asked something counts as dead. Spark gives up executors after as long.
    hang_s: float = 120.0
    #: for the exit code of a JVM that has closed its connection
    exit_s: float = 2.0


USUAL = LifelinePauses()


class SparkLifeline:
    """A `Lifeline`: tells when the Spark of one session is gone.

    Args:
        ours: the session is Rekindle's own, so that another may take its place.
    """

    def __init__(self, spark: SparkSession, *, ours: bool, pauses: LifelinePauses | None = None) -> None:
        self._spark = spark
        self._pauses = pauses or USUAL
        self._gateway: Any = spark.sparkContext._gateway
        self._process: subprocess.Popen[bytes] | None = getattr(self._gateway, "proc", None)
        #: True if this process can make another one
        self.replaceable = ours and self._process is not None
        self._closed = threading.Event()
        self._gone = ""
        self._died: Callable[[str], None] = _tell_no_one
        self._telling = threading.Lock()
        #: answers of the JVM, and the last one: Spark was stopped
        self._answers = 0
        self._stopped = False
        self._registration = Registration(spark, self._closed)

    def guard(self) -> None:
        """Begin to look, before a driver wants to know: threads that wait for a JVM that hangs are freed."""
        for look in (self._watch, self._ask):
            threading.Thread(target=look, name="spark-lifeline", daemon=True).start()
        self._registration.watch()

    def watch(self, died: Callable[[str], None]) -> None:
        """Call `died` once, with the reason, when Spark is gone, or at once if it is; `guard` has been called."""
        with self._telling:
            self._died = died
            gone = self._gone
        if gone:
            died(gone)

    def close(self) -> None:
        """Watch no more: Spark may be stopped now."""
        self._closed.set()

    def is_gone(self) -> bool:
        """Return True if Spark is dead, or is being stopped: what fails now fails for that reason."""
        return bool(self._gone) or self._is_stopped()

    def _watch(self) -> None:
        try:
            reason = self._wait()
        except Exception as error:  # nothing here may end silently: a call into a dying JVM may raise anything
            reason = f"its connection is lost: {error}"
        if reason and not self._closed.is_set():
            with self._telling:
                self._gone, died = reason, self._died
            died(reason)

    def _wait(self) -> str:
        try:
            link = socket.create_connection(_address(self._gateway), timeout=10)
        except OSError:
            return self._last_words()
        elapsed, answers = Elapsed(), -1
        answered_ms = elapsed.now_ms()
        with link:
            while not self._closed.is_set():
                if _ends_within(link, self._pauses.look_s):
                    return self._last_words()
                now_ms = elapsed.now_ms()
                if answers != self._answers:
                    answers, answered_ms = self._answers, now_ms
                elif now_ms - answered_ms >= self._pauses.hang_s * 1000:
                    return self._end_hanging()
                if self._stopped:
                    # A JVM that ends stops its SparkContext first: what it died of says more.
                    ended = _ends_within(link, self._pauses.exit_s)
                    return self._last_words() if ended else "its SparkContext was stopped"
                if self._registration.lost:
                    return "the master of its cluster does not know it any more, and gives it no executors"
        return ""

    def _ask(self) -> None:
        """Ask again and again, in a thread that has nothing else to do: an answer may never come."""
        while not self._closed.is_set() and not self._gone:
            self._stopped = self._is_stopped()
            self._answers += 1
            self._closed.wait(self._pauses.look_s)

    def _end_hanging(self) -> str:
        """Kill a JVM that hangs, if it is our own; return what became of it."""
        silent = f"has not answered for {self._pauses.hang_s:g} s"
        if self._process is None or not self.replaceable:
            return f"its JVM {silent}"
        self._process.kill()
        self._process.wait()
        return f"its JVM (process {self._process.pid}) {silent}, and was killed"

    def _is_stopped(self) -> bool:
        try:
            context: Any = self._spark.sparkContext._jsc
            return bool(context.sc().isStopped())
        except Exception:  # it was stopped in Python, or there is no JVM to ask
            return True

    def _last_words(self) -> str:
        if self._process is None:
            return "its JVM has ended"
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(self._pauses.exit_s)
        code = self._process.poll()
        if code is None:
            return "its JVM has closed its connection"
        if code < 0:
            hint = ", as the system does when memory runs out" if code == -signal.SIGKILL else ""
            return f"its JVM (process {self._process.pid}) was ended by {signal.Signals(-code).name}{hint}"
        return f"its JVM (process {self._process.pid}) ended with code {code}"


def _ends_within(link: socket.socket, wait_s: float) -> bool:
    """Return whether the connection ends within this time. Not by `select`, which takes only low file descriptors."""
    link.settimeout(wait_s)
    try:
        link.recv(1)  # nothing is ever sent
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def _tell_no_one(reason: str) -> None:
    """Do nothing: no driver wants to know yet."""


def stop_session(spark: SparkSession) -> None:
    """Stop a session; where its JVM is gone, forget it, so that the next session gets a new one."""
    gateway: Any = spark.sparkContext._gateway
    try:
        spark.stop()
    except Exception as error:
        _LOG.debug("The session could not be stopped: %s", error)
    process = getattr(gateway, "proc", None)
    if process is not None and process.poll() is not None:
        forget_jvm(gateway)


def forget_failed_jvm() -> None:
    """End a JVM of this process in which no session could be made, so that the next session gets a new one."""
    gateway: Any = SparkContext._gateway
    if getattr(gateway, "proc", None) is not None:
        forget_jvm(gateway)


@contextmanager
def forgotten_if_interrupted() -> Iterator[None]:
    """End the JVM of this process if the making of its first session, inside, is interrupted.

    The half of a session that it has would be in the way of the next one.
    """
    is_first = SparkContext._active_spark_context is None
    try:
        yield
    except KeyboardInterrupt:
        if is_first:
            forget_failed_jvm()
        raise


def forget_jvm(gateway: Any) -> None:
    """Let PySpark forget its JVM, which is ended if it still lives. Another thread may have done so already."""
    with _REPLACING:
        context: Any = SparkContext
        if context._gateway is not gateway:
            return
        process = gateway.proc
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()
        with suppress(Exception):
            gateway.shutdown_callback_server()
        with suppress(Exception):
            gateway.shutdown()
        # A session that could not be stopped still has it: a thread and a socket, which the JVM sent its counts to.
        counts = getattr(context._active_spark_context, "_accumulatorServer", None)
        if counts is not None:
            with suppress(Exception):
                counts.shutdown()
        context._active_spark_context = context._gateway = context._jvm = None
        session: Any = SparkSession
        session._instantiatedSession = None
        if hasattr(session, "_activeSession"):
            session._activeSession = None
        forget_counterparts()


def forget_counterparts() -> None:
    """Let functions made at the top of a job file forget their counterparts in the JVM that first used them.

    They are found by what they refer to. A list of all objects would hold the tuples that other threads are just
    making, and those threads would fail with a SystemError.
    """
    for thing in gc.get_referrers(UserDefinedFunction):
        if type(thing) is UserDefinedFunction:
            thing._judf_placeholder = None


def _address(gateway: Any) -> tuple[str, int]:
    parameters = getattr(gateway, "java_parameters", None) or gateway.gateway_parameters
    return parameters.address, parameters.port
