"""A start of Spark that never answers: it is bounded, says why, and leaves no process."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkException

from rekindle.errors import DefinitionError
from rekindle.session import jvm, starting
from tests.interrupts import interrupts_heard
from tests.waiting import until


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Spark's launcher, to be written; this process has no JVM."""
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "spark-submit"
    script.touch(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(jvm, "_LOGS", [])
    monkeypatch.chdir(tmp_path)
    return script


def lives(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


@contextmanager
def interrupted_once(begun: Callable[[], bool]) -> Iterator[None]:
    """Interrupt this process once something has begun, and until it has heard that: a finalizer may swallow it."""
    heard = threading.Event()

    def interrupt() -> None:
        until(begun)
        while not heard.is_set():
            os.kill(os.getpid(), signal.SIGINT)
            heard.wait(5.0)

    interrupting = threading.Thread(target=interrupt)
    with interrupts_heard():
        interrupting.start()
        try:
            yield
        finally:
            heard.set()
            interrupting.join()


def test_a_launcher_reads_names_of_files_as_python_does(launcher: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    launcher.write_text("#!/bin/sh\necho $LC_ALL > locale\nexit 1\n")
    with pytest.raises(PySparkException, match="gateway"):
        jvm.start_jvm({}, "locale")
    assert Path("locale").read_text() == "C.UTF-8\n"
    assert os.environ["LC_ALL"] == "C"


def test_a_user_that_is_a_number_alone_is_said_with_what_to_do_about_it() -> None:
    assert starting.not_started("no Java.", os.getuid()).code == "SPARK_NOT_STARTED"
    nameless = starting.not_started("it did not log in.", 2_147_480_000)
    assert nameless.code == "SPARK_USER_NAMELESS"
    assert "The user 2147480000 has no name" in nameless.message
    assert "useradd --uid 2147480000" in nameless.next_step
    assert "Java" not in nameless.next_step


def test_a_launcher_that_has_ended_as_if_all_were_well_is_not_waited_for(launcher: Path) -> None:
    launcher.write_text("#!/bin/sh\nexit 0\n")
    with pytest.raises(DefinitionError) as error:
        jvm.start_jvm({}, "ends")
    assert error.value.code == "SPARK_NOT_STARTED"
    assert "has ended, and there is no JVM" in error.value.message


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="asks Linux which processes live")
def test_a_launcher_that_says_nothing_is_ended_with_all_that_it_has_started(launcher: Path) -> None:
    launcher.write_text("#!/bin/sh\nsleep 1000 &\necho $$ $! > processes\nwait\n")
    with pytest.raises(DefinitionError) as error:
        jvm.start_jvm({}, "hangs", silence_s=1.0)
    assert error.value.code == "SPARK_NOT_STARTED"
    assert "has said nothing for 1 s" in error.value.message
    processes = [int(one) for one in Path("processes").read_text().split()]
    assert len(processes) == 2
    assert not any(map(lives, processes))


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="asks Linux which processes live")
def test_a_launcher_is_ended_with_all_that_it_has_started_if_the_start_is_interrupted(launcher: Path) -> None:
    launcher.write_text("#!/bin/sh\ntrap '' INT TERM\nsleep 1000 &\necho $$ $! > begun && mv begun processes\nwait\n")

    with interrupted_once(Path("processes").exists), pytest.raises(KeyboardInterrupt):
        jvm.start_jvm({}, "interrupted")
    processes = [int(one) for one in Path("processes").read_text().split()]
    assert len(processes) == 2
    until(lambda: not any(map(lives, processes)))


def test_a_launcher_that_fails_by_itself_keeps_its_own_error(launcher: Path) -> None:
    launcher.write_text("#!/bin/sh\necho no java here >&2\nexit 1\n")
    with pytest.raises(Exception, match=r"JAVA_GATEWAY_EXITED|gateway"):
        jvm.start_jvm({}, "fails")


def test_who_says_something_now_and_then_may_take_its_time(launcher: Path) -> None:
    launcher.write_text("#!/bin/sh\nfor i in 1 2 3 4 5 6 7 8; do echo loading >&2; sleep 0.5; done\nexit 1\n")
    with pytest.raises(Exception, match=r"JAVA_GATEWAY_EXITED|gateway"):
        jvm.start_jvm({}, "slow", silence_s=3.0)


def test_a_session_that_waits_for_its_cluster_says_so_until_it_is_there(caplog: pytest.LogCaptureFixture) -> None:
    there = threading.Event()

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "for 2 min" in record.getMessage():
                there.set()

    heard = Heard()
    logging.getLogger(starting.__name__).addHandler(heard)
    try:
        assert starting.said_to_wait(lambda: there.wait(300), 0.01) is True
    finally:
        logging.getLogger(starting.__name__).removeHandler(heard)
    assert caplog.messages[0].startswith("Spark has been starting for 1 min.")


def test_an_interrupt_gives_up_a_session_that_waits_for_its_cluster() -> None:
    begun, ended = threading.Event(), threading.Event()

    def make() -> None:
        begun.set()
        ended.wait(20)
        ended.set()

    with interrupted_once(begun.is_set), pytest.raises(KeyboardInterrupt):
        starting.said_to_wait(make)
    assert not ended.is_set(), "it waits for no cluster"
    ended.set()


def test_a_session_that_is_refused_raises_what_spark_raised() -> None:
    def refused() -> None:
        raise ValueError("no such master")

    with pytest.raises(ValueError, match="no such master"):
        starting.said_to_wait(refused)
