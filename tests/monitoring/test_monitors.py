"""Several storages that are watched, and what is read of them before the first question."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

import pytest

from rekindle.errors import StorageError
from rekindle.monitoring import patience
from rekindle.monitoring.monitor import Monitor
from rekindle.monitoring.monitors import Monitors
from rekindle.monitoring.patience import PatientStore, PatientStores
from rekindle.storage.local import LocalStore
from rekindle.storage.port import NotFound
from tests.ui.kit import Counting
from tests.ui.world import World


class Away(LocalStore):
    """A store that does not answer until it is there."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.is_there = threading.Event()
        self.asked = threading.Event()

    def names(self, path: str) -> list[str]:
        """Return the names, or refuse."""
        self.asked.set()
        self.is_there.wait()
        raise StorageError("STORAGE_UNAVAILABLE", uri=self.location, reason="away")


def test_what_was_read_before_the_first_question_is_not_read_for_it(tmp_path: Path) -> None:
    World(str(tmp_path)).many(3)
    store = Counting(str(tmp_path))
    monitors = Monitors([store])
    monitors.all = [Monitor(store, elapsed_ms=lambda: 0)]

    monitors.warm_up(60)
    read = [*store.was_read]

    assert [line.state for line in monitors.overview()] == ["RUNNING"] * 3
    assert len([path for path in read if path.endswith("/status.json")]) == 3
    assert store.was_read == read


def test_a_storage_that_is_away_holds_up_no_start_and_says_so_when_it_is_asked(tmp_path: Path) -> None:
    World(str(tmp_path / "well")).many(1)
    away, well = Away(str(tmp_path)), LocalStore(str(tmp_path / "well"))
    monitors = Monitors([away, well])
    others = {*threading.enumerate()}

    monitors.warm_up(0)

    reading = {*threading.enumerate()} - others
    assert away.asked.wait(60) and reading, "it is read on beside what follows"
    assert [line.job for line in monitors.all[1].overview()] == ["job-000"]
    away.is_there.set()
    for thread in reading:
        thread.join(60)
    assert [line.id for line in monitors.overview()] == ["1~job-000"], "it hides no job of another"
    said, other = monitors.storages()
    assert (said.jobs, said.error and said.error.code) == (None, "STORAGE_UNAVAILABLE")
    assert (other.jobs, other.error) == (1, None)


def test_storages_of_which_none_can_be_read_are_no_empty_list(tmp_path: Path) -> None:
    monitors = Monitors([LocalStore(str(tmp_path / "nothing")), LocalStore(str(tmp_path / "unmounted"))])

    with pytest.raises(StorageError, match="STORAGE_MISSING"):
        monitors.overview()
    (tmp_path / "nothing").mkdir()
    assert monitors.overview() == []


class Hangs(LocalStore):
    """A store whose answers take until they may come; then it refuses, or answers."""

    def __init__(self, location: str, *, refuses: bool) -> None:
        super().__init__(location)
        self.may_answer = threading.Event()
        self.refuses = refuses
        self.calls = 0
        self.asked = threading.Semaphore(0)

    def read(self, path: str) -> bytes:
        """Return the bytes, or refuse, in the end; of other jobs at once."""
        if path.startswith("other/"):
            return super().read(path)
        self.calls += 1
        self.asked.release()
        self.may_answer.wait()
        if self.refuses:
            raise StorageError("STORAGE_UNAVAILABLE", uri=self.location, reason="timed out")
        return super().read(path)


def later(store: PatientStore, path: str = "a") -> threading.Thread:
    """Ask in a thread of its own."""

    def ask() -> None:
        with suppress(StorageError, NotFound):
            store.read(path)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    return thread


def test_a_storage_that_hangs_holds_up_few_and_answers_again_when_it_is_back(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    within, now = Hangs(str(tmp_path), refuses=False), [0.0]
    store = PatientStore(within, elapsed_s=lambda: now[0])
    waiting = [later(store)]
    within.asked.acquire()

    now[0] = patience.SLOW_S + 1
    half = patience.MOST // 2
    waiting += [later(store) for _ in range(half - 1)]
    for _ in waiting[1:]:
        within.asked.acquire()
    with pytest.raises(StorageError, match="has not answered for 3 s"):
        store.read("a")  # as many wait as may about one job
    waiting += [later(store, f"{number}/a") for number in range(half)]
    for _ in waiting[half:]:
        within.asked.acquire()
    with pytest.raises(StorageError, match="has not answered for 3 s"):
        store.names("")  # as many wait as may
    now[0] = patience.PATIENCE_S + 1
    with pytest.raises(StorageError, match="has not answered for 11 s"):
        store.exists("a")
    assert within.calls == patience.MOST

    within.may_answer.set()
    for thread in waiting:
        thread.join(60)
    assert store.read("a") == b"1"


def test_of_many_places_the_first_ones_are_remembered(tmp_path: Path) -> None:
    stores = PatientStores(most=2)
    first = [stores(str(tmp_path / name)) for name in ("storage", "checkpoint 1", "checkpoint 2")]
    again = [stores(str(tmp_path / name)) for name in ("storage", "checkpoint 1", "checkpoint 2")]
    assert [one is other for one, other in zip(first, again, strict=True)] == [True, True, False]


def test_a_storage_that_says_late_that_it_is_away_is_asked_again_only_after_a_while(tmp_path: Path) -> None:
    within, now = Hangs(str(tmp_path), refuses=True), [0.0]
    store = PatientStore(within, elapsed_s=lambda: now[0])
    waiting = later(store)
    within.asked.acquire()
    now[0] = patience.SLOW_S + 1
    within.may_answer.set()
    waiting.join(60)

    with pytest.raises(StorageError, match="timed out"):
        store.read("a")
    assert within.calls == 1
    now[0] += patience.PATIENCE_S + 1
    within.refuses = False
    (tmp_path / "a").write_bytes(b"1")
    assert store.read("a") == b"1"


def test_now_and_then_a_call_about_another_job_finds_out_whether_it_is_the_storage_that_hangs(tmp_path: Path) -> None:
    within, now = Hangs(str(tmp_path), refuses=False), [0.0]
    store = PatientStore(within, elapsed_s=lambda: now[0])
    later(store)
    within.asked.acquire()  # nothing was answered since it began

    now[0] = patience.PATIENCE_S + 1
    for _ in range(3):
        with pytest.raises(NotFound):
            store.read("other/status.json")

    now[0] += 60
    probe = later(store, "third/a")
    within.asked.acquire()  # it hangs, too, and began after the last answer
    now[0] += patience.PATIENCE_S + 1
    with pytest.raises(NotFound):
        store.read("other/status.json")
    within.may_answer.set()
    probe.join(60)


@pytest.mark.parametrize("refuses", [True, False])
def test_a_job_whose_documents_hang_does_not_take_the_others_with_it(tmp_path: Path, refuses: bool) -> None:
    within, now = Hangs(str(tmp_path), refuses=refuses), [0.0]
    store = PatientStore(within, elapsed_s=lambda: now[0])
    waiting = [later(store)]
    within.asked.acquire()
    now[0] = 1.0
    with pytest.raises(NotFound):  # which is an answer, too
        store.read("other/status.json")

    now[0] = patience.PATIENCE_S + 1
    if refuses:
        within.may_answer.set()
        waiting[0].join(60)
    with pytest.raises(StorageError, match="timed out" if refuses else "has not answered for 11 s"):
        store.read("a")
    with pytest.raises(NotFound):
        store.read("other/status.json")
    within.may_answer.set()
