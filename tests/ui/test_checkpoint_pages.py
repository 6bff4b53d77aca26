"""The pages of checkpoints and savepoints, in a real Chromium: what they show is what REST says."""

from __future__ import annotations

from typing import Any

from tests.ui.kit import http
from tests.ui.test_pages import browser, browsing, page, playwright  # noqa: F401 # fixtures

NONE = "\N{EN DASH}"
"""What the pages show where there is nothing to show."""


def cards(tab: playwright.Page, caption: str) -> list[dict[str, str]]:
    """Return the rows of a table: the label of a column → what stands in it."""
    table = tab.locator("table", has=tab.locator("caption", has_text=caption)).last
    table.locator("tbody tr").first.wait_for()
    return table.evaluate(
        """table => {
            const labels = [...table.tHead.rows[0].cells].map((cell) => cell.innerText);
            return [...table.tBodies[0].rows]
              .filter((row) => !row.classList.contains("more"))
              .map((row) => Object.fromEntries([...row.cells].map((cell, i) => [labels[i], cell.innerText.trim()])));
        }"""
    )


def facts(tab: playwright.Page) -> dict[str, str]:
    """Return the facts that a page lists."""
    names, values = tab.locator(".facts dt").all_inner_texts(), tab.locator(".facts dd").all_inner_texts()
    return dict(zip(names, values, strict=True))


def failed_checkpoint(address: str) -> dict[str, Any]:
    """Return a checkpoint that failed while one of its subtasks had not acknowledged it."""
    history = http.get(f"{address}/api/v1/jobs/failing/checkpoints?limit=1000").json()["history"]
    return next(one for one in history if one["status"] == "failed")


@browsing
def test_a_checkpoint_that_failed_waits_for_no_subtask(page: playwright.Page, address: str) -> None:  # noqa: F811
    failed = failed_checkpoint(address)
    page.goto(f"{address}/#/jobs/failing/checkpoints/history/{failed['id']}")

    rows = cards(page, "Subtasks of this checkpoint")
    assert [row["Acknowledged"] == "never" for row in rows] == [False, False, True]
    assert page.locator("[data-state=in_progress]").count() == 0


@browsing
def test_a_checkpoint_has_the_figures_of_its_subtasks(page: playwright.Page, address: str) -> None:  # noqa: F811
    found = http.get(f"{address}/api/v1/jobs/healthy/checkpoints/7").json()
    page.goto(f"{address}/#/jobs/healthy/checkpoints/history/7")

    rows = cards(page, "Subtasks of this checkpoint")
    hourly = found["record"]["subtasks"][2]
    assert [row["Subtask"] for row in rows] == ["clean/0", "clean/1", "hourly/0"]
    assert rows[2]["Acknowledged"] == f"{hourly['acknowledged_ms']} ms"
    assert rows[2]["Alignment"] == f"{hourly['alignment_ms']} ms"
    assert rows[2]["Snapshot"] == f"{hourly['sync_ms']} ms"
    assert rows[2]["In flight"] == f"{hourly['in_flight_bytes'] / 1024:.1f} KiB"
    assert [row["Unaligned"] for row in rows] == ["no", "no", "yes"]
    spread = {row["Figure"]: row for row in cards(page, "Least, average and most")}
    assert spread["Acknowledged"]["Max"] == f"{max(one['acknowledged_ms'] for one in found['record']['subtasks'])} ms"
    assert cards(page, "How long each sink took to commit") == [
        {"Sink": "rows", "Commit": "37 ms"},
        {"Sink": "counts", "Commit": "9 ms"},
    ]
    assert page.locator("[data-figure='Acknowledged']").inner_text() == "3 / 3"
    assert page.locator("[data-figure='Commit of the sinks']").inner_text() == f"{found['overview']['commit_ms']} ms"


@browsing
def test_the_summary_has_the_percentiles_of_rest(page: playwright.Page, address: str) -> None:  # noqa: F811
    summary = http.get(f"{address}/api/v1/jobs/healthy/checkpoints/summary").json()
    page.goto(f"{address}/#/jobs/healthy/checkpoints/summary")

    rows = {row["Figure"]: row for row in cards(page, "How the figures of completed checkpoints are spread")}
    commit = summary["commit_ms"]
    assert page.locator("#summary + .note").inner_text() == f"over the latest {summary['count']} completed checkpoints"
    assert len(rows) == 6
    for label, part in {"Min": "min", "Max": "max", "p50": "p50", "p90": "p90", "p99": "p99", "p99.9": "p999"}.items():
        assert rows["Commit of the sinks"][label] == f"{commit[part]:.0f} ms"


@browsing
def test_the_configuration_is_that_of_rest(page: playwright.Page, address: str) -> None:  # noqa: F811
    config = http.get(f"{address}/api/v1/jobs/healthy/checkpoints/config").json()
    page.goto(f"{address}/#/jobs/healthy/checkpoints/configuration")

    rows = {row["Setting"]: row["Value"] for row in cards(page, "Settings of checkpoints")}
    assert (config["interval_ms"], config["mode"], config["retained"]) == (30_000, "unaligned", 3)
    assert (rows["interval"], rows["mode"], rows["retained"]) == ("30 s", "unaligned", "3")


@browsing
def test_a_savepoint_shows_what_is_in_it(page: playwright.Page, address: str) -> None:  # noqa: F811
    contents = http.get(f"{address}/api/v1/jobs/healthy/savepoints/40/contents").json()
    state = contents["subtasks"][2]["state"][0]
    page.goto(f"{address}/#/jobs/healthy/savepoints")
    page.locator(".disclose").first.click()

    rows = cards(page, "What is in it")
    assert [row["Subtask"] for row in rows] == ["clean/0", "clean/1", "hourly/0"]
    assert (rows[0]["State rows"], rows[0]["State"]) == (NONE, NONE)
    assert (rows[2]["State rows"], rows[2]["State"]) == ("2,000", f"{state['bytes']} B")
    assert cards(page, "Operators of hourly/0") == [
        {"Operator": "stateStoreSave 0", "Rows": "2,000", "Bytes": f"{state['bytes']} B", "Partitions": "2"}
    ]
    shown = facts(page)
    assert shown["Size"] == "9.4 MiB"
    assert shown["In-flight data"] == f"{contents['in_flight_bytes']} B"
    assert (shown["Drained"], shown["Finished tasks"]) == ("no", "history_once")
