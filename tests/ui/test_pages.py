"""The pages of `rekindle ui`, driven in a real Chromium."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from rekindle.logs.lines import LogLine
from rekindle.storage import layout
from rekindle.ui.security import Policy
from tests.ui.conftest import served
from tests.ui.kit import Driver, good, http
from tests.ui.world import HOSTILE, World

if TYPE_CHECKING:
    from playwright import sync_api as playwright
else:
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


def watched(page: playwright.Page, servers: list[str]) -> list[str]:
    """What the page will complain of, and what it will ask of any but these servers."""
    complaints: list[str] = []
    page.on(
        "console",
        lambda said: (
            complaints.append(said.text)
            if said.type in {"error", "warning"} and "Failed to load resource" not in said.text
            else None
        ),
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))

    def own(url: str) -> bool:
        return any(url.startswith(f"{server}/") for server in servers)

    page.on("request", lambda asked: None if own(asked.url) else complaints.append(asked.url))
    return complaints


@pytest.fixture
def page(browser: playwright.Browser, servers: list[str]) -> Iterator[playwright.Page]:
    """A page that must neither complain nor ask anything but the servers of its test."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    complaints = watched(page, servers)
    page.set_default_timeout(60_000)
    yield page
    page.close()
    assert complaints == []


@browsing
def test_a_page_that_asks_another_server_is_seen(browser: playwright.Browser, address: str, world: World) -> None:
    page = browser.new_page()
    complaints = watched(page, [address])
    page.goto(address)
    assert complaints == []

    with served([world.store], Policy()) as other:
        page.goto(f"{other}/healthz")
        page.close()
    assert f"{other}/healthz" in complaints


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
def test_a_silent_job_stands_out_among_the_others(page: playwright.Page, address: str) -> None:
    page.goto(address)
    silent = page.locator("section:has(#attention) .problem", has=page.locator("[data-state=SILENT]"))
    silent.wait_for()  # the server looks twice, three seconds apart
    assert "gives no sign of life" in silent.inner_text()
    names = [text.split()[0] for text in page.locator("tbody tr").all_inner_texts()]
    assert names.index("silent") < min(names.index(name) for name in ("healthy", "back-pressured", "finished"))
    assert "bad" in (page.locator("tbody tr", has_text="silent").get_attribute("class") or "")


@browsing
def test_what_is_hostile_is_shown_as_text(page: playwright.Page, address: str) -> None:
    page.goto(address)
    page.get_by_text("no such customer <script>document.title='owned'</script>").first.wait_for()
    page.goto(f"{address}/#/jobs/failing/history")
    page.locator(".event").first.wait_for()
    assert page.title() != "owned"
    assert page.locator("main img, main script").count() == 0


@browsing
def test_hostile_names_of_jobs_and_tasks_are_shown_as_text(
    page: playwright.Page, tmp_path: Path, serve: Callable[..., str]
) -> None:
    name = "<img src=x onerror=\"document.title='owned'\">"  # no start takes it, but others may write into a storage
    world = World(str(tmp_path))
    written = world.healthy("job")
    task = replace(written.status.tasks[0], uid=name)
    written.storage.replace(layout.status("job"), replace(written.status, tasks=(task,)))
    world.store.replace(layout.identity(name), world.store.read(layout.identity("job")))
    address = serve([world.store])

    page.goto(address)
    link = page.locator("tbody a", has_text=name)
    link.wait_for()
    assert "UNREADABLE" in page.locator("section:has(#attention)").inner_text()
    link.click()
    page.get_by_text("JOB_UNKNOWN").wait_for()
    page.goto(f"{address}/#/jobs/job")
    page.locator("main tbody th", has_text=name).wait_for()
    assert page.locator("main img, main script").count() == 0
    assert "owned" not in page.title()

    flink = http.get(f"{address}/v1/jobs/overview")
    metrics = http.get(f"{address}/metrics")
    assert name in {job["name"] for job in flink.json()["jobs"]}
    assert flink.headers["content-type"] == "application/json"
    assert metrics.headers["content-type"].startswith("text/plain")


@browsing
def test_the_end_of_the_log_of_a_run_is_shown_as_text(page: playwright.Page, address: str) -> None:
    page.goto(f"{address}/#/jobs/failing/history")
    log = page.get_by_label("Lines of the log")
    lines = log.locator(".log-line")
    lines.last.wait_for()
    assert "No such customer <script>" in lines.last.inner_text()
    assert log.evaluate("box => box.scrollTop + box.clientHeight >= box.scrollHeight - 1"), "the newest is in sight"
    assert lines.count() == 200
    assert log.locator("script, img").count() == 0
    page.get_by_role("group", name="Which lines").get_by_text("Errors", exact=True).click()
    lines.nth(1).wait_for(state="detached")
    page.get_by_role("button", name="Only its own").last.click()
    page.get_by_text("rekindle logs failing --run 1").wait_for()
    page.get_by_role("group", name="Which lines").get_by_text("All", exact=True).click()
    page.locator(".log-line", has_text="Run 1 began.").wait_for()
    assert lines.count() == 1
    assert page.title() != "owned"


@browsing
def test_no_task_of_a_lost_job_seems_to_run(page: playwright.Page, address: str) -> None:
    page.goto(f"{address}/#/jobs/lost")
    page.get_by_text("3 subtasks, as last heard of").wait_for()
    page.locator("[data-vertex='task:hourly']").wait_for()
    assert page.locator("main .badge.good").count() == 0
    assert page.locator("tbody .badge").all_inner_texts() == ["was running"] * 3
    assert "was running" in (page.locator("[data-vertex='task:hourly']").get_attribute("aria-label") or "")
    page.locator(".chart").first.wait_for()  # its last minutes, asked for by a request of their own


@browsing
def test_a_channel_that_holds_a_task_back_is_marked(page: playwright.Page, address: str) -> None:
    page.goto(f"{address}/#/jobs/back-pressured")
    page.locator(".vertex").first.wait_for()
    assert page.locator(".edge.full").count() == 1
    page.goto(f"{address}/#/jobs/healthy")
    page.get_by_role("heading", name="healthy").wait_for()
    page.locator(".vertex").first.wait_for()
    assert page.locator(".edge.full").count() == 0


@browsing
def test_the_numbers_of_a_page_are_those_of_rest(page: playwright.Page, address: str) -> None:
    overview = http.get(f"{address}/api/v1/jobs/healthy").json()["overview"]
    page.goto(f"{address}/#/jobs/healthy")
    page.locator(".vertex").first.wait_for()
    figure = page.locator("[data-figure='Rows in / s']", has_text=f"{overview['rows_in_per_second']:,.0f}")
    figure.wait_for()
    shown = figure.inner_text()
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
def test_a_small_line_shows_what_a_job_read_before_the_page_was_opened(page: playwright.Page, address: str) -> None:
    page.goto(address)
    page.locator("tr", has_text="healthy").locator(".sparkline path").wait_for()
    assert page.locator("tr", has_text="finished").locator(".sparkline").count() == 0


@browsing
def test_a_long_name_pushes_no_figure_out_of_sight(
    page: playwright.Page, tmp_path: Path, serve: Callable[..., str]
) -> None:
    world = World(str(tmp_path))
    world.healthy("a" * 100)
    page.goto(serve([world.store]))
    page.locator("tbody tr").first.wait_for()
    assert page.locator(".scroll").evaluate("box => box.scrollWidth <= box.clientWidth")


@browsing
def test_a_server_that_is_away_makes_no_page_scroll_sideways(page: playwright.Page, address: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{address}/#/jobs/healthy")
    page.locator(".vertex").first.wait_for()
    page.route("**/api/**", lambda route: route.abort())
    page.get_by_text("The server has not answered for").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.unroute_all(behavior="wait")


@browsing
def test_a_reader_without_the_token_is_asked_for_it_until_it_is_right(
    browser: playwright.Browser, tmp_path: Path, serve: Callable[..., str]
) -> None:
    world = World(str(tmp_path))
    world.healthy("job")
    address = serve([world.store], host="0.0.0.0", token="correct horse")
    signed = {"username": "any", "password": "correct horse"}
    with browser.new_context(http_credentials=signed) as context:
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.add_init_script("sessionStorage.setItem('rekindle.token', 'an old one')")
        late: list[playwright.Route] = []
        page.route("**/api/v1/storages", lambda route: route.continue_() if late else late.append(route))
        page.goto(address)
        dialog = page.locator("dialog")
        dialog.get_by_text("The token that this tab keeps is not the right one").wait_for()
        page.keyboard.press("Escape")
        dialog.wait_for(state="detached")
        with page.expect_response("**/api/v1/storages") as refused:
            late[0].continue_()
        assert refused.value.status == 401
        page.get_by_role("button", name="Enter the token").first.click()
        dialog.locator("input").fill("correct horse")
        page.keyboard.press("Enter")
        page.locator("tbody tr").first.wait_for()
        assert page.get_by_role("button", name="Enter the token").count() == 0


@browsing
def test_a_trace_stays_open_while_the_log_grows_and_old_lines_leave(
    page: playwright.Page, tmp_path: Path, serve: Callable[..., str]
) -> None:
    world = World(str(tmp_path))
    storage = world.healthy("job").storage
    page.goto(f"{serve([world.store])}/#/jobs/job/history")
    page.locator(".log-line summary").click()
    trace = page.locator(".log-line details[open] pre")
    assert HOSTILE in trace.inner_text()

    lines = [LogLine(time_ms=1, level="INFO", logger="a.b", message=f"<b>more</b> {n}") for n in range(100)]
    data = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    storage.store.replace(layout.log_piece("job", 2, 2), data)
    page.get_by_text("<b>more</b> 99").wait_for()
    assert trace.count() == 1
    assert page.locator(".log").evaluate("box => box.scrollTop + box.clientHeight >= box.scrollHeight - 1")


@browsing
def test_a_server_that_only_reads_offers_no_actions(page: playwright.Page, address: str) -> None:
    page.goto(f"{address}/#/jobs/healthy")
    page.locator(".vertex").first.wait_for()
    assert page.locator("[data-action]").count() == 0


@browsing
def test_an_action_is_asked_for_by_keyboard_with_the_token_alone(
    page: playwright.Page, tmp_path: Path, serve: Callable[..., str]
) -> None:
    driver = Driver(World(str(tmp_path)), "job", good)
    address = serve([driver.storage.store], allow_actions=True, token="correct horse")
    page.add_init_script(
        "const ask = window.fetch; window.asked = [];"
        "window.fetch = (url, how) => (window.asked.push([how?.method, how?.headers]), ask(url, how));"
    )
    page.goto(f"{address}/#/jobs/job")
    page.locator("[data-action=checkpoint]").focus()
    page.keyboard.press("Enter")
    dialog = page.locator("dialog")
    dialog.locator("input").fill("wrong")
    page.keyboard.press("Enter")
    dialog.get_by_text("The token is not the right one").wait_for()
    assert driver.requests == []

    dialog.locator("input").fill("correct horse")
    page.keyboard.press("Enter")
    dialog.get_by_text("Done.").wait_for()
    said = dialog.inner_text()
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    driver.end()

    assert "Checkpoint 41 is complete. The job is RUNNING. a note" in said
    assert [one.verb for one in driver.requests] == ["checkpoint"]
    assert page.evaluate("document.activeElement.dataset.action") == "checkpoint"
    asked = page.evaluate("window.asked")
    sent = [headers for method, headers in asked if method == "POST"]
    assert [headers["X-Rekindle-Token"] for headers in sent] == ["wrong", "correct horse"]
    assert not any("Authorization" in headers for headers in sent)


@browsing
def test_pages_show_several_storages_what_is_unreadable_and_a_server_that_is_away(
    page: playwright.Page, tmp_path: Path, serve: Callable[..., str]
) -> None:
    one, two = World(str(tmp_path / "one")), World(str(tmp_path / "two"))
    one.healthy("orders")
    two.lost("orders")
    two.healthy("broken")
    two.store.replace(layout.identity("broken"), b"{")
    page.goto(serve([one.store, two.store]))
    rows = page.locator("tbody tr")
    rows.filter(has_text=two.store.location).first.wait_for()  # what the storages are comes by a request of its own
    assert [text.split()[:2] for text in rows.all_inner_texts()] == [
        ["orders", two.store.location],
        ["broken", two.store.location],
        ["orders", one.store.location],
    ]
    assert "OBJECT_CORRUPT" in page.locator("section:has(#attention)").inner_text()

    again = "document.dispatchEvent(new Event('visibilitychange'))"  # the page reads at once when it is looked at again
    page.route("**/api/**", lambda route: route.abort())
    for _ in range(2):
        with page.expect_event("requestfailed"):
            page.evaluate(again)
    page.get_by_text("The server has not answered for").wait_for()
    assert rows.count() == 3, "what it said last stays"
    page.unroute("**/api/**")
    page.evaluate(again)
    page.get_by_text("The server has not answered for").wait_for(state="detached")

    page.goto(f"{page.url.partition('#')[0]}#/jobs/0~orders/savepoints")
    page.locator(".disclose").first.click()
    page.get_by_text("clean/1").first.wait_for()
