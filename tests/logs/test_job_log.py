"""The log of a job in its storage: what is in it, how much, and that nothing which goes wrong there harms the job."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from rekindle.config import Config
from rekindle.errors import StorageError
from rekindle.logs import pieces
from rekindle.logs.job_log import JobLog, LogLimits, job_log
from rekindle.logs.pieces import LogPosition
from rekindle.redaction import Redaction
from rekindle.storage.job_storage import JobStorage
from rekindle.testing.memory_store import MemoryStore
from tests.cli.kit import start
from tests.waiting import until

LOG = logging.getLogger("rekindle.test")


class Stubborn(MemoryStore):
    """A store that refuses pieces of logs, or keeps them waiting, while it is asked to."""

    refuses: BaseException | None = None
    waits: threading.Event | None = None

    def replace(self, path: str, data: bytes) -> None:
        if "/logs/" in path:
            if self.waits is not None:
                self.waits.wait(60)
            if self.refuses is not None:
                raise self.refuses
        super().replace(path, data)


@pytest.fixture
def store() -> Stubborn:
    return Stubborn()


@pytest.fixture
def job(store: Stubborn) -> JobStorage:
    storage = JobStorage(store, "bids")
    start(storage)
    return storage


@contextmanager
def logged(job: JobStorage, level: int = logging.INFO, run: int = 1, **limits: float) -> Iterator[JobLog]:
    log = JobLog(job, level, Redaction({"hunter22"}), limits=LogLimits(pause_s=0.01, **limits))
    LOG.setLevel(logging.DEBUG)
    log.start()
    log.begin(lambda: run)
    try:
        yield log
    finally:
        log.close()
        LOG.setLevel(logging.NOTSET)


def messages(job: JobStorage) -> list[str]:
    return [line.message for _, line in pieces.read(job, LogPosition())]


def test_what_is_logged_is_in_the_storage_from_its_level_on_and_without_secrets(job: JobStorage) -> None:
    with logged(job):
        LOG.debug("no")
        LOG.info("yes, %s", "hunter22")
        logging.getLogger("somebody.else").error("no")
        until(lambda: messages(job) == ["yes, ***"])
        LOG.warning("later")
    assert messages(job) == ["yes, ***", "later"]
    LOG.error("after the end")
    assert messages(job) == ["yes, ***", "later"]


def test_what_is_said_of_a_job_is_in_its_log_alone(store: Stubborn, job: JobStorage) -> None:
    other = JobStorage(store, "other")
    start(other)
    with logged(job), logged(other):
        LOG.info("of one", extra={"job": "bids"})
        LOG.info("of both")

    assert messages(job) == ["of one", "of both"]
    assert messages(other) == ["of both"]


def test_what_is_kept_is_bounded_and_the_newest(job: JobStorage) -> None:
    with logged(job, piece_bytes=2_000, pieces=5):
        for number in range(500):
            LOG.info("line %d %s", number, "x" * 100)

    assert len(pieces.pieces(job)) == 5
    assert messages(job)[-1].startswith("line 499")
    sizes = [entry.size_bytes for entry in job.store.walk("bids/logs")]
    assert max(sizes) <= 2_000
    tail = pieces.tail(job, None, 3)
    assert [line.message.split()[1] for line in tail] == ["497", "498", "499"]
    assert pieces.tail(job, 7, 3) == []


def test_each_run_has_pieces_of_its_own_and_reads_on_to_the_next(job: JobStorage) -> None:
    with logged(job):
        LOG.info("first")
    start(job)
    with logged(job, run=2):
        LOG.info("second")
    found = list(pieces.read(job, LogPosition()))

    assert [(place.piece.run, line.message) for place, line in found] == [(1, "first"), (2, "second")]
    assert [line.message for _, line in pieces.read(job, found[0][0])] == ["second"]
    assert [line.message for _, line in pieces.read(job, LogPosition(), 1)] == ["first"]


@pytest.mark.parametrize("error", [StorageError("STORAGE_FULL", uri="x", reason="x"), OSError("away"), MemoryError()])
def test_a_storage_that_refuses_gets_what_waits_when_it_is_back(
    store: Stubborn, job: JobStorage, error: BaseException
) -> None:
    store.refuses = error
    with logged(job):
        for number in range(10):
            LOG.info("line %d", number)
        threading.Event().wait(0.05)
        assert messages(job) == []
        store.refuses = None
        until(lambda: len(messages(job)) == 10)
    assert messages(job) == [f"line {number}" for number in range(10)]


def test_of_what_a_storage_does_not_take_the_oldest_is_dropped_and_counted(store: Stubborn, job: JobStorage) -> None:
    store.waits = threading.Event()
    with logged(job, waiting_bytes=5_000, leave_s=60):
        for number in range(1_000):
            LOG.info("line %d", number)
        store.waits.set()
    found = messages(job)

    assert found[-1] == "line 999"
    assert len(found) < 200
    assert any("lines were dropped" in message for message in found)


def test_a_storage_that_hangs_holds_up_neither_who_logs_nor_the_end(store: Stubborn, job: JobStorage) -> None:
    store.waits = threading.Event()
    with logged(job, leave_s=0.05):
        for number in range(1_000):
            LOG.info("line %d", number)
    # It came this far, with the store still hanging.
    assert not store.waits.is_set()
    assert messages(job) == []
    store.waits.set()


def test_nothing_is_written_for_a_job_that_was_deleted(job: JobStorage) -> None:
    with logged(job):
        LOG.info("before")
        until(lambda: messages(job) == ["before"])
        job.store.delete_tree("bids")
        LOG.info("after")

    assert list(job.store.walk("bids")) == []


def test_a_start_that_fails_leaves_no_handler_and_an_error_ends_the_log(job: JobStorage) -> None:
    before = logging.getLogger("rekindle").handlers[:]
    with (
        suppress(StorageError),
        job_log(job, Config(), {"spark.my.password": "hunter22"}, lambda: None) as log,
    ):
        log.begin(lambda: 1)
        raise StorageError("STORAGE_FULL", uri="hunter22", reason="x")

    assert logging.getLogger("rekindle").handlers == before
    assert "STORAGE_FULL" in messages(job)[-1]
    assert "hunter22" not in str(list(pieces.read(job, LogPosition())))


def take_away_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pytest's own, which it adds as a test begins."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])


def test_a_warning_is_still_seen_where_nothing_else_listens(
    job: JobStorage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    take_away_handlers(monkeypatch)
    with logged(job), logged(job):
        LOG.warning("careful, password=hunter22")
        LOG.info("hush")

    said = capsys.readouterr().err
    assert said.count("careful") == 1
    assert "hunter22" not in said


@pytest.mark.parametrize(("starting", "times"), [(True, 0), (False, 1)])
def test_an_error_that_a_start_raises_is_not_printed_too(
    job: JobStorage,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    starting: bool,
    times: int,
) -> None:
    take_away_handlers(monkeypatch)
    with suppress(StorageError), job_log(job, Config(), {}, lambda: None) as log:
        start(job)
        log.begin(lambda: 1)
        log.starting = starting
        raise StorageError("STORAGE_FULL", uri="x", reason="y")

    assert capsys.readouterr().err.count("STORAGE_FULL") == times, "those who only hold the handle see it"
    assert "The driver has ended: [STORAGE_FULL]" in messages(job)[-1]


def test_a_piece_that_is_damaged_loses_its_damaged_lines_alone(job: JobStorage) -> None:
    with logged(job):
        LOG.info("good")
    path = "bids/logs/000001-000001.jsonl"
    job.store.replace(path, b"{not json\n" + job.store.read(path) + b'{"half')

    assert messages(job) == ["good"]
