"""A signal stops a job also where its first stop fails: no other signal may follow."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from rekindle.errors import ControlError, RekindleError
from rekindle.runtime.signals import interrupt_on_signals, kept_signals, stop_on_signals

FAILED = ControlError("STOP_FAILED", job="bids", reason="its checkpoint failed")
REFUSED = ControlError("STOP_REFUSED", job="bids", state="STOPPING")
UNANSWERED = ControlError("CANCEL_TIMED_OUT", job="bids", pid=1, host="a", seconds=60)


class Running:
    """A job whose stops and cancels fail as `failures` says, one after the other; then one of them ends it."""

    mode = "streaming"

    def __init__(self, *failures: RekindleError, ends_after_them: bool = False) -> None:
        self._failures = list(failures)
        self._ends_after_them = ends_after_them
        self.asked: list[str] = []
        self.ended = threading.Event()

    def stop(self) -> None:
        self._ask("stop")

    def cancel(self) -> None:
        self._ask("cancel")

    def _ask(self, verb: str) -> None:
        self.asked.append(verb)
        if self._failures:
            failure = self._failures.pop(0)
            if not self._failures and self._ends_after_them:
                self.ended.set()
            raise failure
        self.ended.set()

    def is_running(self) -> bool:
        return not self.ended.is_set()


@pytest.fixture(autouse=True)
def none_ignored() -> Iterator[None]:
    """A process that was started by nohup ignores SIGHUP, and so do its children."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def signalled(job: Running, *numbers: signal.Signals) -> list[str]:
    """Send signals to a process that runs the job; return what it says until its threads have ended."""
    said: list[str] = []
    before = set(threading.enumerate())
    with stop_on_signals(job, said.append, again_s=0.001):
        for number in numbers:
            handler = signal.getsignal(number)
            assert callable(handler)
            handler(number, None)
            for thread in set(threading.enumerate()) - before:
                thread.join()
    return said[1:]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_stop_that_is_given_up_is_asked_for_again_until_the_job_has_ended(number: signal.Signals) -> None:
    job = Running(FAILED, FAILED, REFUSED, FAILED)

    said = signalled(job, number)

    assert job.ended.is_set() and job.asked == ["stop"] * 5
    assert said == [str(FAILED), str(REFUSED), str(FAILED)], "what is repeated is said once"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_between_the_start_of_a_job_and_its_run_is_no_end_of_the_process(number: signal.Signals) -> None:
    job = Running()

    with kept_signals() as missed:
        with interrupt_on_signals(missed):
            pass
        signal.raise_signal(number)
        with stop_on_signals(job, missed=missed):
            assert job.ended.wait(60)
    assert job.asked == ["stop"]


class Finalized:
    """Raises a signal as it is deleted; Python says what its handler raises, and drops it."""

    def __init__(self, number: signal.Signals) -> None:
        self._number = number

    def __del__(self) -> None:
        signal.raise_signal(self._number)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_start_whose_interrupt_python_drops_is_followed_by_a_stop(number: signal.Signals) -> None:
    job = Running()

    with kept_signals() as missed:
        with interrupt_on_signals(missed):
            Finalized(number)
        with stop_on_signals(job, missed=missed):
            assert job.ended.wait(60)
    assert job.asked == ["stop"]


def test_a_job_that_has_ended_in_another_way_is_not_asked_again() -> None:
    job = Running(FAILED, FAILED, ends_after_them=True)

    assert signalled(job, signal.SIGTERM) == [str(FAILED)]
    assert job.asked == ["stop"] * 2


def test_a_stop_that_the_next_ctrl_c_has_canceled_says_nothing() -> None:
    job = Running(ControlError("CANCELED_MEANWHILE", job="slow"), ends_after_them=True)

    assert signalled(job, signal.SIGINT) == []


def test_a_cancel_that_is_not_answered_stays_in_force_and_is_asked_for_once() -> None:
    job = Running(UNANSWERED)
    job.mode = "batch"

    assert signalled(job, signal.SIGTERM) == [str(UNANSWERED)]
    assert job.asked == ["cancel"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_interrupts_a_start_as_ctrl_c_does(number: signal.Signals) -> None:
    program = f"""
import os, rekindle as rk
class Config(dict):
    def items(self):
        os.kill(os.getpid(), {number:d})
        return super().items()
rk.Job("bids").run(config=Config(key=1))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == -signal.SIGINT, done.stderr
    assert done.stderr.rstrip().endswith("KeyboardInterrupt")
