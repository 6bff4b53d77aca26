"""What the README shows is done here, in a folder of its own: its files, its commands, the kill, the drain."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.kit import committed, until

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()

# The README speaks as in an activated environment.
COMMANDS = {"rekindle": [sys.executable, "-m", "rekindle.cli"], "python": [sys.executable]}


def files() -> dict[str, str]:
    """The README's Python files; a block's name stands in the line above it."""
    return dict(re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE))


def lines(start: str) -> list[list[str]]:
    """The lines of the README's shell blocks that begin so, as words."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    told = [line for block in blocks for line in block.splitlines() if line.startswith(start)]
    return [shlex.split(line, comments=True) for line in told]


class Shell:
    """A terminal in the folder that holds the README's files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items() if name != "REKINDLE_STORAGE"}
        self.started: list[subprocess.Popen[str]] = []
        for name, text in files().items():
            (folder / name).write_text(text)

    def start(self, words: list[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*COMMANDS[words[0]], *words[1:]],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.started.append(process)
        return process

    def do(self, words: list[str]) -> str:
        process = self.start(words)
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0, said
        return said


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path)
    yield made
    for process in made.started:
        process.kill()
        process.communicate()


def bids(*made: tuple[int, int]) -> Counter[tuple[int, int]]:
    """Bids for each hour and auction, of calls of ``make_bids.py`` with these first hours and numbers of hours."""
    return Counter((first + s // 3600, s // 10 % 7) for first, hours in made for s in range(0, hours * 3600, 10))


def written(folder: Path) -> list[tuple[tuple[int, int], int]]:
    """The same as it is in ``out/hourly``, sorted."""
    midnight = dt.datetime(2025, 1, 1)  # noqa: DTZ001 (Spark writes times without a zone; the session's is UTC)
    rows = committed(folder / "out" / "hourly")
    hours = [(row["window"]["start"].replace(tzinfo=None) - midnight) // dt.timedelta(hours=1) for row in rows]
    return sorted(((hour, row["auction"]), row["bids"]) for hour, row in zip(hours, rows, strict=True))


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_job_of_the_readme_is_killed_run_again_and_drained_and_nothing_is_lost(shell: Shell) -> None:
    history, live, more_live = lines("python make_bids.py")
    first_run, second_run = lines("rekindle run hourly_bids.py")[:2]
    status, lost = lines("rekindle status")
    (drain,) = [words for words in lines("rekindle stop") if "--drain" in words]

    def watermark() -> str:
        return json.loads(shell.do([*status, "--json"]))["tasks"][0]["watermark"] or ""

    shell.do(history)
    shell.do(live)
    driver = shell.start(first_run)
    until(lambda: bool(written(shell.folder)), seconds=240)
    assert [hour for hour in range(10) if any(key[0] == hour for key, _ in written(shell.folder))] == [*range(7)]
    assert "RUNNING" in shell.do(status)
    driver.kill()
    driver.wait()
    assert "LOST" in shell.do(lost)

    shell.do(more_live)
    driver = shell.start(second_run)
    until(lambda: watermark().startswith("2025-01-01T09:"), seconds=240)
    shell.do(drain)

    said, _ = driver.communicate(timeout=60)
    assert driver.returncode == 0, said
    assert written(shell.folder) == sorted(bids((0, 6), (6, 2), (8, 2)).items())


def test_every_target_of_make_that_the_readme_names_is_one() -> None:
    makefile = (Path(__file__).resolve().parents[2] / "Makefile").read_text()
    targets = re.findall(r"^(\w+):", makefile, re.MULTILINE)
    assert [words[1] for words in lines("make ") if words[1] not in targets] == []
    assert {"demo", "test"} <= {words[1] for words in lines("make ")}
