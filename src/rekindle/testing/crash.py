"""Crashes at a chosen durable step: faults inside a process, and kill -9 of a real driver.

A `Moments` object is given to a start, ``heard_by(moments, job.start)(...)``. It hears every durable step
(`runtime.steps.ALL`), counts them, and does harm at the moments it was given: `fail` raises there, `kill` ends the
process as ``kill -9`` does. Afterwards the job is run again without it, and what it has written is compared with what
it should have::

    python -m rekindle.testing.crash JOBFILE --storage DIR --kill-at record.create/after:2
    rekindle run JOBFILE --storage DIR

With ``--kill-engine-at`` it kills the processes that the driver has started, Spark's JVM among them: the driver is to
continue with another. With ``--pause-at`` the driver stops there as a machine that is suspended does, until it is sent
SIGCONT.

This module must not know Spark, nor what a job computes.
"""

from __future__ import annotations

import argparse
import logging
import os
import runpy
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from rekindle.errors import RekindleError, StorageError
from rekindle.runtime import steps
from rekindle.runtime.steps import heard_by
from rekindle.storage import layout

WHEN = ("before", "after")
"""A step is announced before and after what it does."""

NOT_REACHED = 4
"""Exit code of the command where the job ended and its moment had never come."""

VERBS = ("checkpoint", "savepoint", "stop", "drain")
"""The requests that the command can make to the job that it runs."""


class StepFailedError(Exception):
    """Raised at a step that is not a write to the storage: a sink or Spark failed there."""


class Moment(NamedTuple):
    """The n-th time that a step is reached, before or after it is done."""

    step: str
    when: str
    nth: int = 1

    @classmethod
    def parse(cls, text: str) -> Moment:
        """Read ``"record.create/after"`` or ``"record.create/after:2"``; raise ValueError for an unknown step."""
        name, _, nth = text.partition(":")
        step, _, when = name.partition("/")
        if step not in steps.ALL or when not in WHEN:
            raise ValueError(f"{name!r} is not STEP/before or STEP/after with one of {', '.join(steps.ALL)}")
        return cls(step, when, int(nth or 1))

    @property
    def name(self) -> str:
        """The name that a `Steps` callable hears."""
        return f"{self.step}/{self.when}"

    def __str__(self) -> str:
        return f"{self.name}:{self.nth}"


ALL_MOMENTS = tuple(Moment(step, when) for step in steps.ALL for when in WHEN)
"""Every step, before and after, the first time."""


class Moments:
    """A `Steps` callable that acts at some moments, once each, and remembers all that it has heard.

    Args:
        at: when to act.
        act: what to do; hears the name of the step.
    """

    def __init__(self, at: Iterable[Moment] = (), act: Callable[[str], None] | None = None) -> None:
        self._act = act or fail
        self._lock = threading.Lock()
        #: moments that have not come yet
        self.waiting = set(at)
        #: moments at which it has acted, in order
        self.acted: list[Moment] = []
        #: names heard → how often
        self.reached: Counter[str] = Counter()

    def __call__(self, name: str) -> None:
        """Hear a step; called from any of the driver's threads."""
        step, _, when = name.partition("/")
        with self._lock:
            self.reached[name] += 1
            moment = Moment(step, when, self.reached[name])
            if moment not in self.waiting:
                return
            self.waiting.discard(moment)
            self.acted.append(moment)
        self._act(name)


def fail(name: str) -> None:
    """Raise what a storage, a sink or Spark might raise at this step."""
    if name.partition("/")[0] in layout.STEPS:
        raise StorageError("STORAGE_UNAVAILABLE", uri="injected", reason=name)
    raise StepFailedError(name)


def kill(name: str) -> None:
    """End this process at once, as ``kill -9`` does: nothing is flushed, no handler runs."""
    os.kill(os.getpid(), signal.SIGKILL)


def kill_engine(name: str) -> None:
    """End the processes that this one has started, as the system does when memory runs out."""
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):
            for child in (task / "children").read_text().split():
                os.kill(int(child), signal.SIGKILL)


def pause(name: str) -> None:
    """Stop this process, all its threads, until it is sent SIGCONT."""
    # Sent to the process, it might be another thread that takes notice, while this one continues for a moment.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m rekindle.testing.crash",
        description="Run a job and kill, or pause, its driver at a durable step.",
    )
    parser.add_argument("jobfile", help="as for rekindle run")
    parser.add_argument("--storage", required=True)
    parser.add_argument("--from", dest="restore", help="checkpoint or savepoint to start from")
    parser.add_argument("--mode", default="streaming", help="as for rekindle run")
    at = parser.add_mutually_exclusive_group()
    at.add_argument("--kill-at", type=_moment, metavar="STEP/before[:N]", help="SIGKILL")
    at.add_argument("--kill-engine-at", type=_moment, metavar="STEP/before[:N]", help="SIGKILL to Spark's JVM")
    at.add_argument("--pause-at", type=_moment, metavar="STEP/before[:N]", help="SIGSTOP")
    parser.add_argument("--set", dest="config", type=_pair, action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--conf", type=_pair, action="append", default=[], metavar="spark.KEY=VALUE")
    parser.add_argument("--ask", choices=VERBS, action="append", default=[], help="ask for this, in order")
    parser.add_argument("--ask-at", type=int, default=0, metavar="BATCH", help="once this batch is recorded")
    options = parser.parse_args(arguments)

    acts = ((options.kill_at, kill), (options.kill_engine_at, kill_engine), (options.pause_at, pause))
    moment, act = next((one for one in acts if one[0]), (None, None))
    moments = Moments([moment] if moment else [], act)
    logger = logging.getLogger("rekindle")
    level = logger.level
    logger.setLevel(logging.INFO)  # as `rekindle run` does: the log is written too
    try:
        handle = heard_by(moments, _load(options.jobfile).start)(
            storage=options.storage,
            restore=options.restore,
            mode=options.mode,
            config=dict(options.config),
            spark_config=dict(options.conf),
        )
        for verb in options.ask:
            _ask(handle, verb, options.ask_at)
        print(handle.wait().state)
    except RekindleError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        logger.setLevel(level)
    return NOT_REACHED if moments.waiting else 0


def _load(path: str) -> Any:
    """Return the job of a job file: the first thing in it that can be started with `Moments`."""
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    names = runpy.run_path(path, run_name="__rekindle__")
    return next(value for value in names.values() if hasattr(value, "start") and hasattr(value, "graph"))


def _ask(handle: Any, verb: str, batch: int) -> None:
    while handle.wait(0.02) is None and min(task.batch for task in handle.status().tasks) < batch:
        time.sleep(0.02)
    if verb == "drain":
        handle.stop(drain=True)
    else:
        getattr(handle, verb)()


def _moment(text: str) -> Moment:
    try:
        return Moment.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value")
    return key, value


if __name__ == "__main__":
    sys.exit(main())
