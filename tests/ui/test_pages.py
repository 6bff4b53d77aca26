"""The pages of `rekindle ui`, driven in a real Chromium."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from tests.ui.kit import http

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
VENDOR = Path(str(resources.files("rekindle.ui"))) / "static" / "vendor"

browsing = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium (Debian: apt-get install chromium)")


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: playwright.Browser, address: str) -> Iterator[playwright.Page]:
    """A page that must neither complain nor ask another host for anything."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text) if said.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda asked: None if asked.url.startswith(address) else complaints.append(asked.url))
    page.set_default_timeout(60_000)
    yield page
    page.close()
    assert complaints == []


def test_the_vendored_libraries_are_those_of_their_table() -> None:
    table = dict(
        re.findall(r"^\| `([^`]+)` .* `([0-9a-f]{64})` \|$", (VENDOR / "VENDORED.md").read_text(), re.MULTILINE)
    )
    assert table == {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in VENDOR.iterdir()
        if file.suffix in {".js", ".css"}
    }


@browsing
def test_a_lost_and_a_failed_job_stand_first_with_what_to_do(page: playwright.Page, address: str) -> None:
    page.goto(address)
    attention = page.locator("section:has(#attention) .problem")
    attention.first.wait_for()
    texts = attention.all_inner_texts()
    lost = next(text for text in texts if text.startswith("LOST"))
    failed = next(text for text in texts if text.startswith("FAILED"))
    assert "rekindle run" in lost
    assert "TASK_FAILED" in failed and "Fix the cause." in failed
    assert page.locator("tbody tr").first.inner_text().startswith("lost")
    assert "!" in page.title()


@browsing
def test_what_is_hostile_is_shown_as_text(page: playwright.Page, address: str) -> None:
    page.goto(address)
    page.get_by_text("no such customer <script>document.title='owned'</script>").first.wait_for()
    page.goto(f"{address}/#/jobs/failing/history")
    page.locator(".event").first.wait_for()
    assert page.title() != "owned"
    assert page.locator("main img, main script").count() == 0


@browsing
def test_the_numbers_of_a_page_are_those_of_rest(page: playwright.Page, address: str) -> None:
    overview = http.get(f"{address}/api/v1/jobs/healthy").json()["overview"]
    page.goto(f"{address}/#/jobs/healthy")
    page.locator(".vertex").first.wait_for()
    shown = page.locator("[data-figure='Rows in / s']").inner_text()
    assert shown.split("\n") == [f"{overview['rows_in_per_second']:,.0f}", f"{overview['rows_in']:,} in all"]
    assert page.locator("[data-figure='Rows to commit']").inner_text() == f"{overview['rows_uncommitted']:,}"
    graph = http.get(f"{address}/api/v1/jobs/healthy/graph").json()
    assert page.locator(".vertex").count() == len(graph["vertices"])
    assert page.locator(".edge").count() == len(graph["edges"])

    counts = http.get(f"{address}/api/v1/jobs/healthy/checkpoints").json()["counts"]
    page.goto(f"{address}/#/jobs/healthy/checkpoints")
    page.locator("[data-figure='Completed']").wait_for()
    assert page.locator("[data-figure='Completed']").inner_text() == f"{counts['completed']:,}"
    assert page.locator("[data-figure='Failed']").inner_text() == f"{counts['failed']:,}"


@browsing
def test_the_keyboard_reaches_a_task_and_shows_what_it_is(page: playwright.Page, address: str) -> None:
    page.goto(f"{address}/#/jobs/healthy")
    task = page.locator("[data-vertex='task:hourly']")
    task.wait_for()
    task.focus()
    page.keyboard.press("Enter")
    page.locator(".details").wait_for()
    assert "task hourly" in page.locator(".details").inner_text()
    assert page.evaluate("document.activeElement.dataset.vertex") == "task:hourly"


@browsing
def test_no_page_scrolls_sideways_on_a_telephone(page: playwright.Page, address: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    for path in (
        "",
        "jobs/failing",
        "jobs/failing/checkpoints/history",
        "jobs/failing/history",
        "jobs/failing/settings",
    ):
        page.goto(f"{address}/#/{path}")
        page.locator("main .panel, main .problem").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


@browsing
def test_a_server_that_only_reads_offers_no_actions(page: playwright.Page, address: str) -> None:
    page.goto(f"{address}/#/jobs/healthy")
    page.locator(".vertex").first.wait_for()
    assert page.locator("[data-action]").count() == 0
