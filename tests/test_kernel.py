"""A real Jupyter kernel: a job is shown below its cell while it runs, and interrupting the cell stops it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

ROOT = Path(__file__).parents[1]
LIMIT_S = 240

BEGIN = """
import sys
sys.path[:0] = [{root!r}, {source!r}]
from pathlib import Path
import rekindle as rk
"""

WITHOUT_SPARK = """
from tests.runtime.kit import World
world = World(Path({folder!r}))
world.rows.available, world.rows.ended = 9, False
handle = world.start()
"""

ON_SPARK = """
from tests.jobs.kit import World, has_read, rows, until
world = World(Path({folder!r}))
world.add_history(rows(0, 60))
world.add_live(rows(1, 60))
job = world.hourly(name="bids")
handle = job.start(storage=world.storage, spark_config={{"spark.master": "local[1]"}})
"""

RESUMED = """
handle = job.start(storage=world.storage, spark_config={"spark.master": "local[1]"})
until(lambda: has_read(handle, 1) and handle.status().tasks[0].inputs["history"].ended)
handle.stop(drain=True)
"""


class Notebook:
    """The cells that are run in one kernel, one after the other."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self.manager = manager
        self.client = client

    def begin(self, code: str) -> str:
        """Run a cell, and do not wait for it."""
        return str(self.client.execute(code))

    def shown(self, cell: str) -> Iterator[dict[str, Any]]:
        """What a cell shows, up to its end."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            message = self.client.get_iopub_msg(timeout=LIMIT_S)
            if message["parent_header"].get("msg_id") != cell:
                continue
            kind, content = message["msg_type"], message["content"]
            assert kind != "error", "\n".join(content["traceback"])
            if kind == "status" and content["execution_state"] == "idle":
                return
            if kind in ("display_data", "update_display_data", "execute_result"):
                yield {"kind": kind, **content}
        raise AssertionError("the cell did not end")

    def run(self, code: str) -> list[dict[str, Any]]:
        """Run a cell to its end."""
        return list(self.shown(self.begin(code)))

    def failed(self, code: str) -> list[str]:
        """Run a cell that fails; return the lines of its traceback."""
        cell, lines = self.begin(code), []
        while True:
            message = self.client.get_iopub_msg(timeout=LIMIT_S)
            kind, content = message["msg_type"], message["content"]
            if message["parent_header"].get("msg_id") != cell:
                continue
            if kind == "error":
                lines = "\n".join(content["traceback"]).splitlines()
            if kind == "status" and content["execution_state"] == "idle":
                return lines

    def interrupted(self, code: str, ready: str) -> list[dict[str, Any]]:
        """What a cell shows that is interrupted once it shows `ready`."""
        shown, done = [], False
        for one in self.shown(self.begin(code)):
            shown.append(one)
            if not done and ready in str(one["data"]):
                self.manager.interrupt_kernel()
                done = True
        assert done
        return shown


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "jupyter"))
    manager = KernelManager()
    assert manager.kernel_spec is not None
    manager.kernel_spec.argv[0] = sys.executable
    manager.start_kernel(cwd=str(tmp_path))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=LIMIT_S)
        made = Notebook(manager, client)
        made.run(BEGIN.format(root=str(ROOT), source=str(ROOT / "src")))
        yield made
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def check_was_stopped(shown: list[dict[str, Any]]) -> None:
    """The status was drawn in one place again and again, to the end; then the result is shown."""
    *drawn, result = shown
    assert [one["kind"] for one in drawn] == ["display_data", *["update_display_data"] * (len(drawn) - 1)]
    assert len({one["transient"]["display_id"] for one in drawn}) == 1
    assert ": RUNNING</b>" in drawn[0]["data"]["text/html"]
    assert ": STOPPED</b>" in drawn[-1]["data"]["text/html"]
    assert result["kind"] == "execute_result"
    assert ": STOPPED</b>" in result["data"]["text/html"]


def test_interrupting_the_cell_that_shows_a_job_stops_it(notebook: Notebook, tmp_path: Path) -> None:
    notebook.run(WITHOUT_SPARK.format(folder=str(tmp_path)))
    shown = notebook.interrupted("handle.progress()", ready="<td>running</td>")
    check_was_stopped(shown)
    (again,) = notebook.run("handle")
    assert again["data"]["text/html"] == shown[-1]["data"]["text/html"]
    # the kernel is as it was: the next cell can be interrupted as any
    sleep = (
        "import time\ntry:\n    display('ready')\n    time.sleep(1e6)\nexcept KeyboardInterrupt:\n    display('done')"
    )
    assert "done" in str(notebook.interrupted(sleep, ready="ready")[-1])


def test_an_error_in_a_cell_ends_with_what_to_do_next(notebook: Notebook) -> None:
    *_, sentence, advice = notebook.failed("rk.Job('bids').start()")
    assert "[TASK_MISSING] The job 'bids' has no task." in sentence
    assert advice == "next: Decorate a function with @job.task(source, ...)."
    # `run` has it in its message, for a terminal too: once is enough.
    lines = notebook.failed("rk.Job('bids').run()")
    assert lines[-1] == advice and lines.count(advice) == 1


@pytest.mark.spark
@pytest.mark.slow
def test_a_notebook_runs_a_job_on_spark_shows_it_and_stops_it(notebook: Notebook, tmp_path: Path) -> None:
    notebook.run(ON_SPARK.format(folder=str(tmp_path)))
    shown = notebook.interrupted("handle.progress()", ready="<td>running</td>")
    check_was_stopped(shown)
    assert "live unbounded" in shown[0]["data"]["text/html"]
    (result,) = notebook.run(RESUMED)
    assert "bids: DRAINED" in result["data"]["text/html"]
    (same,) = notebook.run("world.output() == world.expected()")
    assert same["data"]["text/plain"] == "True"
