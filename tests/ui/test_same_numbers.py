"""The same numbers from the page, REST, Flink's REST, metrics and the command line, of jobs that fare differently."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from rekindle.cli.verbs import rekindle
from rekindle.monitoring import sign_of_life
from tests.ui.kit import http
from tests.ui.test_pages import browser, browsing, page, playwright  # noqa: F401 # fixtures
from tests.ui.world import World

JOBS = ("healthy", "back-pressured", "failing")


def command(world: World, *arguments: str) -> Any:
    """What a verb prints as JSON."""
    result = CliRunner().invoke(rekindle, [*arguments, "--storage", world.store.location, "--json"])
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


@browsing
@pytest.mark.parametrize("name", JOBS)
def test_every_interface_shows_the_same_numbers(
    name: str,
    page: playwright.Page,  # noqa: F811
    address: str,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sign_of_life, "BEATS_MS", 100)  # another job of this storage is silent: a second look is soon
    rest = http.get(f"{address}/api/v1/jobs/{name}").json()
    line, measured = rest["overview"], metrics(address)
    flink_id = next(job["jid"] for job in http.get(f"{address}/v1/jobs/overview").json()["jobs"] if job["name"] == name)
    flink = http.get(f"{address}/v1/jobs/{flink_id}").json()
    flink_checkpoints = http.get(f"{address}/v1/jobs/{flink_id}/checkpoints").json()
    listed = next(one for one in command(world, "list") if one["job"] == name)
    status = command(world, "status", name)
    checkpoints = command(world, "checkpoints", name)

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
    assert flink_checkpoints["latest"]["completed"]["id"] == line["latest_checkpoint"]
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
        assert measured[metric, name] == line[field], metric
    assert measured["rekindle_job_watermark_lag_seconds", name] == line["lag_ms"] / 1_000
    back = [one["status"]["back_pressured"] for one in rest["subtasks"] if one["status"]["back_pressured"] is not None]
    assert measured["flink_taskmanager_job_task_backPressuredTimeMsPerSecond", name] == round(sum(back) * 1_000)

    page.goto(f"{address}/#/jobs/{name}")
    page.locator(".vertex").first.wait_for()

    def figure(label: str) -> str:
        return page.locator(f"[data-figure='{label}']").inner_text().split("\n")[0]

    assert figure("Rows in / s") == f"{line['rows_in_per_second']:,.0f}"
    assert figure("Rows out / s") == f"{line['rows_out_per_second']:,.0f}"
    assert figure("Rows to commit") == f"{line['rows_uncommitted']:,}"
    assert figure("Restarts") == f"{line['restarts_total']:,}"
    error = page.locator("main .problem")
    assert error.count() >= 1 if line["error"] else error.count() == 0
