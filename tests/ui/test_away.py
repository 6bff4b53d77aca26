"""What pages show where something is away, gone, or speaks of another time: in a real Chromium."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from rekindle.storage import layout
from tests.ui.kit import Driver, good, proxied
from tests.ui.test_pages import browser, browsing, page, playwright, watched  # noqa: F401 # fixtures
from tests.ui.world import World, Written

AGAIN = "document.dispatchEvent(new Event('visibilitychange'))"
"""The page reads at once when it is looked at again."""


@contextmanager
def beating(job: Written, ahead_ms: int) -> Iterator[None]:
    """Let a job beat whose driver's clock is ahead."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(0.2):
            now_ms = time.time_ns() // 1_000_000 + ahead_ms
            job.status = replace(job.status, beat=job.status.beat + 1, written_ms=now_ms)
            job.storage.replace(layout.status(job.storage.job), job.status)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@browsing
def test_a_storage_that_is_away_is_said_and_hides_no_job_of_another(
    page: playwright.Page,  # noqa: F811
    tmp_path: Path,
    serve: Callable[..., str],
) -> None:
    there, away = World(str(tmp_path / "there")), World(str(tmp_path / "away"))
    there.healthy("orders")
    away.lost("bids")
    (tmp_path / "away").rename(tmp_path / "elsewhere")

    page.goto(serve([there.store, away.store]))

    told = page.get_by_label("Storages that cannot be read")
    told.get_by_text("STORAGE_MISSING").wait_for()
    assert away.store.location in told.inner_text()
    assert [text.split()[0] for text in page.locator("tbody tr").all_inner_texts()] == ["orders"]
    assert page.title().startswith("(1!)")

    (tmp_path / "elsewhere").rename(tmp_path / "away")
    page.locator("tbody tr", has_text="bids").wait_for()
    told.wait_for(state="detached")


@browsing
def test_of_a_job_that_is_deleted_meanwhile_nothing_is_shown_as_if_it_were_there(
    page: playwright.Page,  # noqa: F811
    tmp_path: Path,
    serve: Callable[..., str],
) -> None:
    world = World(str(tmp_path))
    world.healthy("orders")
    page.goto(f"{serve([world.store])}/#/jobs/orders")
    page.locator("main [data-state=RUNNING]").first.wait_for()

    world.store.delete_tree(layout.job("orders"))

    page.get_by_text("JOB_UNKNOWN").first.wait_for()
    # The graph may have been asked for before the job was: until that is asked again, the rest stays.
    page.locator("main [data-state]").first.wait_for(state="detached")
    world.healthy("orders")
    page.locator("main [data-state=RUNNING]").first.wait_for()


@browsing
def test_a_server_that_says_nothing_is_away(page: playwright.Page, address: str) -> None:  # noqa: F811
    page.clock.install()
    page.goto(address)
    page.locator("tbody tr").first.wait_for()
    page.route("**/api/**", lambda _: None)  # asked, and not answered

    with page.expect_request("**/api/v1/jobs"):
        page.evaluate(AGAIN)
    page.clock.run_for(20_000)

    page.get_by_text("The server has not answered for").wait_for()
    assert page.locator("tbody tr").count() > 3, "what it said last stays"
    page.unroute("**/api/**")
    page.clock.run_for(20_000)
    page.get_by_text("The server has not answered for").wait_for(state="detached")


@browsing
@pytest.mark.parametrize("ahead_ms", [-7_200_000, 7_200_000])
def test_ages_are_right_though_the_clock_of_the_driver_is_not(
    ahead_ms: int,
    page: playwright.Page,  # noqa: F811
    tmp_path: Path,
    serve: Callable[..., str],
) -> None:
    world = World(str(tmp_path), now_ms=time.time_ns() // 1_000_000 + ahead_ms)
    with beating(world.healthy("orders"), ahead_ms):
        page.goto(f"{serve([world.store])}/#/jobs/orders")

        # A heartbeat that looks old is believed once it was seen to be replaced.
        page.locator("[data-figure='Last checkpoint']", has_text=re.compile(r"^\d+ s ago")).wait_for()
        page.locator(".job-line", has_text=re.compile(r"heard of \d s ago")).wait_for()
        page.locator(".task-charts canvas").first.wait_for()
        page.goto("about:blank")


@browsing
def test_behind_a_proxy_with_a_prefix_and_a_password_pages_are_read_and_ask(
    browser: playwright.Browser,  # noqa: F811
    tmp_path: Path,
    serve: Callable[..., str],
) -> None:
    """The page sent the token where the proxy looked for its password, and could ask for nothing."""
    world = World(str(tmp_path))
    driver = Driver(world, "orders", good)
    with ExitStack() as stack:
        stack.callback(driver.end)
        own = serve([world.store], allow_actions=True, token="word")
        address = stack.enter_context(proxied(own, "/team/jobs", password="pass"))
        signed = {"username": "ann", "password": "pass"}
        page = stack.enter_context(browser.new_context(http_credentials=signed)).new_page()
        page.set_default_timeout(60_000)
        complaints = watched(page, [address])

        page.goto(f"{address}/")
        page.locator("a.job-link").click()
        page.locator(".vertex").first.wait_for()
        page.locator("[data-action=checkpoint]").click()
        page.locator("dialog input").fill("word")
        page.keyboard.press("Enter")

        page.locator("dialog").get_by_text("Done.").wait_for()
        page.keyboard.press("Escape")
        with page.expect_response("**/api/v1/jobs/orders") as read:
            page.evaluate(AGAIN)
        assert read.value.status == 200, "it is read with the token that the page keeps by now"
        assert [one.verb for one in driver.requests] == ["checkpoint"]
        page.goto("about:blank")
        assert complaints == []


@browsing
def test_an_action_whose_answer_a_proxy_did_not_wait_for_is_not_said_to_be_undone(
    page: playwright.Page,  # noqa: F811
    tmp_path: Path,
    serve: Callable[..., str],
) -> None:
    driver = Driver(World(str(tmp_path)), "orders", good)
    answers = {"stop": (504, "<html>Gateway Time-out</html>"), "checkpoint": None}

    def answer(route: playwright.Route) -> None:
        found = answers[route.request.url.rpartition("/")[2]]
        route.abort() if found is None else route.fulfill(status=found[0], body=found[1])

    page.route(re.compile("/orders/(stop|checkpoint)$"), answer)
    page.goto(f"{serve([driver.storage.store], allow_actions=True, token='word')}/#/jobs/orders")
    for verb in answers:
        page.locator(f"[data-action={verb}]").click()
        if page.locator("dialog input").count():
            page.locator("dialog input").fill("word")
        page.locator("dialog form button").last.click()
        said = page.locator("dialog [role=alert]")
        said.get_by_text("It may be done all the same").wait_for()
        assert "It was not done" not in said.inner_text()
        page.keyboard.press("Escape")
    driver.end()
