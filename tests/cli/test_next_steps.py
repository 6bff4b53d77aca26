"""Next steps as they are typed: they find the storage of the command that has shown them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.cli import next_steps
from rekindle.cli.verbs import rekindle
from rekindle.storage.job_storage import JobStorage
from tests.cli.kit import Command, complete, end, start


@pytest.fixture(autouse=True)
def forgotten() -> None:
    next_steps.remember(None)


def test_next_steps_know_every_verb_that_takes_a_storage() -> None:
    found = {name for name, verb in rekindle.commands.items() if "storage" in {one.name for one in verb.params}}
    assert found == set(next_steps.VERBS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("See: rekindle status bids", "See: rekindle status --storage 'my state' bids"),
        ("Stop it (rekindle stop bids), then: rekindle run JOBFILE", None),
        ("See: rekindle list --storage elsewhere", "See: rekindle list --storage elsewhere"),
        ("or: rekindle forget bids --storage elsewhere", "or: rekindle forget bids --storage elsewhere"),
        ("See: rekindle docs state", "See: rekindle docs state"),
        ("rekindle storage check PATH --repair", "rekindle storage check PATH --repair"),
        ("See: rekindle savepoints /data/saves", "See: rekindle savepoints /data/saves"),
        ("and in the other storage: rekindle run JOBFILE", "and in the other storage: rekindle run JOBFILE"),
        ("rekindle run ... --conf a=b", "rekindle run --storage 'my state' ... --conf a=b"),
    ],
)
def test_its_commands_have_the_storage_unless_they_name_one(text: str, said: str | None) -> None:
    assert next_steps.next_step(text) == text

    next_steps.remember("my state")
    both = "Stop it (rekindle stop --storage 'my state' bids), then: rekindle run --storage 'my state' JOBFILE"
    assert next_steps.next_step(text) == (said or both)


def test_a_secret_in_the_address_is_not_shown() -> None:
    next_steps.remember("s3://key:hunter2@bucket/state")
    assert "hunter2" not in next_steps.next_step("See: rekindle status bids")


def test_the_next_step_of_an_error_leads_to_the_storage_of_the_command(command: Command, job: JobStorage) -> None:
    """Typed as it stands, it deleted a job of the same name in the default storage."""
    start(job)
    complete(job, 1)
    end(job, "STOPPED")
    unknown = command.json("forget", "bids", "7", code=1)
    assert unknown["error"]["next_step"] == f"See: rekindle checkpoints --storage {command.storage} bids"


def test_a_storage_of_the_environment_needs_no_option(command: Command) -> None:
    said = command.plain("forget", "bids", "7")
    assert f"rekindle list --storage {Path('rekindle-state').resolve()}\n" in said.stderr
    assert next_steps.next_step("See: rekindle status bids") == "See: rekindle status bids"
