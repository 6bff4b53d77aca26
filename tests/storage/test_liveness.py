from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from rekindle.storage import layout, liveness
from rekindle.storage.codec import encode
from rekindle.storage.documents.runs import Result, Run
from rekindle.storage.documents.status import RUNNING, Status
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.liveness import Process, is_alive, this_process
from rekindle.storage.open import open_store
from rekindle.storage.port import NotFound
from rekindle.testing.memory_store import MemoryStore
from tests.claims import claim

ON_LINUX = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")


def status_of(process: Process, *, run: int = 1, beat: int = 5) -> Status:
    return Status(job="job", state="RUNNING", run=run, beat=beat, written_ms=0, **process._asdict())


def run_of(process: Process, *, run: int = 1) -> Run:
    return Run(run=run, started_ms=0, lineage=1, **process._asdict())


def elsewhere() -> Process:
    return this_process()._replace(host="another-host")


@pytest.fixture
def child() -> Iterator[tuple[subprocess.Popen[str], Process]]:
    """A process that says who it is and waits."""
    code = (
        "import sys; from rekindle.storage.liveness import this_process; "
        "print(*this_process(), sep='|', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        host, pid, started = process.stdout.readline().strip().split("|")
        yield process, Process(host, int(pid), started)
        process.kill()


def test_this_process_is_alive() -> None:
    assert is_alive(status_of(this_process())) is True
    assert is_alive(run_of(this_process())) is True


def test_a_process_on_this_machine_is_alive_until_it_is_killed(child: tuple[subprocess.Popen[str], Process]) -> None:
    process, identity = child
    assert process.pid == identity.pid
    assert is_alive(status_of(identity)) is True
    process.kill()
    process.wait()
    assert is_alive(status_of(identity)) is False


class EndsMeanwhile(MemoryStore):
    """A store whose driver writes its result and ends, right after someone has looked for that."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        super().__init__()
        self._process = process

    def read(self, path: str) -> bytes:
        try:
            return super().read(path)
        except NotFound:
            if path == layout.result("job", 1):
                self.create(path, encode(Result(run=1, state="FINISHED", ended_ms=0)))
                self._process.kill()
                self._process.wait()
            raise


def test_a_driver_that_ends_while_it_is_looked_at_is_not_lost(child: tuple[subprocess.Popen[str], Process]) -> None:
    process, identity = child
    storage = JobStorage(EndsMeanwhile(process), "job")
    claim(storage, lambda number: run_of(identity, run=number))
    assert [storage.state(), storage.state()] == [RUNNING, "FINISHED"]


@ON_LINUX
def test_a_killed_process_whose_parent_has_not_noticed_is_dead(child: tuple[subprocess.Popen[str], Process]) -> None:
    process, identity = child
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    os.kill(process.pid, 0)
    assert is_alive(status_of(identity)) is False


@ON_LINUX
def test_another_process_with_the_same_pid_is_not_the_driver() -> None:
    here = this_process()
    assert is_alive(status_of(here._replace(process_started=here.process_started + "0"))) is False


@ON_LINUX
def test_in_another_container_of_the_same_host_name_a_pid_says_nothing() -> None:
    there = this_process()._replace(process_started="pid:[1]/12345", pid=2**22 - 1)
    assert is_alive(status_of(there)) is None
    assert is_alive(status_of(there, beat=6), status_of(there, beat=5)) is True


def test_without_proc_the_pid_alone_decides(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    def missing(*_, **__):
        raise FileNotFoundError

    liveness._start_of.cache_clear()
    request.addfinalizer(liveness._start_of.cache_clear)
    monkeypatch.setattr(liveness, "open", missing, raising=False)
    monkeypatch.setattr(os, "readlink", missing)
    here = this_process()
    assert here.process_started == ""
    assert is_alive(status_of(here)) is True
    monkeypatch.setattr(os, "kill", lambda *_: (_ for _ in ()).throw(ProcessLookupError()))
    assert is_alive(status_of(here)) is False


def test_a_process_of_another_user_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "kill", lambda *_: (_ for _ in ()).throw(PermissionError()))
    assert is_alive(status_of(this_process())) is True


def test_on_another_machine_one_read_cannot_tell() -> None:
    assert is_alive(status_of(elsewhere())) is None
    assert is_alive(run_of(elsewhere())) is None


def test_on_another_machine_a_heartbeat_that_moves_is_alive_and_one_that_stands_is_dead() -> None:
    earlier = status_of(elsewhere(), beat=5)
    assert is_alive(status_of(elsewhere(), beat=6), earlier) is True
    assert is_alive(status_of(elsewhere(), beat=5), earlier) is False


def test_clocks_are_never_compared() -> None:
    earlier = status_of(elsewhere(), beat=5)
    assert is_alive(replace(earlier, written_ms=10**15), earlier) is False
    assert is_alive(replace(earlier, written_ms=-1, beat=6), earlier) is True


def test_a_driver_that_never_sent_a_heartbeat_is_dead_after_the_silence_and_alive_with_its_first() -> None:
    earlier = run_of(elsewhere())
    assert is_alive(run_of(elsewhere()), earlier) is False
    assert is_alive(status_of(elsewhere(), beat=0), earlier) is True


def test_a_newer_run_is_a_sign_of_life_whatever_its_beat() -> None:
    assert is_alive(status_of(elsewhere(), run=2, beat=5), status_of(elsewhere(), run=1, beat=5)) is True


def test_where_hearts_beat_every_ten_seconds_silence_lasts_several_of_them() -> None:
    assert liveness.silence_ms(MemoryStore()) == liveness.SILENCE_MS
    assert liveness.silence_ms(open_store("s3://bucket")) > 3 * 10_000
