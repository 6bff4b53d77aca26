"""What the README shows is done here, in a folder of its own: its example, its commands, the kill, the drain."""

from __future__ import annotations

import datetime as dt
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.shell import README, ROOT, Shell, files, lines
from tests.jobs.kit import committed, recorded, until


def spoken(start: str) -> list[list[str]]:
    """The lines of the README's shell blocks that begin so, as words."""
    return [shlex.split(line, comments=True) for line in lines(README) if line.startswith(start)]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path)
    yield made
    made.close()


def bids(*made: tuple[int, int]) -> Counter[tuple[int, int]]:
    """Bids for each hour and auction, of calls of ``make_bids.py`` with these first hours and numbers of hours."""
    return Counter((first + s // 3600, s // 10 % 7) for first, hours in made for s in range(0, hours * 3600, 10))


def written(folder: Path) -> list[tuple[tuple[int, int], int]]:
    """The same as it is in ``out/hourly``, sorted."""
    midnight = dt.datetime(2025, 1, 1)  # noqa: DTZ001 (Spark writes times without a zone; the session's is UTC)
    rows = committed(folder / "out" / "hourly")
    hours = [(row["window"]["start"].replace(tzinfo=None) - midnight) // dt.timedelta(hours=1) for row in rows]
    return sorted(((hour, row["auction"]), row["bids"]) for hour, row in zip(hours, rows, strict=True))


def at_ms(hour: int) -> int:
    """When an hour begins."""
    return round(dt.datetime(2025, 1, 1, hour, tzinfo=dt.timezone.utc).timestamp() * 1_000)


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_job_of_the_readme_is_killed_run_again_and_drained_and_nothing_is_lost(shell: Shell) -> None:
    (example,) = [line for line in lines(README) if line.startswith("rekindle example")]
    (look,) = [line for line in lines(README) if line.startswith("python -c")]
    (more_live,) = spoken("python make_bids.py")
    first_run, second_run = [
        [*words, "--set", "checkpoint.interval=5 seconds"] for words in spoken("rekindle run hourly_bids.py")
    ]
    status, lost = spoken("rekindle status")
    (drain,) = [words for words in spoken("rekindle stop") if "--drain" in words]

    def has_read(hour: int) -> bool:
        known = recorded(str(shell.folder / "rekindle-state"), "hourly_bids")
        return known is not None and any((task.watermark or 0) >= at_ms(hour) for task in known.tasks)

    shell.type(example)
    driver = shell.start(first_run)
    until(lambda: bool(written(shell.folder)), seconds=240)
    assert [hour for hour in range(10) if any(key[0] == hour for key, _ in written(shell.folder))] == [*range(7)]
    assert "bids" in shell.type(look)
    assert "RUNNING" in shell.do(status)
    driver.kill()
    driver.wait()
    assert "LOST" in shell.do(lost)

    shell.do(more_live)
    driver = shell.start(second_run)
    until(lambda: has_read(9), seconds=240)
    shell.do(drain)

    said, _ = driver.communicate(timeout=60)
    assert driver.returncode == 0, said
    assert written(shell.folder) == sorted(bids((0, 6), (6, 2), (8, 2)).items())


def test_the_job_that_the_readme_shows_is_the_one_that_the_example_writes() -> None:
    shown = files(README)
    assert list(shown) == ["hourly_bids.py"]
    for name, text in shown.items():
        assert (ROOT / "src" / "rekindle" / "cli" / "example" / name).read_text() == text


def test_the_first_screen_of_the_readme_names_no_flip() -> None:
    first_screen = README.splitlines()[:60]
    assert "rekindle run hourly_bids.py" in first_screen
    assert [line for line in first_screen if "FLIP" in line] == []


def test_every_target_of_make_that_the_readme_names_is_one() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^(\w+):", makefile, re.MULTILINE)
    assert [words[1] for words in spoken("make ") if words[1] not in targets] == []
    assert {"demo", "test"} <= {words[1] for words in spoken("make ")}
