"""A storage, a job in it, a command to run on it, and a driver that answers requests without any Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rekindle.storage import liveness
from rekindle.storage.documents.control import Request
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore
from tests.cli.kit import Command, ManualClock, Reply


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(str(tmp_path / "state"))


@pytest.fixture
def clock(command: Command) -> ManualClock:
    """The clock of that command."""
    return command.clock


@pytest.fixture
def job(command: Command) -> JobStorage:
    """A job in that storage that nobody has started."""
    return JobStorage(LocalStore(command.storage), "bids")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver on another machine is waited for no longer than a moment."""
    monkeypatch.setattr(liveness, "SILENCE_MS", 50)


@pytest.fixture
def drive(job: JobStorage) -> Iterator[Callable[[Reply], list[Request]]]:
    """Start a driver that gives each request to a function once, and returns the list of requests it has seen."""
    over = threading.Event()
    threads: list[threading.Thread] = []

    def begin(reply: Reply) -> list[Request]:
        seen: list[Request] = []

        def loop() -> None:
            while not over.wait(0.01):
                for request in job.control().requests:
                    if request.id not in {one.id for one in seen}:
                        seen.append(request)
                        answer = reply(request)
                        if answer is not None:
                            job.answer(answer)

        threads.append(threading.Thread(target=loop, daemon=True))
        threads[-1].start()
        return seen

    yield begin
    over.set()
    for thread in threads:
        thread.join(10)
