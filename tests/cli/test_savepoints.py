"""Savepoints that are listed, and found by their names; requests that are made now and looked at later."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from rekindle.errors import ControlError, RestoreError
from rekindle.storage import layout
from rekindle.storage.disposal import Disposal
from rekindle.storage.documents.control import Request
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore
from rekindle.storage.savepoints import default_folder, find_savepoint
from tests.cli.kit import JANUARY_MS, Command, Reply, answer, complete, end, start

Drive = Callable[[Reply], list[Request]]


def save(folder: str, name: str, number: int, **changes: object) -> str:
    """Write a savepoint without any state; returns its place."""
    away = JobStorage(LocalStore(f"{folder}/.made"), "bids")
    manifest = complete(away, number, savepoint=True, **changes)
    data = away.store.read(layout.manifest(layout.checkpoint("bids", manifest.checkpoint)))
    away.store.delete_tree("bids")
    LocalStore(folder).create(layout.manifest(name), data)
    return f"{folder}/{name}"


def test_savepoints_are_listed_with_what_they_are_of_the_newest_first(command: Command, tmp_path: Path) -> None:
    folder = default_folder(command.storage)
    save(folder, "bids-1", 1, size_bytes=2_048)
    save(folder, "bids-2", 2, finished_tasks=("hourly",))
    save(str(tmp_path / "elsewhere"), "bids-3", 3, drained=True)

    assert [one["name"] for one in command.json("savepoints")] == ["bids-2", "bids-1"]
    lines = [line.split() for line in command("savepoints").stdout.splitlines()]
    assert lines[1] == ["bids-2", "bids", "2", "2025-01-01T00:00:02Z", "0", "B", "1,", "1", "finished"]
    assert lines[2][4:] == ["2.0", "KiB", "1"]
    (elsewhere,) = command.json("savepoints", str(tmp_path / "elsewhere"))
    assert (elsewhere["path"], elsewhere["drained"]) == (str(tmp_path / "elsewhere/bids-3"), True)
    assert command.json("savepoints", "--job", "clicks") == []
    nowhere = command("savepoints", str(tmp_path / "nowhere"))
    assert (nowhere.exit_code, nowhere.stdout) == (0, "")
    assert nowhere.stderr == f"No savepoints in {tmp_path / 'nowhere'}.\nnext: There is no such folder.\n"


def test_an_empty_list_does_not_deny_the_savepoints_of_other_jobs_or_a_misspelt_storage(
    command: Command, tmp_path: Path
) -> None:
    folder = default_folder(command.storage)
    save(folder, "bids-1", 1)
    assert command("savepoints", "--job", "clicks").stderr == f"No savepoints of clicks in {folder}.\n"
    misspelt = Command(str(tmp_path / "sate"))
    assert misspelt.error("savepoints") == "STORAGE_MISSING" == misspelt.error("list")


def test_a_list_leaves_out_what_is_none_and_says_what_is_wrong_with_one(command: Command) -> None:
    folder = default_folder(command.storage)
    save(folder, "bids-1", 1)
    Path(save(folder, "bids-2", 2), "manifest.json").write_text("{")
    LocalStore(folder).create(layout.disposed("bids-3"), b"{}")
    Path(folder, "photos").mkdir()
    Path(folder, "notes.txt").write_text("none")
    complete(JobStorage(LocalStore(folder), "a-checkpoint"), 7)

    found = {one["name"]: one["fault"] for one in command.json("savepoints")}
    assert [*found] == ["bids-1", "bids-2", "bids-3"]
    assert found["bids-1"] is None
    assert "manifest.json" in found["bids-2"]
    assert found["bids-3"] == "its deletion has begun"


def test_a_savepoint_in_the_storage_is_found_by_its_name(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stored = save(default_folder(command.storage), "bids-1", 1)
    assert find_savepoint("bids-1", command.storage) == stored
    assert find_savepoint("_savepoints/bids-1/manifest.json", command.storage) == stored
    assert command.json("inspect", "bids-1")["path"] == stored
    beside = save(str(tmp_path), "bids-1", 1)
    assert find_savepoint("bids-1", command.storage) == beside
    assert find_savepoint(stored, "/elsewhere") == stored
    assert find_savepoint("bids-9", command.storage) == str(tmp_path / "bids-9")
    monkeypatch.chdir(beside)
    assert find_savepoint("/", command.storage) == "/"
    monkeypatch.chdir(tmp_path)

    assert command.json("dispose", f"_savepoints/{Path(stored).name}", "--yes") == {"path": stored}
    assert Path(beside).exists()


def test_a_disposal_that_was_cut_short_is_finished_by_name_too(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    stored = save(default_folder(command.storage), "bids-1", 1)

    class CutShort(LocalStore):
        def delete_trees(self, folder: str, names: Collection[str]) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Disposal(stored, CutShort).run()
    assert Path(stored).exists()
    assert command.json("dispose", "bids-1", "--yes") == {"path": stored}
    assert not Path(stored).exists()


@pytest.mark.parametrize("verb", [("checkpoint",), ("savepoint",), ("stop",), ("stop", "--drain")])
def test_a_request_that_was_left_is_looked_at_later_and_more_than_once(
    command: Command, job: JobStorage, drive: Drive, verb: tuple[str, ...]
) -> None:
    start(job)
    may_answer = threading.Event()

    def reply(request: Request) -> object:
        may_answer.wait(60)
        return answer(request, checkpoint=8)

    drive(reply)  # type: ignore[arg-type]
    asked = command.json(*verb, "bids", "--detached")
    assert asked["job"] == "bids"

    assert command.error("answer", "bids", asked["request"], "--timeout", "0") == "REQUEST_TIMED_OUT"
    may_answer.set()
    for _ in range(2):
        assert command.json("answer", "bids", asked["request"])["checkpoint"] == 8


def test_an_answer_says_what_the_driver_refused_and_that_a_request_is_not_known(
    command: Command, job: JobStorage, drive: Drive
) -> None:
    start(job)
    error = ControlError("STOP_REFUSED", job="bids", state="STOPPING").to_json()
    typed = f"Wait for it: rekindle status --storage {command.storage} bids"
    drive(lambda request: answer(request, "STOPPING", error=error))
    request = command("stop", "bids", "--detached").stdout.strip()

    assert command.json("answer", "bids", request, code=1) == {"error": {**error, "next_step": typed}}
    assert command.error("answer", "bids", f"{JANUARY_MS}-00000000") == "REQUEST_NOT_FOUND"
    for no_request in ("../../secret", "", "a/b"):
        assert command.error("answer", "bids", no_request) == "REQUEST_NOT_FOUND"


def test_a_request_to_a_driver_that_has_ended_meanwhile_is_answered_by_how_it_ended(
    command: Command, job: JobStorage
) -> None:
    start(job)
    request = command("stop", "bids", "--detached").stdout.strip()
    end(job, "STOPPED")
    assert command.json("answer", "bids", request)["state"] == "STOPPED"


def test_a_start_from_a_name_that_nothing_has_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(RestoreError, match="CHECKPOINT_UNKNOWN"):
        Disposal(find_savepoint(str(tmp_path / "bids-9"), str(tmp_path)))


def test_what_is_no_savepoint_says_how_to_list_what_may_be_meant(
    command: Command, job: JobStorage, tmp_path: Path
) -> None:
    save(str(tmp_path / "saves"), "bids-1", 1)
    complete(job, 1)
    here = f"--storage {command.storage}"
    places = {
        str(tmp_path / "saves"): f"rekindle savepoints {tmp_path / 'saves'}",
        f"{command.storage}/{layout.checkpoint('bids', 7)}": f"rekindle checkpoints {here} bids",
        str(tmp_path / "nowhere"): f"rekindle savepoints {here}, or: rekindle checkpoints {here} JOB",
    }
    for place, listed in places.items():
        assert command("inspect", place).stderr.splitlines()[1] == f"next: See: {listed}"


def test_a_job_that_is_taken_for_a_folder_of_savepoints_is_hinted_at(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = command("savepoints", "hourly_bids").stderr
    assert said.endswith("next: There is no such folder. Of a job: rekindle savepoints --job hourly_bids\n")
    (tmp_path / "empty").mkdir()
    assert "--job" not in command("savepoints", "empty").stderr


def test_savepoints_on_a_narrow_terminal_have_a_line_for_each_value(command: Command) -> None:
    save(default_folder(command.storage), "bids-1", 1)
    lines = command("savepoints", env={"COLUMNS": "60"}).stdout.splitlines()
    assert lines[:2] == ["row 1", "  savepoint   bids-1"]
