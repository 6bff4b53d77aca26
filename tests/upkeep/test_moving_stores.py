"""A job goes from one real store to another and back: directories, buckets, HDFS, memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rekindle.storage import layout
from rekindle.storage.forcing import force_of
from rekindle.storage.job_storage import jobs
from rekindle.storage.local import LocalStore
from rekindle.storage.open import open_store
from rekindle.storage.port import Store
from rekindle.testing.memory_store import MemoryStore
from rekindle.upkeep.check import check_storage
from rekindle.upkeep.moving import copy_job
from tests.servers.places import ELSEWHERE, place_on
from tests.upkeep.kit import JOB, Elsewhere, Stored, Watched, dying_at, files_of

Make = Callable[[], Store]

PLACES = [
    "a directory",
    "memory",
    "s3",
    *(pytest.param(cloud, marks=pytest.mark.slow) for cloud in ELSEWHERE if cloud != "s3"),
]


@pytest.fixture
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    made: dict[str, Make] = {
        "a directory": lambda: LocalStore(str(tmp_path / "state of jobs"), force_of),
        "memory": Elsewhere,
    }
    return made.get(request.param) or (lambda: open_store(f"{place_on(request.param, request)}/state of jobs"))


@pytest.mark.parametrize("make", PLACES, indirect=True)
def test_a_job_goes_there_and_back(make: Make) -> None:
    here, there, back = Stored(4).store, make(), MemoryStore()
    before = files_of(here)
    copy_job(here, JOB, there, 0)
    assert jobs(there) == [JOB]
    assert check_storage(there).whole and check_storage(there).every_orphan == check_storage(here).every_orphan
    copy_job(there, JOB, back, 0)
    assert files_of(back) == {path: data for path, data in before.items() if path != layout.reserve(JOB)}


@pytest.mark.parametrize("number", [1, 2, 20, 60])
@pytest.mark.parametrize("make", PLACES, indirect=True)
def test_a_copy_that_was_cut_off_there_is_finished_by_the_next_command(make: Make, number: int) -> None:
    here, there, whole = Stored(5).store, make(), MemoryStore()
    with pytest.raises(Exception, match="the process is dead"):
        copy_job(here, JOB, Watched(there, before=dying_at(number)), 0)
    assert jobs(there) == []
    copied = copy_job(here, JOB, there, 0)
    assert copied.found or number < 20, "what was copied is left as it is"
    copy_job(there, JOB, whole, 0)
    assert files_of(whole).keys() == {path for path in files_of(here) if path != layout.reserve(JOB)}
    assert check_storage(there).whole


def test_checksums_that_hadoop_has_left_do_not_come_along(tmp_path: Path) -> None:
    here = LocalStore(str(tmp_path / "here"))
    for path, data in files_of(Stored(5).store).items():
        here.create(path, data)
    path = next(entry.path for entry in here.walk(JOB) if "/spark/offsets/" in entry.path)
    folder, _, name = path.rpartition("/")
    (tmp_path / "here" / folder / f".{name}.crc").write_bytes(b"crc")
    copy_job(here, JOB, LocalStore(str(tmp_path / "there")), 0)
    assert not [*(tmp_path / "there").rglob(".*.crc")]

    bucket = Elsewhere()
    copy_job(here, JOB, bucket, 0)
    bucket.create(f"{folder}/.{name}.crc", b"crc")
    copy_job(bucket, JOB, LocalStore(str(tmp_path / "back")), 0)
    assert not [*(tmp_path / "back").rglob(".*.crc")]
