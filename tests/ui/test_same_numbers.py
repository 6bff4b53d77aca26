"""The same numbers from the page, REST, Flink's REST, metrics and the command line, of jobs that fare differently."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from rekindle.cli.verbs import rekindle
from rekindle.storage import liveness
from rekindle.storage.documents.status import Status
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore
from rekindle.storage.port import NotFound
from tests.cli.kit import ManualClock
from tests.crash.pipeline_kit import PipelineWorld
from tests.jobs import kit as jobs_kit
from tests.jobs.kit import until
from tests.jobs.test_backpressure import held_by
from tests.ui.kit import http
from tests.ui.test_pages import browser, browsing, page, playwright  # noqa: F401 # fixtures
from tests.ui.world import World

NONE = "\N{EN DASH}"
"""What the pages show where there is nothing to show."""

JOBS = ("healthy", "back-pressured", "failing")


def command(location: str, *arguments: str) -> Any:
    """What a verb prints as JSON."""
    # Another job of this storage is silent: the second look at it takes no time.
    clock = ManualClock(shows_ms=time.time_ns() // 1_000_000).clock()
    result = CliRunner().invoke(rekindle, [*arguments, "--storage", location, "--json"], obj=clock)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def metrics(address: str) -> dict[tuple[str, str], float]:
    """Name of a metric and of a job → its value; of subtasks, their sum."""
    found: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(http.get(f"{address}/metrics").text):
        for sample in family.samples:
            if "job_name" in sample.labels and sample.labels.get("state") is None:
                key = (sample.name, sample.labels["job_name"])
                found[key] = found.get(key, 0) + sample.value
    return found


def rounded(value: float, places: int) -> Decimal:
    """Return a figure as a browser rounds it: halves up, where Python rounds them to the even one."""
    return Decimal(value).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)


def rate(value: float | None) -> str:
    """Return what the pages show of a figure a second."""
    if value is None:
        return NONE
    return f"{rounded(value, 1)}" if value and abs(value) < 9.95 else f"{rounded(value, 0):,}"


def test_unread_bytes_are_shown_for_jobs_that_run(world: World, address: str) -> None:
    told = {job for metric, job in metrics(address) if metric == "rekindle_channel_unread_bytes"}
    ended = {"failed", "lost", "finished", "stopped"}
    assert not told & ended, "what a job that has ended left unread is no figure of now"
    assert "healthy" in told


def sized(size: float) -> str:
    """Return what the pages show of a number of bytes."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1_023.95:
            return f"{rounded(size, 0 if unit == 'B' or size >= 99.95 else 1)} {unit}"
        size /= 1_024
    return f"{rounded(size, 1)} GiB"


def moment(storage: str, target: str) -> LocalStore:
    """Copy what there is now while drivers go on: Spark makes files and folders and removes them again."""
    now, copied = LocalStore(storage), LocalStore(target)
    for entry in now.walk(""):
        with suppress(NotFound):
            copied.create(entry.path, now.read(entry.path))
    return copied


def check_same_numbers(tab: playwright.Page, address: str, location: str, name: str) -> None:
    """Read a job's numbers everywhere and compare them."""
    rest = http.get(f"{address}/api/v1/jobs/{name}").json()
    line, measured = rest["overview"], metrics(address)
    flink_id = next(job["jid"] for job in http.get(f"{address}/v1/jobs/overview").json()["jobs"] if job["name"] == name)
    flink = http.get(f"{address}/v1/jobs/{flink_id}").json()
    flink_checkpoints = http.get(f"{address}/v1/jobs/{flink_id}/checkpoints").json()
    listed = next(one for one in command(location, "list") if one["job"] == name)
    status = command(location, "status", name)
    checkpoints = command(location, "checkpoints", name)

    for shown in (listed, status):
        for field in (
            "state", "run", "rows_in", "rows_out", "rows_in_per_second", "rows_out_per_second", "rows_uncommitted",
            "lag_ms", "busy", "back_pressured", "state_rows", "state_bytes", "restarts_total", "batches",
        ):  # fmt: skip
            assert shown[field] == line[field], field
        assert shown["checkpoints"]["completed"] == line["checkpoints_completed"]
        assert shown["checkpoints"]["failed"] == line["checkpoints_failed"]
        assert shown["checkpoints"]["latest"] == line["latest_checkpoint"]
    assert (listed["error"] or {}).get("code") == (line["error"] or {}).get("code")

    counts = http.get(f"{address}/api/v1/jobs/{name}/checkpoints").json()["counts"]
    assert flink_checkpoints["counts"]["completed"] == counts["completed"] == line["checkpoints_completed"]
    assert [row["status"] for row in checkpoints].count("completed") == counts["completed"]
    latest = flink_checkpoints["latest"]["completed"]
    assert (latest and latest["id"]) == line["latest_checkpoint"]
    assert flink["state"] == "RUNNING"

    for metric, field in {
        "rekindle_job_rows_in": "rows_in",
        "rekindle_job_rows_out": "rows_out",
        "rekindle_job_rows_uncommitted": "rows_uncommitted",
        "rekindle_job_state_bytes": "state_bytes",
        "flink_jobmanager_job_numberOfCompletedCheckpoints": "checkpoints_completed",
        "flink_jobmanager_job_numberOfFailedCheckpoints": "checkpoints_failed",
        "flink_jobmanager_job_numRestarts": "restarts_total",
    }.items():
        assert measured.get((metric, name)) == line[field], metric
    if line["lag_ms"] is not None:
        assert measured["rekindle_job_watermark_lag_seconds", name] == line["lag_ms"] / 1_000
    back = [one["status"]["back_pressured"] for one in rest["subtasks"] if one["status"]["back_pressured"] is not None]
    held = sum(round(share * 1_000) for share in back)
    assert measured.get(("flink_taskmanager_job_task_backPressuredTimeMsPerSecond", name), 0) == held

    edges = http.get(f"{address}/api/v1/jobs/{name}/graph").json()["edges"]
    unread = sum(edge["unread_bytes"] or 0 for edge in edges)
    assert measured.get(("rekindle_channel_unread_bytes", name), 0) == unread
    assert sum(size for task in status["tasks"] for size in task["unread_bytes"].values()) == unread

    percentiles = http.get(f"{address}/api/v1/jobs/{name}/checkpoints/summary").json()
    assert status["checkpoint_summary"] == percentiles
    for row in checkpoints:
        one = http.get(f"{address}/api/v1/jobs/{name}/checkpoints/{row['id']}").json()
        if (one["overview"]["run"], one["overview"]["status"]) == (row["run"], row["status"]):
            assert row["subtasks"] == one["record"]["subtasks"]
    happened = http.get(f"{address}/api/v1/jobs/{name}/events?limit=5000").json()
    assert [(one["number"], one["time_ms"], one["error"]) for one in command(location, "events", name)] == [
        (one["number"], one["event"]["time_ms"], one["event"]["error"]) for one in happened
    ]
    assert [(run["run"], run["state"], run["duration_ms"]) for run in command(location, "runs", name)] == [
        (run["run"], run["state"], run["duration_ms"]) for run in http.get(f"{address}/api/v1/jobs/{name}/runs").json()
    ]

    tab.goto(f"{address}/#/jobs/{name}")
    tab.locator(".vertex").first.wait_for()

    def figure(label: str) -> str:
        return tab.locator(f"[data-figure='{label}']").inner_text().split("\n")[0]

    assert figure("Rows in / s") == rate(line["rows_in_per_second"])
    assert figure("Rows out / s") == rate(line["rows_out_per_second"])
    assert figure("Rows to commit") == (NONE if line["rows_uncommitted"] is None else f"{line['rows_uncommitted']:,}")
    assert figure("Restarts") == f"{line['restarts_total']:,}"
    for edge in edges:
        lying = f"{sized(edge['unread_bytes'])} unread" if edge["unread_bytes"] else None
        quick = None if edge["rows_per_second"] is None else f"{rate(edge['rows_per_second'])} / s"
        drawn = tab.locator(f"[data-edge='{edge['source']} {edge['target']}'] text").all_text_contents()
        assert drawn == [text for text in (quick, lying) if text], edge
    error = tab.locator("main .problem")
    assert error.count() >= 1 if line["error"] else error.count() == 0


@browsing
@pytest.mark.parametrize("name", JOBS)
def test_every_interface_shows_the_same_numbers(
    name: str,
    page: playwright.Page,  # noqa: F811
    address: str,
    world: World,
) -> None:
    check_same_numbers(page, address, world.store.location, name)


def no_such_customer(frame: Any) -> Any:
    """A task's rows, which none comes through."""
    from pyspark.sql import functions as F

    return frame.withColumn("v", F.raise_error(F.lit("no such customer <script>")).cast("long"))


@browsing
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("one_file_a_batch")
def test_three_jobs_on_spark_have_the_same_numbers_everywhere(
    spark: Any,
    page: playwright.Page,  # noqa: F811
    tmp_path: Path,
    serve: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage, gate = str(tmp_path / "state"), tmp_path / "gate"
    well = jobs_kit.World(tmp_path / "well")
    well.add_history(jobs_kit.rows(0, 90))
    well.add_live(jobs_kit.rows(2, 90))
    slow = PipelineWorld(tmp_path / "slow").fill()
    bad = PipelineWorld(tmp_path / "bad").fill()
    slow.name, bad.name = "slow", "bad"
    held = {"channel.max_in_flight_bytes": "1", "input.target_batch_duration": "1 ms", "checkpoint.interval": "0"}
    begun = {
        "well": well.hourly(name="well").start(spark, storage=storage, config={"checkpoint.interval": "0"}),
        "slow": slow.job(live=False, seen=held_by(str(gate))).start(spark, storage=storage, config=held),
        "bad": bad.job(live=False, seen=no_such_customer).start(
            spark, storage=storage, config={"restart.delay": "1 hour", "restart.delay_max": "1 hour"}
        ),
    }

    def stored(name: str) -> Status:
        """What the driver has written: a look at its handle would be ahead of that."""
        return JobStorage(LocalStore(storage), name).status() or Status(
            job=name, state="", run=0, host="", pid=0, beat=0, written_ms=0
        )

    def is_held(status: Status) -> bool:
        return any(one.uid == "enrich" and (one.back_pressured or 0) >= 0.5 for one in status.tasks)

    try:
        until(lambda: stored("well").rows_in == 180)
        for _ in range(2):
            begun["well"].checkpoint()
        until(lambda: stored("well").checkpoints_completed == 2)
        until(lambda: is_held(stored("slow")))
        until(lambda: stored("bad").next_attempt_ms is not None)
        beat = stored("well").beat
        until(lambda: stored("well").beat >= beat + 2)  # what a beat writes beside the heartbeat is there too
        # What there is at one moment: drivers go on, and heartbeats with them.
        copied = moment(storage, str(tmp_path / "moment"))
    finally:
        gate.touch()
        for handle in begun.values():
            handle.cancel()
    monkeypatch.setattr(liveness, "SILENCE_MS", 3_600_000)
    location = copied.location
    address = serve([copied])
    found = {one["job"]: one for one in http.get(f"{address}/api/v1/jobs").json()}

    assert found["slow"]["back_pressured"] >= 0.5
    assert (found["bad"]["error"] or {}).get("code") == "TASK_FAILED"
    assert found["well"]["error"] is None and found["well"]["rows_in"] == 180
    for name in begun:
        check_same_numbers(page, address, location, name)
