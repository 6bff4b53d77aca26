"""What data and errors hold is text on the terminal too: it moves no cursor, and sets no title and no colour."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from click.testing import CliRunner

from rekindle.cli import output
from rekindle.cli.logs import printed
from rekindle.cli.verbs import rekindle
from tests.ui.world import World

HOSTILE = "\x1b[2J\x1b[8m\x1b]0;owned\x07\x9b31m\N{RIGHT-TO-LEFT OVERRIDE}\rRUNNING\x7f"
COMMANDS = ("\x1b[2J", "\x1b[8m", "\x1b]", "\x07", "\x9b", "\N{RIGHT-TO-LEFT OVERRIDE}", "\r", "\x7f")


@pytest.mark.parametrize(
    "line",
    [
        "list",
        "status failing",
        "status failed",
        "status failed --check",
        "events failing --traces",
        "logs failing",
        "runs failed",
        "checkpoints failing",
    ],
)
def test_no_verb_prints_what_a_terminal_obeys(line: str, tmp_path: Path) -> None:
    world = World(str(tmp_path), checkpoints=8, customer=HOSTILE)
    world.failing("failing")
    world.failed("failed")

    found = CliRunner().invoke(rekindle, [*line.split(), "--storage", world.store.location], color=True)

    assert [letter for letter in COMMANDS if letter in found.output] == []
    if "--check" not in line:
        in_json = CliRunner().invoke(rekindle, [*line.split(), "--storage", world.store.location, "--json"])
        assert (
            [json.loads(one) for one in in_json.stdout.splitlines()] if "logs" in line else json.loads(in_json.stdout)
        )


def test_what_is_logged_while_a_job_runs_is_text_too(capsys: pytest.CaptureFixture[str]) -> None:
    with printed("text", {}):
        logging.getLogger("rekindle.test").warning("no such customer %s", HOSTILE)

    said = capsys.readouterr().err
    assert "no such customer" in said and [letter for letter in COMMANDS if letter in said] == []


def test_lines_our_colours_and_every_language_stay() -> None:
    text = "\x1b[31mFAILED\x1b[0m\tgröße 大きさ حجم 👩‍💻\nnext"
    assert output.harmless(text) == text
    assert output.harmless("a\r\nb") == "a\nb"
