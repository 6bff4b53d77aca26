"""forget and dispose: what they delete, what they leave, and when they refuse."""

from __future__ import annotations

import io
import itertools
import json
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rekindle.cli.verbs import rekindle
from rekindle.errors import RestoreError, StorageError
from rekindle.storage import layout
from rekindle.storage.disposal import Disposal, mark_shadow
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.runs import JobDescription, SinkDescription
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore
from rekindle.storage.origin import find_origin
from tests.cli.kit import GONE, Command, beat, complete, end, start


def test_forget_deletes_a_job_that_does_not_run_and_nothing_else(command: Command, job: JobStorage) -> None:
    start(job)
    complete(job, 1)
    other = JobStorage(job.store, "clicks")
    start(other)
    assert command.error("forget", "bids") == "JOB_RUNNING"
    end(job, "STOPPED")

    assert command.error("forget", "bids", code=2) == "CONFIRMATION_MISSING"
    assert job.identity() is not None
    assert command.json("forget", "bids", "--yes") == {"job": "bids", "checkpoint": None}

    assert [row["job"] for row in command.json("list")] == ["clicks"]
    assert not Path(command.storage, "bids").exists()


@pytest.mark.parametrize(
    ("kind", "state", "said"),
    [("Postgres", "CANCELED", True), ("Postgres", "STOPPED", False), ("Parquet", "FAILED", False)],
)
def test_forget_says_that_a_run_that_was_cut_short_may_have_left_prepared_rows(
    command: Command, job: JobStorage, kind: str, state: str, said: bool
) -> None:
    start(job, description=JobDescription(sinks=(SinkDescription(uid="out", task="count", kind=kind),)))
    end(job, state)
    assert ("rekindle docs postgres#the-server" in command("forget", "bids", "--yes").stdout) == said


def test_a_job_that_was_killed_on_another_machine_can_be_deleted(
    command: Command, job: JobStorage, impatient: None
) -> None:
    start(job, host="elsewhere")
    beat(job, host="elsewhere")
    assert job.state() == "RUNNING", "one look cannot tell"

    assert command.json("forget", "bids", "--yes") == {"job": "bids", "checkpoint": None}


def test_a_job_that_runs_on_another_machine_is_not_deleted(command: Command, job: JobStorage) -> None:
    start(job, host="elsewhere")
    over = threading.Event()

    def drives() -> None:
        for number in itertools.count(1):
            beat(job, host="elsewhere", beat=number)
            if over.wait(0.1):
                return

    driver = threading.Thread(target=drives)
    driver.start()
    try:
        assert command.error("forget", "bids", "--yes") == "JOB_RUNNING"
    finally:
        over.set()
        driver.join()


def test_forget_deletes_an_old_checkpoint_but_not_the_one_to_resume_from(command: Command, job: JobStorage) -> None:
    start(job)
    complete(job, 1)
    complete(job, 2)
    assert command.error("forget", "bids", "1") == "JOB_RUNNING"
    end(job, "STOPPED")

    assert command.error("forget", "bids", "2") == "CHECKPOINT_NEWEST"
    job.create(layout.lineage("bids", 1), Lineage(lineage=1, run=1, created_ms=0))
    assert command.error("forget", "bids", "2") == "CHECKPOINT_IN_USE"
    assert command.error("forget", "bids", "3") == "CHECKPOINT_UNKNOWN"
    assert command("forget", "bids", "3").stderr.endswith(
        f"next: See: rekindle checkpoints --storage {command.storage} bids\n"
    )
    assert command.json("forget", "bids", "1", "--yes") == {"job": "bids", "checkpoint": 1}
    assert [manifest.checkpoint for manifest in job.manifests()] == [2]


def test_forget_leaves_the_checkpoint_that_a_killed_restore_is_repeated_from(command: Command, job: JobStorage) -> None:
    start(job)
    for number in (1, 2, 3):
        complete(job, number)
    job.create(layout.lineage("bids", 1), Lineage(lineage=1, run=1, created_ms=0))
    end(job, "STOPPED")
    start(job, run=2, lineage=2, restore_from=f"{command.storage}/{layout.checkpoint('bids', 1)}", **GONE)

    assert command.error("forget", "bids", "1", "--yes") == "CHECKPOINT_IN_USE"
    assert command.json("forget", "bids", "2", "--yes") == {"job": "bids", "checkpoint": 2}
    job.create(layout.lineage("bids", 2), Lineage(lineage=2, run=2, created_ms=0))
    assert command.json("forget", "bids", "1", "--yes") == {"job": "bids", "checkpoint": 1}


def test_after_a_restore_the_newest_checkpoint_of_the_lineage_before_is_kept_until_the_new_one_has_its_own(
    command: Command, job: JobStorage
) -> None:
    start(job)
    complete(job, 1)
    complete(job, 2)
    job.create(layout.lineage("bids", 1), Lineage(lineage=1, run=1, created_ms=0))
    job.create(layout.lineage("bids", 2), Lineage(lineage=2, run=1, created_ms=0))
    end(job, "STOPPED")

    assert command.error("forget", "bids", "2", "--yes") == "CHECKPOINT_NEWEST", "what it names may be uncommitted"
    assert command.json("forget", "bids", "1", "--yes") == {"job": "bids", "checkpoint": 1}

    job.use_up(3, 1)
    assert command.error("forget", "bids", "2", "--yes") == "CHECKPOINT_NEWEST", "a number without one counts for none"
    complete(job, 4, lineage=2)
    assert command.json("forget", "bids", "2", "--yes") == {"job": "bids", "checkpoint": 2}


class Answer(io.BytesIO):
    """An answer that is typed after something else has happened."""

    def __init__(self, answer: bytes, before: Callable[[], object]) -> None:
        super().__init__(answer)
        self._before = before

    def read1(self, size: int | None = -1) -> bytes:
        self._before()
        return super().read1(size)


def test_on_a_terminal_forget_asks_first_and_looks_again(
    command: Command, job: JobStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(job)
    complete(job, 1)
    complete(job, 2)
    job.create(layout.lineage("bids", 1), Lineage(lineage=1, run=1, created_ms=0))
    end(job, "STOPPED")
    path = f"{command.storage}/{layout.checkpoint('bids', 1)}"
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda self: True, raising=False)

    restored = Answer(b"y\n", lambda: start(job, run=2, lineage=2, restore_from=path, **GONE))
    assert "CHECKPOINT_IN_USE" in command("forget", "bids", "1", input=restored).stderr
    assert command("forget", "bids", input="n\n").exit_code == 130
    assert job.identity() is not None
    assert command("forget", "bids", input="y\n").exit_code == 0
    assert job.identity() is None


def test_on_a_terminal_forget_does_not_ask_with_yes(
    command: Command, job: JobStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(job)
    end(job, "STOPPED")
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda self: True, raising=False)

    assert command("forget", "bids", "--yes", input="n\n").exit_code == 0
    assert job.identity() is None


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    """A savepoint of one task, beside another one."""
    for name in ("bids-7", "bids-8"):
        job = JobStorage(LocalStore(str(tmp_path / "made")), "bids")
        manifest = complete(job, int(name[-1]), savepoint=True)
        folder = tmp_path / "saves" / name
        (folder / "tasks/hourly/0/spark/state").mkdir(parents=True)
        (folder / "tasks/hourly/0/spark/state/1.delta").write_text("1")
        made = tmp_path / "made" / layout.manifest(layout.checkpoint("bids", manifest.checkpoint))
        (folder / "manifest.json").write_bytes(made.read_bytes())
    return tmp_path / "saves/bids-7"


def run(*arguments: str) -> Any:
    return CliRunner().invoke(rekindle, ["dispose", *arguments])


def test_dispose_deletes_the_savepoint_that_it_names_and_no_other(savepoint: Path) -> None:
    result = run(f"{savepoint}/", "--yes", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"path": str(savepoint)})
    assert [path.name for path in savepoint.parent.iterdir()] == ["bids-8"]


def test_dispose_asks_and_takes_nothing_that_is_no_savepoint(savepoint: Path, tmp_path: Path) -> None:
    assert "CONFIRMATION_MISSING" in run(str(savepoint)).stderr
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/a.jpg").write_text("a")
    assert "CHECKPOINT_UNKNOWN" in run(str(tmp_path / "photos"), "--yes").stderr
    assert "CHECKPOINT_UNKNOWN" in run(str(savepoint.parent), "--yes").stderr
    complete(JobStorage(LocalStore(str(tmp_path / "storage")), "bids"), 3)
    checkpoint = tmp_path / "storage/bids/checkpoints/000000003"
    assert "SAVEPOINT_EXPECTED" in run(str(checkpoint), "--yes").stderr
    assert savepoint.exists() and checkpoint.exists() and (tmp_path / "photos/a.jpg").exists()


@pytest.fixture
def shadow(tmp_path: Path) -> JobStorage:
    """A shadow of a job, beside another one: its storage, and rows."""
    for name in ("bids-7", "bids-8"):
        folder = tmp_path / "shadows" / name
        mark_shadow(str(folder), "bids")
        (folder / "rows/out").mkdir(parents=True)
        (folder / "rows/out/1.parquet").write_text("1")
    made = JobStorage(LocalStore(str(tmp_path / "shadows/bids-7/state")), "bids")
    start(made)
    return made


def test_dispose_deletes_a_shadow_that_does_not_run_and_no_other(shadow: JobStorage, tmp_path: Path) -> None:
    folder = tmp_path / "shadows/bids-7"
    assert "JOB_RUNNING" in run(str(folder), "--yes").stderr
    end(shadow, "STOPPED")
    assert "CONFIRMATION_MISSING" in run(str(folder)).stderr
    result = run(str(folder), "--yes")
    assert (result.exit_code, result.stdout) == (0, f"Deleted the shadow of 'bids' in {folder}.\n")
    assert [path.name for path in folder.parent.iterdir()] == ["bids-8"]


def test_a_file_of_that_name_makes_no_shadow_of_a_folder(tmp_path: Path) -> None:
    for number, content in enumerate(("{}", "[1]", "no json", '{"kind": "drop", "job": "bids"}')):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "shadow.json").write_text(content)
        assert "CHECKPOINT_UNKNOWN" in run(str(folder), "--yes").stderr
        assert folder.exists()


class Dying(LocalStore):
    """A store whose process dies at one of its writes, counted from 0."""

    def __init__(self, root: str, nth: int, after: bool) -> None:
        super().__init__(root)
        self._left = nth
        self._after = after

    def _write(self, write: Callable[[], Any]) -> Any:
        self._left -= 1
        if self._left >= 0:
            return write()
        if self._after:
            write()
        raise OSError("killed")

    def create(self, path: str, data: bytes) -> bool:
        return self._write(lambda: super(Dying, self).create(path, data))

    def delete(self, path: str) -> None:
        self._write(lambda: super(Dying, self).delete(path))

    def delete_trees(self, folder: str, names: Collection[str]) -> None:
        self._write(lambda: LocalStore(self.location).delete_trees(folder, names))

    def delete_tree(self, folder: str) -> None:
        self._write(lambda: super(Dying, self).delete_tree(folder))


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("nth", range(4))
def test_a_disposal_that_is_cut_short_leaves_no_part_to_restore_and_is_finished_by_the_next(
    savepoint: Path, shadow: JobStorage, tmp_path: Path, nth: int, after: bool
) -> None:
    shadow_folder = tmp_path / "shadows/bids-7"
    for folder, writes in ((savepoint, 4), (shadow_folder, 2)):
        with pytest.raises(OSError, match="killed"):
            Disposal(str(folder), lambda root, writes=writes: Dying(root, nth % writes, after)).run()

    if shadow_folder.exists():
        Disposal(str(shadow_folder)).run()
    assert not shadow_folder.exists()
    if (savepoint / "manifest.json").exists():
        assert (savepoint / "tasks/hourly/0/spark/state/1.delta").exists(), "it may be restored, so it is whole"
    else:
        with pytest.raises(RestoreError, match="CHECKPOINT_UNKNOWN"):
            find_origin(str(savepoint))
    if savepoint.exists():
        Disposal(str(savepoint)).run()
    assert not savepoint.exists()


class Full(LocalStore):
    """A store on a disk without room."""

    def create(self, path: str, data: bytes) -> bool:
        raise StorageError("STORAGE_FULL", uri=self.location, reason=path)


def test_a_savepoint_on_a_full_disk_can_be_deleted(savepoint: Path) -> None:
    Disposal(str(savepoint), Full).run()
    assert not savepoint.exists()
