"""`rekindle storage check`: what it prints, its exit codes, and when it refuses to delete."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rekindle.storage import layout
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.job_storage import JobStorage
from tests.cli.kit import Command, beat, end, start


@pytest.fixture
def checked(command: Command, job: JobStorage) -> Command:
    """A job that was stopped before its first batch."""
    start(job)
    job.create(layout.lineage("bids", 1), Lineage(lineage=1, run=1, created_ms=0))
    end(job, "STOPPED")
    return command


def check(command: Command, *arguments: str, code: int) -> str:
    result = command.plain("storage", "check", command.storage, *arguments)
    assert result.exit_code == code, result.output
    return result.output


def test_a_storage_that_is_whole_is_said_to_be(checked: Command) -> None:
    assert "job bids (STOPPED): 4 files" in check(checked, code=0)
    assert "whole" in check(checked, "--job", "bids", code=0)
    found = checked.plain_json("storage", "check", checked.storage)
    assert (found["whole"], found["jobs"][0]["faults"], found["removed"]) == (True, [], 0)


def test_the_folder_of_a_job_is_checked_as_that_job(checked: Command, job: JobStorage) -> None:
    job.store.replace(layout.result("bids", 1), b"")
    checked.storage += "/bids"
    assert "1 fault\n" in check(checked, code=1)


def test_a_damaged_document_is_a_fault_and_the_exit_code_is_1(checked: Command, job: JobStorage) -> None:
    job.store.replace(layout.result("bids", 1), b"")
    said = check(checked, code=1)
    assert "1 fault\n" in said and "UNREADABLE" in said and "[OBJECT_CORRUPT]" in said and "000001.result.json" in said
    found = checked.plain_json("storage", "check", checked.storage, code=1)
    assert not found["whole"]
    assert {fault["code"] for fault in found["jobs"][0]["faults"]} == {"OBJECT_CORRUPT"}


def test_orphans_have_an_exit_code_of_their_own_until_they_are_deleted(checked: Command, job: JobStorage) -> None:
    job.store.create(
        "bids/checkpoints/000000007/committed.json", b'{"checkpoint":7,"run":1,"committed_ms":0,"format":1}'
    )
    temporary = Path(checked.storage, "bids", "runs", ".tmp-0badcafe")
    temporary.write_bytes(b"12345")
    Path(checked.storage, "bids", "runs", ".000009.json.crc").write_bytes(b"1")

    said = check(checked, code=3)
    assert "orphan bids/checkpoints/000000007" in said and "orphan bids/runs/.tmp-0badcafe  5 B" in said
    assert "orphan bids/runs/.000009.json.crc" in said
    assert "CONFIRMATION_MISSING" in check(checked, "--repair", code=2)
    assert temporary.exists()
    assert "removed bids/runs/.tmp-0badcafe" in check(checked, "--repair", "--yes", code=0)
    assert not temporary.exists() and not job.store.exists("bids/checkpoints/000000007")
    assert "orphan" not in check(checked, code=0)


def test_the_orphans_of_a_job_that_runs_are_not_deleted(command: Command, job: JobStorage) -> None:
    start(job)
    Path(command.storage, "bids", "runs", ".tmp-0badcafe").write_bytes(b"12345")
    assert "orphan" not in check(command, code=0)
    said = check(command, "--repair", "--yes", code=1)
    assert "JOB_RUNNING" in said and "rekindle stop bids" in said
    assert os.listdir(Path(command.storage, "bids", "runs")) != []


def test_the_orphans_of_a_job_that_was_killed_on_another_machine_are_deleted_once_its_driver_was_waited_for(
    command: Command, job: JobStorage, impatient: None
) -> None:
    start(job, host="elsewhere")
    job.create(layout.lineage("bids", 1), Lineage(lineage=1, run=1, created_ms=0))
    beat(job, host="elsewhere", latest_checkpoint=None)
    Path(command.storage, "bids", "runs", ".tmp-0badcafe").write_bytes(b"12345")
    assert "(RUNNING)" in check(command, code=0), "one look cannot tell"

    said = check(command, "--repair", "--yes", code=0)

    assert "(LOST)" in said and "removed bids/runs/.tmp-0badcafe" in said


def test_what_is_not_there_is_an_error(checked: Command) -> None:
    assert "STORAGE_MISSING" in check(Command(checked.storage + "-gone"), code=1)
    assert "JOB_UNKNOWN" in check(checked, "--job", "clicks", code=1)
    assert "VERB_UNKNOWN" in checked.plain("storage", "chek").output


def test_a_job_is_copied_to_another_storage(checked: Command, job: JobStorage, tmp_path: Path) -> None:
    there = Command(str(tmp_path / "there"))
    said = checked.plain("storage", "copy", checked.storage, "bids", there.storage)
    assert said.exit_code == 0, said.output
    assert f"copied bids to {there.storage}: 3 files" in said.output
    assert f"rekindle forget bids --storage {checked.storage}" in said.output
    assert [(one["job"], one["state"]) for one in there.json("list")] == [("bids", "STOPPED")]
    assert checked.json("list") != []

    again = checked.plain("storage", "copy", checked.storage, "bids", there.storage)
    assert again.exit_code == 1 and "[COPY_TARGET_TAKEN]" in again.stderr
    # Without the storage, the next step would delete the original.
    assert again.stderr.endswith(f"or: rekindle forget bids --storage {there.storage}\n")


def test_a_job_is_not_copied_onto_itself(checked: Command, job: JobStorage, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(checked.storage)
    for same in (f"{checked.storage}/", str(tmp_path / "link")):
        said = checked.plain("storage", "copy", checked.storage, "bids", same)
        assert said.exit_code == 2 and "SOURCE and TARGET are the same storage" in said.stderr
        assert "forget" not in said.output


def test_a_copy_is_reported_in_json_errors_included(checked: Command, job: JobStorage, tmp_path: Path) -> None:
    there = str(tmp_path / "there")
    assert checked.plain_json("storage", "copy", checked.storage, "bids", there) == {
        "source": checked.storage,
        "target": there,
        "job": "bids",
        "files": 3,
        "size_bytes": sum(entry.size_bytes for entry in job.store.walk("bids") if "job.json" not in entry.path),
        "found": 0,
    }
    refused = checked.plain_json("storage", "copy", checked.storage, "bids", there, code=1)
    assert refused["error"]["code"] == "COPY_TARGET_TAKEN"
    unknown = checked.plain_json("storage", "copy", checked.storage, "clicks", there, code=1)
    assert unknown["error"]["code"] == "JOB_UNKNOWN"


def test_a_job_that_runs_is_not_copied(command: Command, job: JobStorage, tmp_path: Path) -> None:
    start(job)
    said = command.plain("storage", "copy", command.storage, "bids", str(tmp_path / "there"))
    assert said.exit_code == 1 and "[JOB_RUNNING]" in said.stderr and "rekindle stop bids" in said.stderr
    assert not (tmp_path / "there").exists()
