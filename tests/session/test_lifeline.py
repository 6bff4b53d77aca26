"""How it is noticed that a JVM hangs. Needs no JVM: a process that sleeps stands for it."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.udf import UserDefinedFunction

from rekindle.session import lifeline
from rekindle.session.lifeline import LifelinePauses, SparkLifeline

LONG_S = 60
HURRY = LifelinePauses(look_s=0.01, hang_s=0.5, exit_s=0.1)


class Jvm:
    """A JVM that answers as it is told to."""

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.process = subprocess.Popen(["sleep", "600"])
        self.answer: Callable[[], bool] = lambda: False
        address = SimpleNamespace(address="127.0.0.1", port=self.server.getsockname()[1])
        gateway = SimpleNamespace(java_parameters=address, proc=self.process)
        context = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=self._answer))
        session = SimpleNamespace(master="local[2]", _gateway=gateway, _jsc=context)
        self.spark: Any = SimpleNamespace(sparkContext=session)
        #: for ever, until the test is over
        self.silence = threading.Event()

    def _answer(self) -> bool:
        return self.answer()

    def hang(self) -> bool:
        os.kill(self.process.pid, signal.SIGSTOP)
        self.silence.wait(LONG_S)
        return False


@pytest.fixture
def jvm() -> Iterator[Jvm]:
    made = Jvm()
    yield made
    made.silence.set()
    made.process.kill()
    made.process.wait()
    made.server.close()


def watched(
    jvm: Jvm, *, ours: bool, pauses: LifelinePauses = HURRY
) -> tuple[SparkLifeline, list[str], threading.Event]:
    told: list[str] = []
    heard = threading.Event()

    def died(reason: str) -> None:
        told.append(reason)
        heard.set()

    line = SparkLifeline(jvm.spark, ours=ours, pauses=pauses)
    line.guard()
    line.watch(died)
    return line, told, heard


def test_a_jvm_of_ours_that_hangs_is_killed_and_reported_once(jvm: Jvm) -> None:
    jvm.answer = jvm.hang
    _, told, heard = watched(jvm, ours=True)

    assert heard.wait(LONG_S)

    pid = jvm.process.pid
    assert told == [f"its JVM (process {pid}) has not answered for 0.5 s, and was killed"]
    assert jvm.process.returncode == -signal.SIGKILL


def test_a_jvm_of_the_users_that_hangs_is_reported_and_left_alone(jvm: Jvm) -> None:
    jvm.answer = jvm.hang
    _, told, heard = watched(jvm, ours=False)

    assert heard.wait(LONG_S)

    assert told == ["its JVM has not answered for 0.5 s"]
    assert jvm.process.poll() is None


def test_a_jvm_that_answers_late_again_and_again_is_not_dead(jvm: Jvm) -> None:
    slow, asked, enough = threading.Event(), [0], threading.Event()

    def answer() -> bool:
        slow.wait(0.2)  # a tenth of what it may take
        asked[0] += 1
        if asked[0] == 15:
            enough.set()
        return False

    jvm.answer = answer
    line, told, heard = watched(jvm, ours=True, pauses=LifelinePauses(look_s=0.01, hang_s=2.0))

    assert enough.wait(LONG_S)
    assert not heard.is_set() and told == [] and jvm.process.poll() is None
    line.close()


def test_one_who_watches_late_hears_what_has_happened_before(jvm: Jvm) -> None:
    jvm.answer = jvm.hang
    line = SparkLifeline(jvm.spark, ours=True, pauses=HURRY)
    line.guard()
    jvm.process.wait(LONG_S)
    told: list[str] = []
    heard = threading.Event()

    def died(reason: str) -> None:
        told.append(reason)
        heard.set()

    line.watch(died)

    assert heard.wait(LONG_S)
    assert len(told) == 1 and "has not answered" in told[0]


def test_a_session_that_was_stopped_is_reported(jvm: Jvm) -> None:
    jvm.answer = lambda: True
    _, told, heard = watched(jvm, ours=True)

    assert heard.wait(LONG_S)

    assert told == ["its SparkContext was stopped"]


@pytest.fixture
def many_files() -> Iterator[None]:
    """So many files are open that the next one has a number that `select` does not take."""
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2_048, most), most))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    yield
    for file in files:
        os.close(file)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))


def test_a_process_with_more_than_a_thousand_open_files_sees_that_a_jvm_lives_and_that_it_ends(
    many_files: None, jvm: Jvm
) -> None:
    asked = threading.Semaphore(0)
    jvm.answer = lambda: bool(asked.release())
    _, told, heard = watched(jvm, ours=True, pauses=LifelinePauses(look_s=0.01, exit_s=10))
    link, _ = jvm.server.accept()
    for _ in range(20):
        assert asked.acquire(timeout=LONG_S)
    assert told == []

    jvm.process.kill()
    link.close()

    assert heard.wait(LONG_S)
    assert len(told) == 1 and "was ended by SIGKILL" in told[0]


def test_functions_forget_a_dead_jvm_and_no_other_thread_is_disturbed() -> None:
    functions = [UserDefinedFunction(lambda value: value, "long") for _ in range(3)]
    failures: list[BaseException] = []
    over = threading.Event()

    def make_tuples() -> None:
        try:
            while not over.is_set():
                tuple(number for number in range(30))
        except SystemError as error:
            failures.append(error)

    threads = [threading.Thread(target=make_tuples) for _ in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for _ in range(20):
            for function in functions:
                function._judf_placeholder = "of the dead one"
            lifeline.forget_counterparts()
    finally:
        sys.setswitchinterval(interval)
        over.set()
        for thread in threads:
            thread.join()
    assert [function._judf_placeholder for function in functions] == [None] * 3
    assert failures == []


INTERRUPTED = """
import subprocess, sys
from types import SimpleNamespace
from pyspark import SparkContext
from rekindle.session.lifeline import forgotten_if_interrupted

process = subprocess.Popen(["sleep", "600"], stdin=subprocess.PIPE)
SparkContext._gateway = SimpleNamespace(proc=process)
SparkContext._active_spark_context = None if sys.argv[1] == "first" else SimpleNamespace()
try:
    with forgotten_if_interrupted():
        SparkContext._active_spark_context = SimpleNamespace()  # as PySpark does before it waits
        raise KeyboardInterrupt
except KeyboardInterrupt:
    print(process.poll(), SparkContext._gateway is None, SparkContext._active_spark_context is None)
process.kill()
"""


@pytest.mark.parametrize(
    ("session", "left"), [("first", f"{-signal.SIGKILL} True True"), ("second", "None False False")]
)
def test_a_jvm_whose_first_session_is_interrupted_is_not_met_by_the_next_start(session: str, left: str) -> None:
    said = subprocess.run([sys.executable, "-c", INTERRUPTED, session], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == left


FORGOTTEN = """
import socketserver, subprocess, threading
from types import SimpleNamespace
from pyspark import SparkContext
from rekindle.session.lifeline import forget_jvm

SparkContext._gateway = SimpleNamespace(proc=subprocess.Popen(["sleep", "600"], stdin=subprocess.PIPE))
counts = socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler)
serving = threading.Thread(target=counts.serve_forever, daemon=True)
serving.start()
SparkContext._active_spark_context = SimpleNamespace(_accumulatorServer=counts)  # as PySpark has it
forget_jvm(SparkContext._gateway)
serving.join(60)
print(serving.is_alive(), SparkContext._active_spark_context)
"""


def test_a_jvm_that_is_forgotten_leaves_no_thread_that_listens_to_it() -> None:
    said = subprocess.run([sys.executable, "-c", FORGOTTEN], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["False", "None"]
