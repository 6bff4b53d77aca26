"""What the tutorials tell their readers to type is typed here, in order, and does what they say."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.shell import ROOT, Shell, lines
from tests.jobs.kit import committed, recorded, until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path)
    yield made
    made.close()


def follow(shell: Shell, page: str, waits: dict[str, Callable[[], bool]]) -> dict[str, str]:
    """Do all lines of a page; `waits`: what a reader waits for behind a line. Returns what each command said."""
    said = {}
    for line in lines((ROOT / "docs" / page).read_text()):
        if line.endswith(" &"):
            shell.start(shell.words(line.removesuffix(" &")))
        else:
            said[line] = shell.type(line)
        if line in waits:
            until(waits[line])
    assert waits.keys() <= set(lines((ROOT / "docs" / page).read_text())), "the page has other lines"
    return said


def at_hour(shell: Shell, hour: int, storage: str = "rekindle-state") -> Callable[[], bool]:
    """Whether the job runs and has read that hour."""
    begins = dt.datetime(2025, 1, 1, hour, tzinfo=dt.timezone.utc).timestamp() * 1_000

    def has_read() -> bool:
        status = recorded(str(shell.folder / storage), "hourly_bids")
        running = status is not None and status.state == "RUNNING"
        return running and any((task.watermark or 0) >= begins for task in status.tasks)

    return has_read


def hours(shell: Shell, folder: str) -> Counter[int]:
    """How many bids of each hour are in an output."""
    found: Counter[int] = Counter()
    for row in committed(shell.folder / folder):
        found[row["window"]["start"].hour] += row["bids"]
    return found


def state_partitions(shell: Shell) -> Any:
    """Of the newest checkpoint, as `inspect` shows it."""
    newest = max((shell.folder / "rekindle-state" / "hourly_bids" / "checkpoints").iterdir())
    told = json.loads(shell.do(["rekindle", "inspect", str(newest), "--json"]))
    return [state["partitions"] for state in told["tasks"][0]["state"]]


@pytest.mark.slow
def test_the_tutorial_on_forks(shell: Shell) -> None:
    said = follow(
        shell,
        "fork.md",
        {
            "rekindle run hourly_bids.py &": at_hour(shell, 7),
            "rekindle run try_bids.py --storage try-state --from saves/hourly_bids-* &": at_hour(shell, 7, "try-state"),
            "python make_bids.py bids/live 8 2": lambda: at_hour(shell, 9)() and at_hour(shell, 9, "try-state")(),
        },
    )
    assert "RUNNING" in said["rekindle status hourly_bids"]
    assert "state stateStoreSave  " in said["rekindle inspect saves/hourly_bids-*"]
    all_of_it = dict.fromkeys(range(10), 360)
    assert hours(shell, "out/try") == {hour: all_of_it[hour] for hour in range(7, 10)}
    assert hours(shell, "out/hourly") == {hour: all_of_it[hour] for hour in range(9)}


@pytest.mark.slow
def test_the_tutorial_on_partitions(shell: Shell) -> None:
    seen = []
    said = follow(
        shell,
        "rescale.md",
        {
            "rekindle run hourly_bids.py --set state.partitions=2 &": at_hour(shell, 7),
            "python make_bids.py bids/live 8 2": at_hour(shell, 9),
            "rekindle checkpoint hourly_bids": lambda: bool(seen.append(state_partitions(shell)) or seen),
            "rekindle run hourly_bids.py &": at_hour(shell, 9),
        },
    )
    assert "in 2 partitions" in said["rekindle inspect saves/hourly_bids-*"]
    assert seen == [[4]]
    assert hours(shell, "out/hourly") == dict.fromkeys(range(10), 360)


def test_the_query_of_a_reader_is_flushed_and_then_goes_on_as_a_job(tmp_path: Path) -> None:
    flushing, adopting = ((ROOT / "docs" / name).read_text() for name in ("flush.md", "adopt.md"))
    shell = Shell(tmp_path, flushing, adopting)
    # The plain query has the time zone of the machine, and hours are told apart by their numbers.
    shell.environment["TZ"] = "UTC"
    try:
        first_bids, query, flush = map(shell.words, lines(flushing))
        adopt, more_bids, run = map(shell.words, lines(adopting)[:3])
        shell.do(first_bids)
        shell.do(query)
        assert hours(shell, "out") == dict.fromkeys(range(5), 60)

        assert "7 rows were in the state after batch 1, now in " in shell.do(flush)
        assert hours(shell, "rest/flushed") == {5: 60}

        assert "continues after batch" in shell.do(adopt)
        shell.do(more_bids)
        shell.start([*run, "--set", "checkpoint.interval=1 second"])
        until(lambda: 6 in hours(shell, "out-of-the-job"))
        assert hours(shell, "out-of-the-job") == {5: 60, 6: 60}
    finally:
        shell.close()
