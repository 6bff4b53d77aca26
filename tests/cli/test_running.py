"""``rekindle run`` on jobs that are not Spark's: arguments, exit codes, output, progress and signals."""

from __future__ import annotations

import ast
import json
import os
import pty
import re
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rekindle.cli import terminal, views
from rekindle.cli.progress import LINE_EVERY_MS, LogLines
from rekindle.cli.running import confirm_rewind
from rekindle.errors import RestoreError
from rekindle.start.previews import RewindPreview, StartPreview
from rekindle.storage.documents.status import InputStatus, Status, TaskStatusDocument
from tests.cli.kit import JANUARY_MS

API = """
    import os, sys, threading, types
    from dataclasses import dataclass, asdict, field
    from rekindle.errors import DefinitionError, JobError
    from rekindle.storage.documents.status import InputStatus, Status, TaskStatusDocument

    @dataclass
    class JobResult:
        job: str = "bids"
        state: str = "FINISHED"
        run: int = 1
        checkpoint: int | None = 7
        savepoint: str | None = None
        notes: tuple = ()
        error: dict | None = None
        already_ended: bool = False

        def to_json(self):
            return asdict(self)

    class Handle:
        def __init__(self, mode, result, on_stop, on_cancel):
            self.mode, self.result, self.ended, self.batch = mode, result, threading.Event(), 0
            self.on_stop, self.on_cancel = on_stop, on_cancel
            if result:
                self.ended.set()

        def status(self):
            self.batch += 1
            inputs = {"history": InputStatus(share=0.5, rows_per_second=10.0)}
            task = TaskStatusDocument(uid="hourly", subtask=0, status="running", batch=self.batch, inputs=inputs)
            name = os.environ.get("JOB", "bids")
            return Status(job=name, state="RUNNING", run=1, host="", pid=0, beat=0, written_ms=0, tasks=(task,))

        def wait(self, timeout_s=None):
            return self.result if self.ended.wait(timeout_s) else None

        def stop(self, drain=False, savepoint=None):
            self.end(self.on_stop)

        def cancel(self):
            self.end(self.on_cancel)

        def is_running(self):
            return not self.ended.is_set()

        def end(self, state):
            if state:
                self.result = JobResult(state=state)
                self.ended.set()
            else:
                print("stop hangs", file=sys.stderr, flush=True)
                threading.Event().wait()

    class Job:
        name = "bids"

        def __init__(self, result=None, on_stop="STOPPED", on_cancel="CANCELED", error=None):
            self.handle = (result, on_stop, on_cancel)
            self.error = error

        def start(self, spark=None, **arguments):
            if self.error:
                raise self.error
            print("arguments", arguments)
            return Handle(arguments["mode"], *self.handle)

    module = types.ModuleType("rekindle.job")
    module.Job = Job
    sys.modules["rekindle.job"] = module
"""


def program(tmp_path: Path, job: str, *arguments: str) -> list[str]:
    """The command line of a real process whose job file holds `job`."""
    (tmp_path / "api.py").write_text(textwrap.dedent(API))
    (tmp_path / "job.py").write_text(f"from api import *\njob = {job}\n")
    # The stand-in for the API has to be there before the command looks for it.
    start = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import api; from rekindle.cli import main; main()"
    return [sys.executable, "-c", start, "run", str(tmp_path / "job.py"), *arguments]


def run(tmp_path: Path, job: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(program(tmp_path, job, *arguments), capture_output=True, text=True, timeout=60, check=False)


def code_of(result: subprocess.CompletedProcess[str]) -> str:
    """Code of the error printed in two lines."""
    first, second = result.stderr.splitlines()[-2:]
    assert second.startswith("next: ")
    return first[1:].split("]")[0]


@pytest.mark.parametrize(
    ("state", "code"), [("FINISHED", 0), ("STOPPED", 0), ("DRAINED", 0), ("FAILED", 1), ("CANCELED", 130)]
)
def test_the_exit_code_tells_how_the_job_ended(state: str, code: int, tmp_path: Path) -> None:
    result = run(tmp_path, f"Job(JobResult(state={state!r}))")

    assert result.returncode == code
    assert f"bids  {state}  run 1, checkpoint 7" in result.stdout
    assert "Traceback" not in result.stderr


def test_with_json_stdout_holds_the_result_alone(tmp_path: Path) -> None:
    result = run(tmp_path, "Job(JobResult(notes=('left',)))", "--json")

    document = json.loads(result.stdout)
    assert (document["state"], document["notes"], document["error"]) == ("FINISHED", ["left"], None)
    assert "arguments" in result.stderr


def test_every_option_reaches_the_job(tmp_path: Path) -> None:
    options = [
        "--storage", "/s", "--from", "/c", "--mode", "batch", "--set", "checkpoint.interval=10 s", "--set",
        "restart.attempts=0", "--conf", "spark.a=b=c", "--allow-non-restored-state", "--allow-drained",
        "--allow-sink-ahead", "--allow-shared-target", "--allow-changed-files", "--allow-other-name",
        "--rewind-sinks", "--yes", "--claim-mode", "claim", "--available-now",
    ]  # fmt: skip
    line = run(tmp_path, "Job(JobResult())", *options).stdout.splitlines()[0]

    assert ast.literal_eval(line.removeprefix("arguments ")) == {
        "storage": "/s",
        "restore": "/c",
        "mode": "batch",
        "config": {"checkpoint.interval": "10 s", "restart.attempts": "0"},
        "spark_config": {"spark.a": "b=c"},
        "allow_non_restored_state": True,
        "allow_drained": True,
        "allow_sink_ahead": True,
        "allow_shared_target": True,
        "allow_changed_files": True,
        "allow_other_name": True,
        "rewind_sinks": True,
        "claim_mode": "claim",
        "available_now": True,
    }


class Previewed:
    """A job whose sinks would go back."""

    def __init__(self, *rewinds: RewindPreview) -> None:
        self._said = StartPreview(
            job="bids", beginning="restores", running=None, path="/c/7", checkpoint=7, tasks=(), sinks=(), changes=(),
            rewinds=rewinds,
        )  # fmt: skip

    def check(self, *, restore: str, rewind_sinks: bool) -> StartPreview:
        assert (restore, rewind_sinks) == ("/c/7", True)
        return self._said


def test_sinks_go_back_only_if_that_was_shown_and_agreed_to() -> None:
    arguments = {"restore": "/c/7", "rewind_sinks": True, "spark_config": {}}
    job: Any = Previewed(RewindPreview(sink="hourly", kind="Delta", checkpoints=(8, 9), rows=120))
    with pytest.raises(RestoreError, match="REWIND_UNCONFIRMED") as refused:
        confirm_rewind(job, arguments, None)
    shown = "Sink hourly (Delta): 120 rows of 2 checkpoints after 7 are taken back."
    assert shown in refused.value.message and "--yes" in refused.value.next_step

    asked: list[str] = []
    confirm_rewind(job, arguments, asked.append)
    assert asked == ["Take that back?"]
    nothing: Any = Previewed()
    confirm_rewind(nothing, arguments, None)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--set", "checkpoint.intervall=10 s"], "KEY_UNKNOWN"),
        (["--set", "checkpoint.interval=soon"], "VALUE_INVALID"),
        (["--set", "checkpoint.max_concurrent=0"], "VALUE_INVALID"),
        (["--set", "checkpoint.max_concurrent=2"], "VALUE_INVALID"),
        (["--set", "checkpoint.interval"], "COMMAND_LINE_INVALID"),
        (["--set", "restart.attempts=1", "--set", "restart.attempts=2"], "TASK_SET_TWICE"),
        (["--conf", "master=local"], "COMMAND_LINE_INVALID"),
        (["--alow-drained"], "OPTION_UNKNOWN"),
        (["surplus"], "COMMAND_LINE_INVALID"),
    ],
)
def test_a_wrong_command_line_ends_with_2_before_the_job_is_loaded(
    options: list[str], error: str, tmp_path: Path
) -> None:
    result = run(tmp_path, "print('loaded')", *options)

    assert (result.returncode, code_of(result)) == (2, error)
    assert "loaded" not in result.stdout


def test_an_unknown_setting_is_reported_with_the_one_that_may_be_meant(tmp_path: Path) -> None:
    result = run(tmp_path, "Job()", "--set", "checkpoint.intervall=10 s", "--json")

    assert "Did you mean 'checkpoint.interval'?" in json.loads(result.stdout)["error"]["message"]
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("job", "code", "error"),
    [
        ("Job(error=DefinitionError('TASK_MISSING', job='bids'))", 1, "TASK_MISSING"),
        ("Job(error=DefinitionError('MODE_UNKNOWN', mode='x'))", 2, "MODE_UNKNOWN"),
        ("1 / 0", 1, "JOBFILE_FAILED"),
        ("None", 1, "JOBFILE_NO_JOB"),
    ],
)
def test_a_job_that_cannot_start_is_an_error_without_a_traceback(
    job: str, code: int, error: str, tmp_path: Path
) -> None:
    result = run(tmp_path, job)

    assert (result.returncode, code_of(result)) == (code, error)
    assert "Traceback" not in result.stderr


def test_a_failed_job_prints_its_error_and_what_to_do(tmp_path: Path) -> None:
    job = "Job(JobResult(state='FAILED', error=JobError('SPARK_DIED', reason='it fell').to_json()))"

    assert code_of(run(tmp_path, job)) == "SPARK_DIED"
    assert json.loads(run(tmp_path, job, "--json").stdout)["error"]["code"] == "SPARK_DIED"


@pytest.mark.parametrize(
    ("job", "error"),
    [
        ("Job(JobResult(state='FAILED', error=JobError('SPARK_DIED', reason='it fell').to_json()))", "SPARK_DIED"),
        ("Job(error=DefinitionError('TASK_MISSING', job='bids'))", "TASK_MISSING"),
        ("1 / 0", "JOBFILE_FAILED"),
    ],
)
def test_of_a_log_in_json_every_line_is_a_document_and_the_last_has_the_error(
    job: str, error: str, tmp_path: Path
) -> None:
    result = run(tmp_path, job, "--log-format", "json")

    last = [json.loads(line) for line in result.stderr.splitlines()][-1]
    assert (result.returncode, last["level"]) == (1, "ERROR")
    assert last["message"].startswith(f"[{error}] ")
    assert last["message"].splitlines()[-1].startswith("next: ")


def test_a_job_that_had_ended_before_says_so_and_ends_well(tmp_path: Path) -> None:
    result = run(tmp_path, "Job(JobResult(state='DRAINED', already_ended=True))")

    assert result.returncode == 0
    assert result.stdout.splitlines()[1] == "bids  already DRAINED  run 1, checkpoint 7"
    assert "--allow-drained" in result.stdout
    assert "--from PATH (see: rekindle checkpoints bids)" in result.stdout
    finished = run(tmp_path, "Job(JobResult(already_ended=True))")
    assert "--allow-drained" not in finished.stdout and "rekindle checkpoints bids" in finished.stdout
    batch = run(tmp_path, "Job(JobResult(already_ended=True))", "--mode", "batch")
    assert "bids  already FINISHED" in batch.stdout and "--from" not in batch.stdout


# Py4j logs a call to Spark that is interrupted with its trace, on Python's root logger.
CALLS_SPARK = """
try:
    os.kill(os.getpid(), {number:d})
except KeyboardInterrupt:
    import logging
    logging.exception("KeyboardInterrupt while sending command.")
    raise
"""


@pytest.mark.parametrize("start", ["os.kill(os.getpid(), {number:d})", CALLS_SPARK], ids=["plain", "in a call"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_the_start_ends_it_with_130(number: signal.Signals, start: str, tmp_path: Path) -> None:
    result = run(tmp_path, "Job()\n" + start.format(number=number))

    assert result.returncode == 130
    assert result.stderr.splitlines()[-1] == "Interrupted while the job was starting; nothing was lost."
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_a_start_that_does_not_end_at_a_signal_ends_at_the_next(tmp_path: Path) -> None:
    goes_on = """
while True:
    try:
        print("asked", flush=True)
        os.kill(os.getpid(), 15)
        threading.Event().wait(1)
    except KeyboardInterrupt:
        pass
"""
    result = run(tmp_path, f"Job(){goes_on}")
    assert (result.returncode, result.stdout.splitlines()) == (130, ["asked"] * 2)


class Running:
    """A process of ``rekindle run`` that is at work when this returns."""

    def __init__(self, tmp_path: Path, job: str, *arguments: str) -> None:
        command = program(tmp_path, job, *arguments)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.read_until("hourly running")

    def read_until(self, text: str) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            if text in line:
                return
        raise AssertionError(f"it ended without saying {text!r}")

    def end(self) -> tuple[int, str]:
        output, _ = self.process.communicate(timeout=60)
        return self.process.returncode, output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_sigterm_and_the_first_ctrl_c_stop_the_job(number: signal.Signals, tmp_path: Path) -> None:
    running = Running(tmp_path, "Job()")
    running.process.send_signal(number)

    code, output = running.end()

    assert code == 0
    assert "bids  STOPPED" in output


def test_a_job_outlives_who_reads_its_progress_and_can_be_stopped_then(tmp_path: Path) -> None:
    running = Running(tmp_path, "Job()", "--set", "checkpoint.interval=1 second")
    assert running.process.stderr
    running.process.stderr.close()
    running.process.stderr = None
    with pytest.raises(subprocess.TimeoutExpired):
        running.process.wait(1.2 * LINE_EVERY_MS / 1_000)  # by then it has had a line to print
    running.process.send_signal(signal.SIGTERM)

    code, output = running.end()

    assert code == 0
    assert "bids  STOPPED" in output


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_job_runs_to_its_end_with_its_standard_streams_closed(tmp_path: Path, closed: str) -> None:
    job = f"Job(JobResult(state='FINISHED')); open({str(tmp_path / 'seen')!r}, 'w').write('here'); print('printed')"
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *program(tmp_path, job)]

    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert result.returncode == 0, result.stderr
    assert (tmp_path / "seen").read_text() == "here", "what was written there went nowhere else"
    assert (" >&-" in f" {closed}") or "bids  FINISHED" in result.stdout


def test_letters_that_the_terminal_lacks_are_spelled(tmp_path: Path) -> None:
    job = "Job(JobResult(job='caf\\N{LATIN SMALL LETTER E WITH ACUTE}\\N{SNOWMAN}'))"
    command = ["env", "PYTHONIOENCODING=latin-1", *program(tmp_path, job)]

    result = subprocess.run(command, capture_output=True, timeout=60, check=False)

    assert result.returncode == 0, result.stderr
    assert "café\\u2603  FINISHED" in result.stdout.decode("latin-1")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_batch_run_which_cannot_be_stopped_is_cancelled_by_the_first(number: signal.Signals, tmp_path: Path) -> None:
    running = Running(tmp_path, "Job()", "--mode", "batch")
    running.process.send_signal(number)

    code, output = running.end()

    assert code == 130
    assert "bids  CANCELED" in output


def test_a_second_ctrl_c_cancels_while_the_stop_hangs_and_the_process_is_gone(tmp_path: Path) -> None:
    running = Running(tmp_path, "Job(on_stop=None)")
    running.process.send_signal(signal.SIGINT)
    running.read_until("stop hangs")
    running.process.send_signal(signal.SIGINT)

    code, output = running.end()

    assert code == 130
    assert "bids  CANCELED" in output


def test_the_process_is_gone_after_a_cancel_though_a_thread_never_returns(tmp_path: Path) -> None:
    job = "Job(JobResult(state='CANCELED')); threading.Thread(target=threading.Event().wait).start()"

    assert run(tmp_path, job).returncode == 130


def status(**changes: Any) -> Status:
    inputs = {"history": InputStatus(share=0.999, rows_per_second=5.0), "live": InputStatus(ended=True)}
    task = TaskStatusDocument(uid="hourly", subtask=0, status="running", batch=1, inputs=inputs, watermark=JANUARY_MS)
    document = {"job": "bids", "state": "RUNNING", "run": 1, "host": "", "pid": 0, "beat": 0, "written_ms": 0}
    return Status(**(document | {"tasks": (task,)} | changes))


def test_without_a_terminal_a_line_tells_how_the_job_goes() -> None:
    assert LogLines().next(status(latest_checkpoint=3, latest_checkpoint_ms=JANUARY_MS), JANUARY_MS + 1_500) == (
        "2025-01-01T00:00:01Z bids RUNNING; hourly running, batch 1, history 99 % 5 rows/s, live ended, "
        "watermark 2025-01-01T00:00:00Z; last checkpoint 3, 1.5 s ago"
    )


def test_without_a_terminal_a_line_has_the_figures_of_the_display() -> None:
    task = replace(status().tasks[0], state_bytes=2_048, state_rows=7, lag_ms=12_000, busy=0.8)
    now = status(tasks=(task,), rows_in=1_234, rows_out=1_000, rows_uncommitted=200, started_ms=JANUARY_MS)

    line = LogLines().next(now, JANUARY_MS + 62_000)
    display = views.status_lines(now, JANUARY_MS + 62_000, 60)

    for figure in ("rows 1,234 read, 5/s; 1,000 out, 800 committed", "state 2.0 KiB, 7 rows; lag 12.0 s"):
        assert figure in (line or "") and figure in display
    assert display[0] == "bids  RUNNING  run 1, for 1 min 2 s"
    assert "hourly  running  batch 1, busy 80 %" in display


def test_rows_of_state_that_spark_does_not_count_are_not_shown_as_none() -> None:
    task = replace(status().tasks[0], state_bytes=2_048, state_rows=None)
    assert views.state_and_lag(status(tasks=(task,))) == "state 2.0 KiB"
    counted = replace(task, state_rows=0)
    assert views.state_and_lag(status(tasks=(counted,))) == "state 2.0 KiB, 0 rows"
    assert views.state_and_lag(status(tasks=(task, counted))) == "state 4.0 KiB", "a part is no sum"


def test_a_job_that_has_ended_has_no_rates() -> None:
    line = LogLines().next(status(state="STOPPED"), JANUARY_MS)
    assert line is not None and "rows/s" not in line and "history 99 %, live ended" in line


def test_without_a_terminal_lines_come_on_changes_and_not_too_often() -> None:
    lines, now_ms = LogLines(), JANUARY_MS
    assert lines.next(status(), now_ms)
    assert lines.next(status(), now_ms + 10 * LINE_EVERY_MS) is None, "nothing has changed"
    changed = status(checkpoints_completed=1)
    assert lines.next(changed, now_ms + LINE_EVERY_MS - 1) is None, "it is too early"
    assert lines.next(changed, now_ms + LINE_EVERY_MS)
    assert lines.next(status(state="STOPPING"), now_ms + LINE_EVERY_MS), "a change of state does not wait"


def test_an_input_is_at_100_percent_only_when_it_has_been_read() -> None:
    assert views.share(InputStatus(share=0.9999)) == "99 %"
    assert views.share(InputStatus(share=1.0)) == "100 %"


def test_on_a_terminal_of_60_columns_the_display_never_wraps(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    environment = os.environ | {"COLUMNS": "60", "LINES": "24", "TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    command = program(tmp_path, "Job()")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=slave, env=environment)
    os.close(slave)
    shown = b""
    while shown.count(b"watermark") < 3:
        shown += os.read(master, 4096)
    process.terminate()
    while True:
        try:
            more = os.read(master, 4096)
        except OSError:  # what a terminal says when the other side is gone
            break
        if not more:
            break
        shown += more
    os.close(master)

    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode()).replace("\r", "\n").splitlines()
    assert process.wait(60) == 0
    assert max(map(len, lines)) < 60
    assert "  history  ━━━━━━━━╌╌╌╌╌╌╌╌   50 %         10 rows/s" in lines
    assert "Stopping: one last checkpoint. Ctrl-C again cancels." in lines
    assert lines[0] == "Starting job.py ...", "the screen is not blank while Spark starts"
    assert "bids: starting Spark ..." in lines


class Screen:
    """A terminal of 60 columns, and what was written on it."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        self.written = ""

    def run(self, job: str, command: list[str]) -> subprocess.Popen[bytes]:
        size = {"COLUMNS": "60", "LINES": "24", "TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
        environment = os.environ | size | {"JOB": job}
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.slave, env=environment)

    def read_until(self, *texts: str) -> str:
        """Return what is written from now on until all of it was."""
        begun = len(self.written)
        while not all(text in self.written[begun:] for text in texts):
            self.written += os.read(self.master, 4096).decode(errors="replace")
        return self.written[begun:]


UP = "\x1b[1A"
"""What goes up a line, to draw over it."""


def test_two_jobs_on_one_terminal_print_lines_until_one_is_alone_again(tmp_path: Path) -> None:
    screen = Screen()
    command = program(tmp_path, "Job()")
    first = screen.run("bids", command)
    screen.read_until(UP, "━")
    second = screen.run("clicks", command)
    os.close(screen.slave)
    screen.read_until("bids RUNNING; ", "clicks RUNNING; ")  # the first has given up its display by now
    together = screen.read_until("bids RUNNING; ")
    second.terminate()
    screen.read_until("clicks: Stopping: one last checkpoint.")
    screen.read_until(UP, "━")
    first.terminate()
    assert (first.wait(60), second.wait(60)) == (0, 0)
    os.close(screen.master)

    assert UP not in together
    assert max(map(len, together.splitlines())) < 60


def test_in_the_background_nothing_is_drawn_over_what_others_print(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp())
    with terminal.shared() as is_ours:
        assert is_ours()
        monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp() + 1)
        assert not is_ours()
