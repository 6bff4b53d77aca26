"""What a notebook needs: a cell that is run again, and answers that can be read. Needs no Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rekindle as rk
from rekindle.errors import DefinitionError
from rekindle.handle import JobHandle
from rekindle.results import Checkpoint, JobStatus, Savepoint
from rekindle.storage.documents.status import Failure, InputStatus, Status, TaskStatusDocument
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore

CELL = """
history = job.source("history", rk.Files(folder), event_time="ts")

@job.task(history)
def work(history):
    return answer

job.sink("out", work, rk.sinks.Parquet(folder))
"""


def run_cell(job: rk.Job, folder: str, answer: Any) -> None:
    """As a kernel does: code without a file."""
    exec(compile(CELL, "<cell>", "exec"), {"job": job, "rk": rk, "folder": folder, "answer": answer})


def test_a_cell_that_is_run_again_replaces_what_it_has_defined() -> None:
    job = rk.Job("notebook")
    run_cell(job, "before", 1)
    run_cell(job, "after", 2)
    assert [len(items) for items in (job.graph().sources, job.graph().tasks, job.graph().sinks)] == [1, 1, 1]
    definition = job.definition()
    assert definition.sources["history"].spec.path == "after"
    assert definition.functions["work"](None) == 2
    assert "history -&gt; work -&gt; out" in job._repr_html_()


def test_in_a_file_a_uid_that_comes_twice_is_a_mistake() -> None:
    job = rk.Job("script")
    for _ in range(2):
        job.source("history", rk.Files("folder"))
    with pytest.raises(DefinitionError, match="given to two sources"):
        job.graph()


def test_handles_status_and_results_can_be_read(tmp_path: Path) -> None:
    result = rk.JobResult(job="bids", state="FINISHED", run=2, checkpoint=7, notes=("a note",))
    assert repr(result) == "<bids: FINISHED in run 2, checkpoint 7, a note>"
    handle = JobHandle(JobStorage(LocalStore(str(tmp_path)), "bids"), ended=result)
    assert repr(handle) == repr(result)
    task = TaskStatusDocument(
        uid="work", subtask=0, status="running", batch=4, inputs={"a": InputStatus(share=0.5), "b": InputStatus()}
    )
    status = Status(job="bids", state="RUNNING", run=2, host="h", pid=1, beat=1, written_ms=0, tasks=(task,))
    assert repr(JobStatus.of(status)).splitlines() == [
        "bids: RUNNING in run 2, no checkpoint yet",
        "  work/0: running, batch 4; a 50 %, b unbounded",
    ]
    over = JobStatus.of(replace(status, state="FAILED"))
    assert "  work/0: was running, batch 4;" in repr(over)
    assert "<td>was running</td>" in over._repr_html_()


HOSTILE = "<script>alert('x')</script>&\""


def test_what_a_notebook_shows_is_text_whatever_it_holds(tmp_path: Path) -> None:
    task = TaskStatusDocument(
        uid=HOSTILE,
        subtask=0,
        status=HOSTILE,
        batch=1_234,
        watermark=1_735_689_600_000,
        inputs={HOSTILE: InputStatus(share=0.5), "live": InputStatus(), "quiet": InputStatus(idle=True)},
    )
    failed = Failure(code=HOSTILE, message=HOSTILE, next_step=HOSTILE, failed_ms=0)
    status = JobStatus.of(
        Status(
            job=HOSTILE, state="RUNNING", run=2, host="h", pid=1, beat=1, written_ms=0, tasks=(task,), failure=failed
        )
    )
    result = rk.JobResult(
        job=HOSTILE,
        state="FAILED",
        run=2,
        savepoint=HOSTILE,
        notes=(HOSTILE,),
        error={"code": HOSTILE, "message": HOSTILE, "next_step": HOSTILE, "parameters": {}},
    )
    handle = JobHandle(JobStorage(LocalStore(str(tmp_path)), "bids"), ended=result)
    shown = [one._repr_html_() for one in (status, result, handle, Checkpoint(3, HOSTILE), Savepoint(HOSTILE, 3))]
    for one in shown:
        assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&amp;&quot;" in one
        assert not any(bad in one for bad in ("<script", "'x'", '&"'))
    assert '<progress max="1" value="0.5000"></progress> 50 %<br>live unbounded<br>quiet idle' in shown[0]
    assert "<td>1,234</td>" in shown[0] and "2025-01-01 00:00:00 UTC" in shown[0]
    assert shown[1] == shown[2]
