"""The documentation on the command line: its pages, their sections, and those that errors name."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rekindle.cli.manual import _section
from rekindle.cli.verbs import rekindle
from rekindle.errors.conditions import CONDITIONS
from rekindle.sources import split_source

DOCS = Path(__file__).parents[2] / "docs"
NEXT_STEPS = " ".join(condition.next_step for condition in CONDITIONS.values())
NAMED = sorted(set(re.findall(r"rekindle docs ([a-z][\w#-]*)", NEXT_STEPS + inspect.getsource(split_source))))


def shown(*words: str) -> Result:
    return CliRunner().invoke(rekindle, ["docs", *words])


def test_each_page_is_listed_with_its_title() -> None:
    listed = json.loads(shown("--json").stdout)

    assert [one["page"] for one in listed] == sorted({path.stem for path in DOCS.glob("*.md")} - {"api"})
    assert {"page": "state", "title": "Edit the state"} in listed
    lines = shown().stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["page", *(one["page"] for one in listed)]


@pytest.mark.parametrize("name", ["state", "state.md", "docs/state.md"])
def test_a_page_is_shown_as_it_is_in_a_pipe(name: str) -> None:
    assert shown(name).stdout == (DOCS / "state.md").read_text(encoding="utf-8")


def test_a_section_is_shown_with_those_below_it_and_no_further() -> None:
    lines = shown("object-storage#azure-and-google").stdout.splitlines()

    assert lines[0] == "## Azure and Google"
    assert not [line for line in lines[1:] if re.match("#{1,2} ", line)]


def test_a_comment_in_code_is_no_heading() -> None:
    section = "## A\n```sh\n# a comment\n```\nthe end"
    assert _section("page", f"# Title\n{section}\n## B\nmore", "a") == section


@pytest.mark.parametrize("place", NAMED)
def test_what_an_error_names_is_there(place: str) -> None:
    assert shown(place).exit_code == 0, place


def test_errors_name_pages_and_no_files_of_the_repository() -> None:
    assert len(NAMED) > 5
    assert "docs/" not in NEXT_STEPS


@pytest.mark.parametrize(
    ("place", "code", "words"),
    [
        ("sinkz", "PAGE_UNKNOWN", "no page 'sinkz'"),
        ("kafak", "PAGE_UNKNOWN", "Did you mean 'kafka'?"),
        ("../README", "PAGE_UNKNOWN", "no page '../README'"),
        ("kafka#nothing", "SECTION_UNKNOWN", "no section 'nothing'"),
    ],
)
def test_what_is_not_there_is_a_wrong_command_line(place: str, code: str, words: str) -> None:
    done = shown(place, "--json")

    error = json.loads(done.stdout)["error"]
    assert (done.exit_code, error["code"]) == (2, code)
    assert words in error["message"]
