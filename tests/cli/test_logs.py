"""``rekindle logs``, and what ``rekindle run --log-format`` prints."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from rekindle.cli import logs
from rekindle.logs import pieces
from rekindle.logs.lines import LogLine
from rekindle.logs.pieces import Piece
from rekindle.storage import layout
from rekindle.storage.documents.runs import Identity
from rekindle.storage.forgetting import forget_job
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore
from tests.cli.kit import JANUARY_MS, Command, ManualClock, start


def write(job: JobStorage, run: int, *messages: str, trace: str = "") -> None:
    lines = [
        LogLine(time_ms=JANUARY_MS, level="WARNING", logger="rekindle.x", message=message, trace=trace)
        for message in messages
    ]
    pieces.write(job, Piece(run, 1), [msgspec.json.encode(line) + b"\n" for line in lines])


def test_logs_shows_the_newest_run_unless_another_is_named(command: Command, job: JobStorage) -> None:
    start(job)
    assert command("logs", "bids").stderr == "bids has no log.\n"
    write(job, 1, "one", "two", trace="at x")
    write(job, 2, "three")

    assert command("logs", "bids").stdout == "2025-01-01T00:00:00.000Z WARNING rekindle.x: three\n"
    assert command("logs", "bids", "--run", "1").stdout.splitlines() == [
        "2025-01-01T00:00:00.000Z WARNING rekindle.x: one",
        "    at x",
        "2025-01-01T00:00:00.000Z WARNING rekindle.x: two",
        "    at x",
    ]
    start(job)
    start(job)
    assert command("logs", "bids", "--run", "3").stderr == "bids has no log of run 3.\n"
    assert command.error("logs", "bids", "--run", "7") == "RUN_UNKNOWN"
    assert command.error("logs", "bids", "--run", "7", "--follow") == "RUN_UNKNOWN"
    found = [json.loads(line) for line in command("logs", "bids", "--run", "1", "--json").stdout.splitlines()]
    assert [(line["message"], line["run"], line["job"]) for line in found] == [("one", 1, "bids"), ("two", 1, "bids")]
    assert command.error("logs", "no_such_job") == "JOB_UNKNOWN"


def test_a_log_that_is_followed_goes_on_with_the_next_run(
    command: Command, job: JobStorage, clock: ManualClock
) -> None:
    start(job)
    write(job, 1, "one")
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 1:
            write(job, 1, "one", "two")
            write(job, 2, "three")
        else:
            raise KeyboardInterrupt

    clock.pause = pause
    shown = [line.rsplit(" ", 1)[-1] for line in command("logs", "bids", "--follow").stdout.splitlines()]

    assert shown == ["one", "two", "three"]


def test_the_log_of_the_next_job_of_that_name_is_followed_too(
    command: Command, job: JobStorage, clock: ManualClock
) -> None:
    start(job)
    write(job, 5, "of the first")

    def another(_: float) -> None:
        if job.run(1) is None:
            raise KeyboardInterrupt
        forget_job(job, 0)
        job.create(layout.identity(job.job), Identity(job=job.job, created_ms=JANUARY_MS, id="another"))
        write(job, 1, "of the second")

    clock.pause = another
    shown = command("logs", "bids", "--follow").stdout.splitlines()
    assert [line.partition(": ")[2] for line in shown] == ["of the first", "of the second"]


def test_to_follow_a_log_ends_with_the_job(command: Command, job: JobStorage, clock: ManualClock) -> None:
    start(job)
    write(job, 1, "one")
    clock.pause = lambda _: forget_job(job, 0)
    assert command.error("logs", "bids", "--follow") == "JOB_UNKNOWN"


def test_to_follow_a_log_ends_once_no_one_reads_what_is_printed(tmp_path: Path) -> None:
    job = JobStorage(LocalStore(str(tmp_path)), "bids")
    start(job)
    write(job, 1, "one")
    command = [sys.executable, "-m", "rekindle.cli", "logs", "bids", "--follow", "--storage", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and "one" in process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 1


@pytest.mark.parametrize(
    ("log_format", "seen"), [(None, ["careful"]), ("text", ["hello", "careful", "the", "end", "end"])]
)
def test_what_run_prints_of_the_log(
    log_format: str | None, seen: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    logger, before = logging.getLogger("rekindle.some.part"), logging.getLogger("rekindle").level
    with logs.printed(log_format, {}):
        logger.debug("fine")
        logger.info("hello")
        logger.warning("careful", extra={"trace": "at x" if log_format is None else ""})
        logger.error("the\nend", extra={"event": "run_ended"})
        logger.error("why it cannot start: end", extra={"is_shown": True})

    assert [line.rsplit(" ", 1)[-1] for line in capsys.readouterr().err.splitlines()] == seen
    assert logging.getLogger("rekindle").level == before


def test_what_run_prints_comes_once_though_the_root_logger_prints_too(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with logs.printed("text", {}):
        logging.getLogger("rekindle.some.part").warning("careful")
    logging.getLogger("rekindle.some.part").warning("after that")

    assert "careful" in capsys.readouterr().err
    assert caplog.messages == ["after that"], "the root logger's handler has the rest only"


def test_as_json_each_line_is_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    with logs.printed("json", {"log.level": "debug"}):
        logging.getLogger("rekindle.some.part").debug("two\nlines", extra={"job": "bids", "trace": "password=x\nb"})
    line = json.loads(capsys.readouterr().err)

    assert (line["level"], line["job"], line["message"], line["trace"]) == (
        "DEBUG", "bids", "two\nlines", "password=***\nb",
    )  # fmt: skip


@pytest.mark.parametrize("log_format", [None, "text", "json"])
def test_what_run_prints_has_no_secret_of_the_environment_or_of_spark(
    log_format: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "correct-horse")
    with logs.printed(log_format, {}, {"spark.hadoop.fs.s3a.secret.key": "battery-staple"}):
        logging.getLogger("rekindle.some.part").warning("refused: correct-horse and battery-staple")

    assert "refused: *** and ***" in capsys.readouterr().err
