"""The stories of this folder, each played against the protocol: its answers are those that are written there.

Where an answer was changed on purpose: ``python -m pytest tests/scenarios --re-record``, then read the difference.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rekindle.testing.scenario import difference, re_record

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))
AT_LEAST = 20
"""So many stories the project promises."""

every_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)


@every_script
def test_the_protocol_answers_as_the_script_says(script: Path, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--re-record", default=False):
        re_record(script)
    assert not (told := difference(script)), f"\n{told}"


@every_script
def test_a_script_begins_with_its_title_and_what_it_goes_by(script: Path) -> None:
    heading = script.read_text(encoding="utf-8").split("\n\n")[0].splitlines()
    assert all(line.startswith("#") for line in heading)
    assert re.fullmatch(r"# [A-Z].*[^.]", heading[0]), "no title"
    assert heading[1] == "#"
    assert re.search(r"FLIP-(147|45|76)\b", " ".join(heading)), "no section of a FLIP"


def test_all_scripts_are_found() -> None:
    assert len(SCRIPTS) >= AT_LEAST
