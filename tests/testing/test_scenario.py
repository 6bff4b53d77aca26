"""Scenario scripts: what is written in one, how it is played and recorded, and what is said where it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.testing import scenario
from rekindle.testing.play import Play
from rekindle.testing.scenario import record
from rekindle.testing.script_job import ScriptError

JOB = """\
# A story.

job bids
  bids is a bounded source
  a reads bids, in 2 subtasks
  b reads a
  b writes to table
  checkpoint.interval = 0

"""


def recorded(*steps: str, job: str = JOB) -> str:
    """What follows the job when these steps are recorded."""
    return record(job + "".join(f"> {step}\n\n" for step in steps)).removeprefix(job)


def answer(*steps: str) -> list[str]:
    """The answer to the last of these steps."""
    return [line[2:] for line in recorded(*steps).split("\n\n")[-2].splitlines() if line.startswith("  ")]


def test_an_answer_is_written_below_its_step_and_the_rest_is_left_alone() -> None:
    assert recorded("the job starts", "a/0 started") == (
        "> the job starts\n  start a/0\n  start a/1\n  start b/0\n\n> a/0 started\n  nothing\n\n"
    )


def test_recording_again_changes_nothing() -> None:
    once = recorded("the job starts", "all start", "ann asks for a checkpoint", "checkpoint 1 completes")
    assert record(JOB + once) == JOB + once


def test_an_old_answer_is_replaced() -> None:
    assert record(f"{JOB}> the job starts\n  start x/0\n    and more\n").endswith("> the job starts\n" + STARTED)


STARTED = "  start a/0\n  start a/1\n  start b/0\n"


def test_a_long_step_goes_on_in_lines_of_its_own() -> None:
    script = f"{JOB}> the job starts, checkpoint 3 being the newest\n>   and committed\n"
    assert record(script) == f"{script}  keep the newest 3 checkpoints, discard older ones\n{STARTED}"


def test_a_step_that_stands_for_several_shows_each_with_its_answer() -> None:
    assert answer("the job starts", "all start", "a/0 recorded batch 0", "b/0 reads all it may") == [
        "> b/0 recorded batch 0, having read a/0 up to 1",
    ]
    assert answer("the job starts", "all start", "ann asks for a checkpoint", "checkpoint 1 completes") == [
        "> snapshot of a/0 for checkpoint 1 taken",
        "> snapshot of a/1 for checkpoint 1 taken",
        "> snapshot of b/0 for checkpoint 1 taken",
        "  write manifest 1 (manual, begun at 0 seconds)",
        "> manifest 1 written",
        "  commit checkpoint 1",
        "> transactions of checkpoint 1 committed",
        "  keep the newest 3 checkpoints, discard older ones",
        "  answer ann: done, checkpoint 1",
    ]


def test_a_batch_that_is_not_named_is_the_last_one_or_the_one_that_was_ordered() -> None:
    steps = ("the job starts", "all start", "a/0 recorded batch 4", "ann asks for a checkpoint")
    play = _played(*steps, "snapshot of a/0 for checkpoint 1 taken")
    assert play.driver.job.coordinator.pending[1].batches == {("a", 0): 4}
    play = _played(*steps, "a/0's sources ended", "a/0 finished")
    assert play.driver.job.coordinator.snapshots.barriers.batches["a", 0] == 4  # type: ignore[index]


def _played(*steps: str) -> Play:
    play = Play()
    record(JOB + "".join(f"> {step}\n" for step in steps), play)
    return play


def test_a_failure_takes_back_what_was_ordered() -> None:
    play = _played("the job starts", "all start", "ann asks for a checkpoint", "a/0 failed: x")
    assert play.driver.orders == []
    assert _played("the job starts", "all start", "eve asks to cancel", "the result is recorded").driver.orders == []


def test_time_passes() -> None:
    assert _played("the job starts", "5 seconds pass", "1 minute passes").driver.now_ms == 65_000
    assert _played("the job starts at 5 seconds", "the clock shows 8 seconds").driver.now_ms == 8_000


def test_the_job_starts_again_as_another_driver() -> None:
    play = _played("the job starts", "all start", "eve asks to cancel", "the result is recorded", "the job starts")
    assert len(play.driver.orders) == 3


def test_what_is_illegal_is_refused_and_the_script_goes_on() -> None:
    assert answer("the job starts", "a/0 closed") == ["refused: TaskClosed is illegal while a/0 is starting"]
    assert answer("a/0 started") == ["refused: TaskStarted is illegal while job bids is CREATED"]


def test_a_question_changes_nothing() -> None:
    assert answer("the job starts", "a/1 started", "where does everything stand?") == [
        "the job is RUNNING",
        "a/0 is starting",
        "a/1 is running",
        "b/0 is starting",
    ]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("the job starts", "it is no step, no answer, no comment and no job"),
        ("> a/0 sneezed", "it is not understood; is it one of these?"),
        ("> all close", "there is no such order"),
        ("> b/0 reads all it may", "there is nothing that it may read"),
        ("> 5 moons pass", "[VALUE_INVALID]"),
        ("> may this job start from checkpoint 9?", "KeyError: 9"),
        ("> the job starts: a/0 sneezed", "'a/0 sneezed' is not understood"),
        ("job bids\n  b sneezes", "'b sneezes' defines nothing"),
        ("job bids\n  b reads c", "[INPUT_UNKNOWN]"),
        ("job bids\n  b is a bounded source\n  a reads b\n  a writes to t\n  x.y = 1", "[KEY_UNKNOWN]"),
    ],
)
def test_a_line_that_is_wrong_is_named_and_said_why(line: str, why: str) -> None:
    with pytest.raises(ScriptError) as raised:
        record(f"{JOB}> the job starts\n\n{line}\n")
    assert str(raised.value).startswith(f"line 12, {line.splitlines()[0]!r}: ")
    assert why in str(raised.value)


def test_a_step_before_any_job_is_an_error() -> None:
    with pytest.raises(ScriptError, match="line 1, '> the job starts': there is no job yet"):
        record("> the job starts\n")


def test_an_order_that_cannot_be_carried_out_is_named() -> None:
    play = Play()
    record(f"{JOB}> the job starts\n", play)
    play.driver.job.tasks.states.clear()
    with pytest.raises(ScriptError, match="this cannot be done now: start a/0"):
        play.step("all start")


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "story.txt"
    path.write_text(f"{JOB}> the job starts\n  start a/0\n", encoding="utf-8")
    return path


def test_a_difference_is_printed_and_fails(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert scenario.main([str(script)]) == 1
    said = capsys.readouterr().out
    assert "+  start a/1" in said
    assert "-  start" not in said


def test_re_recording_writes_the_answers_and_then_there_is_no_difference(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert scenario.main([str(script), "--re-record"]) == 0
    assert scenario.main([str(script)]) == 0
    assert capsys.readouterr().out == ""
    assert script.read_text(encoding="utf-8") == f"{JOB}> the job starts\n{STARTED}"


@pytest.mark.parametrize("content", [None, "nonsense\n"])
def test_a_file_that_holds_no_script_is_a_wrong_command_line(
    tmp_path: Path, content: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "story.txt"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SystemExit) as left:
        scenario.main([str(path)])
    assert left.value.code == 2
    assert str(path) in capsys.readouterr().err
