"""The command as a whole: verbs, help, version, suggestions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from rekindle.cli.verbs import rekindle

OF_JOBS = [
    "run",
    "shadow",
    "list",
    "status",
    "checkpoints",
    "inspect",
    "state",
    "savepoints",
    "runs",
    "events",
    "logs",
    "ui",
    "checkpoint",
    "savepoint",
    "stop",
    "cancel",
    "answer",
    "forget",
]
VERBS = ["example", "check", *OF_JOBS, "dispose", "storage", "flush", "adopt", "warm-up", "docs"]


NO_JOBS = ("example", "dispose", "flush", "warm-up", "docs")
"""Verbs that need no storage."""


def test_the_verbs_are_those_of_the_manual_in_its_order() -> None:
    assert list(rekindle.commands) == VERBS


def test_the_list_of_the_verbs_is_whole_on_a_narrow_terminal() -> None:
    lines = CliRunner().invoke(rekindle, ["--help"], env={"COLUMNS": "60"}).stdout.splitlines()
    listed = lines[lines.index("Commands:") + 1 :][: len(VERBS)]
    assert [line.split()[0] for line in listed] == VERBS
    assert all(line.endswith(".") and not line.endswith("...") and len(line) <= 60 for line in listed)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "storage"])
def test_each_verb_has_help_with_an_example_json_and_a_storage_where_it_is_of_a_job(verb: str) -> None:
    words = [verb, "show"] if verb == "state" else [verb]
    result = CliRunner().invoke(rekindle, [*words, "--help"])

    assert result.exit_code == 0
    assert result.stdout.partition("Example:\n")[2].split()[:2] == ["rekindle", verb]
    assert {"--json"} | ({"--storage"} if verb not in NO_JOBS else set()) <= set(result.stdout.split())


def test_the_version_is_printed() -> None:
    result = CliRunner().invoke(rekindle, ["--version"])

    assert result.exit_code == 0
    assert result.stdout.startswith("rekindle ")


@pytest.mark.parametrize(
    ("arguments", "code", "hint"),
    [
        (["stauts"], "VERB_UNKNOWN", "Did you mean 'status'?"),
        (["qqqq"], "VERB_UNKNOWN", "There is no verb 'qqqq'."),
        (["--versoin"], "OPTION_UNKNOWN", "Did you mean '--version'?"),
        (["stop", "j", "--drian"], "OPTION_UNKNOWN", "Did you mean '--drain'?"),
        (["stop", "j", "--timeout", "-1"], "COMMAND_LINE_INVALID", "--timeout"),
        (["status"], "COMMAND_LINE_INVALID", "JOB"),
        (["forget", "j", "seven"], "COMMAND_LINE_INVALID", "seven"),
        (["state", "s", "--limit", "-1"], "COMMAND_LINE_INVALID", "--limit"),
        (["state", "diff", "s", "t", "--limit", "9999999999"], "COMMAND_LINE_INVALID", "--limit"),
        (["shadow", "j", "--from", "s", "--examples", "9999999999"], "COMMAND_LINE_INVALID", "--examples"),
    ],
)
def test_a_wrong_command_line_ends_with_2_and_a_hint(arguments: list[str], code: str, hint: str) -> None:
    result = CliRunner().invoke(rekindle, arguments)

    assert result.exit_code == 2
    assert result.stderr.startswith(f"[{code}] ")
    assert hint in result.stderr
    assert "\nnext: " in result.stderr
    assert json.loads(CliRunner().invoke(rekindle, [*arguments, "--json"]).stdout)["error"]["code"] == code


@pytest.mark.parametrize("group", ["storage", "state"])
def test_without_a_verb_a_group_shows_its_help(group: str) -> None:
    result = CliRunner().invoke(rekindle, [group])
    assert result.exit_code == 0
    assert result.output.startswith(f"Usage: rekindle {group} ")


def test_without_a_verb_the_help_is_shown() -> None:
    result = CliRunner().invoke(rekindle, [])

    assert "Commands:" in result.output
    assert result.exit_code == 0


@pytest.mark.parametrize("module", ["rekindle", "rekindle.cli"])
def test_the_package_is_the_command_too_where_its_script_is_not_in_the_path(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, "no-verb"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("[VERB_UNKNOWN]"), done.stderr


@pytest.mark.parametrize("words", [["status", "bids"], ["dispose", "saves/x", "--yes"]])
def test_a_working_directory_that_was_deleted_is_said(words: list[str], tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    program = f"""
import os, sys
from rekindle.cli import main
os.rmdir({str(here)!r})
sys.argv = {["rekindle", *words, "--json"]!r}
main()
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["code"] == "WORKING_FOLDER_GONE", done


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("words", [["docs", "cli"], ["docs", "--json"], ["docs", "nothing", "--json"]])
def test_output_that_goes_to_a_full_disk_is_an_error(words: list[str]) -> None:
    program = f"import sys; from rekindle.cli import main; sys.argv = {['rekindle', *words]!r}; main()"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr.startswith("[OUTPUT_REFUSED] ") and "No space left on device" in done.stderr
    assert done.stderr.count("\n") == 2
