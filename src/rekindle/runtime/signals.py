"""SIGTERM, SIGHUP and Ctrl-C for a running job: the first stops it properly, a second Ctrl-C cancels it.

A batch run has no place to stop at: the first signal cancels it. `Job.run` and the command line use this module. It
knows only that a job can be stopped and canceled.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from rekindle.errors import RekindleError
from rekindle.runtime import client

_LOG = logging.getLogger(__name__)

AGAIN_S = 5.0
"""The pause before a stop that has failed is asked for again."""


class Stoppable(Protocol):
    """An object that signals can stop or cancel; both calls may block until they are carried out."""

    #: "streaming" or "batch"
    mode: str

    def stop(self) -> object:
        """End at a batch boundary, with a last checkpoint."""
        ...

    def cancel(self) -> object:
        """End now."""
        ...

    def is_running(self) -> bool:
        """Return whether it has not ended yet."""
        ...


@contextmanager
def stop_on_signals(
    handle: Stoppable,
    say: Callable[[str], None] = _LOG.warning,
    *,
    missed: Sequence[int] = (),
    again_s: float = AGAIN_S,
) -> Iterator[None]:
    """Stop the job inside on SIGTERM, SIGHUP and the first Ctrl-C, and cancel it on any further Ctrl-C.

    In batch mode all of them cancel. `handled_by` says when they are not heard.

    Enter it after Spark has started: PySpark sets a SIGINT handler of its own. Each call runs in a thread, so that a
    stop that hangs does not hold up a cancel; what it raises goes to `say`, because those that wait for the job learn
    how it ends. A stop that fails leaves the job running, and no other signal may follow, so it is asked for again
    after `again_s` seconds.

    Args:
        missed: signals that came before (`kept_signals`); they are heard now.
    """
    interrupts = 0

    def act(cancel: bool, number: int) -> None:
        say("Canceling." if cancel else "Stopping: one last checkpoint. Ctrl-C again cancels.")
        said = ""
        with client.asked_by(f"{signal.Signals(number).name} to process {os.getpid()}"):
            while True:
                try:
                    handle.cancel() if cancel else handle.stop()
                    return
                except RekindleError as error:
                    if error.code == "CANCELED_MEANWHILE":
                        return  # the result of the job says so
                    if str(error) != said:
                        said = str(error)
                        say(said)
                if cancel or not handle.is_running():
                    return  # a cancel that is not answered stays in force
                time.sleep(again_s)
                if not handle.is_running():
                    return

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal interrupts
        interrupts += number == signal.SIGINT
        # Nothing is printed here: the signal may have interrupted a print.
        cancel = handle.mode == "batch" or (number == signal.SIGINT and interrupts > 1)
        threading.Thread(target=act, args=(cancel, number), daemon=True).start()

    with handled_by(on_signal):
        for number in missed:
            on_signal(number, None)
        yield


@contextmanager
def kept_signals() -> Iterator[list[int]]:
    """Keep the signals inside that nothing else hears, for `stop_on_signals`.

    Between the end of a start and that, a job runs already. A signal that ended the process there would leave it LOST.
    """
    kept: list[int] = []
    with handled_by(lambda number, frame: kept.append(number)):
        yield kept


@contextmanager
def interrupt_on_signals(kept: list[int]) -> Iterator[None]:
    """Have SIGTERM and SIGHUP inside raise KeyboardInterrupt, as Ctrl-C does.

    A job that starts has nothing to stop yet. The start that is interrupted records its run as CANCELED; a process that
    is killed leaves it LOST.

    Args:
        kept: the signals of `kept_signals`, which these join. Python drops what is raised in a finalizer or a callback;
            the start continues then, and the job is stopped as soon as it runs.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        kept.append(number)
        raise KeyboardInterrupt

    with handled_by(interrupt):
        yield


@contextmanager
def handled_by(on_signal: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Have SIGTERM, SIGHUP and Ctrl-C inside handled by this function.

    A SIGHUP that is ignored, as under nohup, stays ignored. Outside the main thread, where Python allows no handlers,
    this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            # A handler that was not set from Python reads back as None and cannot be put back as such.
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
