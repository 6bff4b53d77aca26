"""``rekindle check``: what it prints, and that it starts nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from rekindle.cli import next_steps
from rekindle.cli.checking import _show
from rekindle.start.previews import (
    JobChange,
    QueryChangePreview,
    SinkPreview,
    SourcePreview,
    StartPreview,
    TaskPreview,
)
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore
from tests.cli.kit import Command, end, start

JOB = """
    import rekindle as rk

    job = rk.Job("bids")
    history = job.source("history", rk.Files("nowhere"), event_time="ts")
    task = job.task(history, uid="hourly")(lambda rows: rows)
    job.sink("out", task, rk.sinks.Parquet("out"))
"""


@pytest.fixture
def job_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "bids.py"
    path.write_text(textwrap.dedent(JOB))
    return path


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(str(tmp_path / "state"))


def test_a_new_job_begins_and_nothing_is_written(command: Command, job_file: Path) -> None:
    result = command("check", str(job_file), "--no-spark")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "bids: A start would begin at the beginning.",
        "",
        "task    subtasks  then",
        "hourly  1         begins",
        "",
        "source   then",
        "history  is read from its beginning",
        "",
        "sink  then",
        "out   gets the rows from now on",
        "",
        "The queries were not looked at: --no-spark.",
    ]
    assert not Path(command.storage).exists()


def test_json_has_all_of_it(command: Command, job_file: Path) -> None:
    assert command.json("check", str(job_file), "--no-spark") == {
        "job": "bids",
        "beginning": "begins",
        "running": None,
        "path": None,
        "checkpoint": None,
        "tasks": [
            {
                "uid": "hourly", "fate": "begins", "subtasks": 1, "batch": None, "finished": 0,
                "query": [], "refused": None, "history": None, "history_streams": None, "unseen": None,
            }
        ],
        "sources": [{"uid": "history", "kind": "Files", "fate": "begins", "tasks": ["hourly"]}],
        "sinks": [
            {"uid": "out", "kind": "Parquet", "fate": "begins", "has_prepared": False, "refused": None, "unseen": None}
        ],
        "changes": [],
        "graph": [],
        "rewinds": [],
        "unseen": "--no-spark",
    }  # fmt: skip


def test_a_target_that_cannot_be_written_is_refused_with_what_to_do(command: Command, job_file: Path) -> None:
    Path("out").write_text("")
    result = command("check", str(job_file), "--no-spark")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert "out   is refused: SINK_TARGET_INVALID" in lines
    assert any(line.startswith("out is refused: [SINK_TARGET_INVALID] Sink 'out' cannot write to ") for line in lines)
    assert any(line.startswith("next: Correct the target") for line in lines)
    assert Path("out").read_text() == ""
    assert not Path(command.storage).exists()


def test_a_job_that_has_ended_and_a_refused_start_are_distinguished(command: Command, job_file: Path) -> None:
    storage = JobStorage(LocalStore(command.storage), "bids")
    start(storage)
    end(storage, "FINISHED", checkpoint=3)
    result = command("check", str(job_file))
    assert result.exit_code == 0 and "The job has ended: a start would do nothing." in result.stdout
    assert "has finished and is not started" in result.stdout
    assert "is read no further" in result.stdout and "gets no more rows" in result.stdout
    assert command.error("check", str(job_file), "--from", "7", "--no-spark") == "CHECKPOINT_UNKNOWN"
    assert command.error("check", str(job_file.parent / "none.py"), code=2) == "JOBFILE_MISSING"


DELAY = QueryChangePreview(what="the delay", before="4 s", now="9 s", then="it applies from now on")
REFUSED = {"code": "QUERY_REFUSED", "message": "Spark does not want it.", "parameters": {}, "next_step": "Change it."}


def test_everything_that_a_line_may_have_to_say(capsys: pytest.CaptureFixture[str]) -> None:
    next_steps.remember("there")
    _show(
        StartPreview(
            job="bids",
            beginning="restores",
            running=4,
            path="/saves/bids-7",
            checkpoint=7,
            tasks=(
                TaskPreview(uid="a", fate="resumes", subtasks=2, batch=41, finished=1, query=(DELAY,)),
                TaskPreview(uid="b", fate="resumes", subtasks=3),
                TaskPreview(uid="c", fate="dropped", subtasks=1),
                TaskPreview(uid="d", fate="finished", subtasks=1, finished=1, unseen="it has finished"),
                TaskPreview(uid="e", fate="resumes", subtasks=1, batch=2, refused=REFUSED),
                TaskPreview(uid="f", fate="begins", subtasks=1, unseen="e, which it reads, could not be built"),
                TaskPreview(uid="g", fate="begins", subtasks=1, history="batch"),
                TaskPreview(uid="h", fate="begins", subtasks=1, history="stream", history_streams="it has sessions"),
            ),
            sources=(
                SourcePreview(uid="live", kind="Stream", fate="resumes"),
                SourcePreview(uid="old", fate="dropped"),
            ),
            sinks=(
                SinkPreview(uid="out", kind="Parquet", fate="resumes", has_prepared=True),
                SinkPreview(uid="mine", kind="Mine", fate="begins", unseen="it has no method for that"),
                SinkPreview(uid="lost", kind="Kafka", fate="begins", has_prepared=True, refused=REFUSED),
            ),
            changes=(
                JobChange(what="source live: watermark", before="4 seconds", now="10 seconds"),
                JobChange(what="sink out: kind", before=None, now="Parquet"),
                JobChange(what="sink old: kind", before="Parquet", now=None),
            ),
        )
    )
    next_steps.remember(None)
    assert capsys.readouterr().out.splitlines() == [
        "bids: A start would begin from /saves/bids-7.",
        "Its checkpoint is 7.",
        "Run 4 is at work now: stop it first (rekindle stop --storage there bids).",
        "",
        "task  subtasks  then",
        "a     2         resumes after batch 41; 1 of its subtasks have finished",
        "b     3         resumes, its work dealt out again",
        "c     1         is dropped with its state: the job has it no more",
        "d     1         has finished and is not started",
        "e     1         is refused: QUERY_REFUSED",
        "f     1         begins",
        "g     1         begins",
        "h     1         begins",
        "",
        "source  then",
        "live    is read from its position on",
        "old     is no longer read",
        "",
        "sink  then",
        "out   continues; commits first what was prepared for it",
        "mine  gets the rows from now on",
        "lost  is refused: QUERY_REFUSED",
        "",
        "changed                 now         before",
        "source live: watermark  10 seconds  4 seconds",
        "sink out: kind          Parquet     (new)",
        "sink old: kind          (gone)      Parquet",
        "",
        "a: the delay was 4 s, and is now 9 s: it applies from now on.",
        "e is refused: [QUERY_REFUSED] Spark does not want it.",
        "next: Change it.",
        "f was not looked at: e, which it reads, could not be built.",
        "g computes its history as a batch, and then streams.",
        "h streams its history: it has sessions.",
        "The target of mine was not looked at: it has no method for that.",
        "lost is refused: [QUERY_REFUSED] Spark does not want it.",
        "next: Change it.",
    ]


def test_sinks_go_back_to_a_checkpoint_that_is_named_and_to_nothing_else(command: Command, job_file: Path) -> None:
    result = command("check", str(job_file), "--rewind-sinks")
    assert result.exit_code == 2
    assert "[REWIND_TO_NOTHING]" in result.stderr


def test_where_spark_cannot_be_started_all_else_is_looked_at_and_the_check_has_failed_a_dry_run_too(
    command: Command, job_file: Path, tmp_path: Path
) -> None:
    launcher = tmp_path / "spark" / "bin" / "spark-submit"
    launcher.parent.mkdir(parents=True)
    launcher.write_text("#!/bin/sh\nexit 1\n")
    launcher.chmod(0o755)
    rekindle = [sys.executable, "-m", "rekindle.cli"]
    environment = {**os.environ, "SPARK_HOME": str(launcher.parent.parent), "REKINDLE_LOGS": str(tmp_path)}
    said = []
    for verb in (["check"], ["run", "--dry-run"]):
        result = subprocess.run(
            [*rekindle, *verb, str(job_file), "--storage", command.storage],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert result.returncode == 1, result.stderr
        said.append(result.stdout)
    assert "The queries were not looked at: Spark could not be started" in said[0]
    assert said[0].splitlines()[-2].endswith("sending its port number."), "one full stop"
    assert said[0].splitlines()[-1].startswith("next: It needs Java 17")
    assert said[0].splitlines()[-1].endswith("To leave them out: --no-spark.")
    assert "hourly  1         begins" in said[0]
    assert said[0] == said[1]
    assert not Path(command.storage).exists()


def test_a_narrow_terminal_shows_what_each_change_was_and_is(capsys: pytest.CaptureFixture[str]) -> None:
    changes = (JobChange(what="source live: watermark", before="4 seconds", now="10 seconds"),)
    preview = StartPreview(
        job="bids", beginning="resumes", running=None, path=None, checkpoint=7, tasks=(), sinks=(), changes=changes
    )
    _show(preview, 40)
    shown = capsys.readouterr().out
    assert "4 seconds" in shown
    assert "10 seconds" in shown
