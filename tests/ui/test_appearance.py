"""How the pages look, in a real Chromium: narrow and dark, while they load, and where there is nothing to show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rekindle.storage.local import LocalStore
from tests.ui.kit import http
from tests.ui.test_pages import browser, browsing, page, playwright  # noqa: F401 # fixtures

NARROW = {"width": 390, "height": 844}
WIDE = {"width": 1280, "height": 800}

COVERED = """edges => edges.flatMap(edge => {
    const path = edge.querySelector("path");
    const length = path.getTotalLength();
    const points = [...Array(11).keys()].map((step) => path.getPointAtLength(length - step));
    return [...document.querySelectorAll(".graph .edge text")].filter((text) => {
        const box = text.getBBox();
        const inside = ({ x, y }) => x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + box.height;
        return points.some(inside);
    }).map((text) => text.textContent);
})"""
"""The labels that hide the head of an arrow."""


@browsing
@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])
def test_no_label_hides_the_head_of_an_arrow(
    size: dict[str, int],
    page: playwright.Page,  # noqa: F811
    address: str,
) -> None:
    page.set_viewport_size(size)
    page.goto(f"{address}/#/jobs/back-pressured")
    channel = page.locator("[data-edge='task:clean task:hourly'] text")
    channel.first.wait_for()

    assert channel.all_text_contents() == ["2,500 / s", "8.0 KiB unread"]
    assert page.locator(".graph .edge").evaluate_all(COVERED) == []


@browsing
def test_every_page_fits_a_telephone(page: playwright.Page, address: str, empty: str) -> None:  # noqa: F811
    history = http.get(f"{address}/api/v1/jobs/failing/checkpoints?limit=1000").json()["history"]
    failed = next(one["id"] for one in history if one["status"] == "failed")
    page.set_viewport_size(NARROW)
    for server, path in (
        (empty, ""),
        (address, ""),
        (address, "jobs/just-started"),
        (address, "jobs/back-pressured"),
        (address, "jobs/healthy/checkpoints"),
        (address, "jobs/healthy/checkpoints/summary"),
        (address, "jobs/healthy/checkpoints/configuration"),
        (address, "jobs/healthy/checkpoints/history/40"),
        (address, f"jobs/failing/checkpoints/history/{failed}"),
        (address, "jobs/healthy/savepoints"),
    ):
        page.goto(f"{server}/#/{path}")
        page.locator("main .panel, main .empty, main .problem").first.wait_for()
        if path.endswith("savepoints"):
            page.locator(".disclose").first.click()
            page.get_by_text("stateStoreSave").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        boxes = page.locator(".scroll:has(table)")
        assert boxes.evaluate_all("all => all.every((box) => box.scrollWidth <= box.clientWidth + 1)"), path


@pytest.fixture
def empty(tmp_path: Path, serve: Callable[..., str]) -> str:
    """A server over a storage that no job has written into."""
    (tmp_path / "state").mkdir()
    return serve([LocalStore(str(tmp_path / "state"))])


@browsing
def test_an_empty_storage_says_how_a_job_comes_into_it(page: playwright.Page, empty: str) -> None:  # noqa: F811
    page.goto(empty)
    page.locator(".empty").wait_for()

    assert "rekindle run" in page.locator(".empty").inner_text()
    assert page.locator("table, .problem").count() == 0


@browsing
def test_a_job_that_has_just_begun_says_what_is_not_known_yet(page: playwright.Page, address: str) -> None:  # noqa: F811
    for path, text in {
        "": "The graph is not known yet.",
        "/checkpoints": "None is completed yet.",
        "/checkpoints/history": "There is none.",
        "/checkpoints/summary": "No checkpoint is completed yet.",
        "/savepoints": "rekindle savepoint just-started",
    }.items():
        page.goto(f"{address}/#/jobs/just-started{path}")
        page.get_by_text(text, exact=True).first.wait_for()
        assert page.locator("main .problem").count() == 0, path


@browsing
def test_a_page_says_that_it_loads_until_the_first_answer(page: playwright.Page, address: str) -> None:  # noqa: F811
    held, waiting = True, []

    def hold(route: playwright.Route) -> None:
        if held:
            waiting.append(route)
        else:
            route.continue_()

    page.route("**/api/v1/jobs/healthy", hold)
    page.goto(f"{address}/#/jobs/healthy")
    loading = page.get_by_role("status").filter(has_text="Loading…")
    loading.wait_for()
    assert page.locator("main .figures").count() == 0

    held = False
    for route in waiting:
        route.continue_()
    page.locator("main .figures").first.wait_for()
    page.locator(".loading").first.wait_for(state="detached")
    page.unroute_all(behavior="wait")


def luminance(tab: playwright.Page, selector: str, name: str) -> float:
    """Return how light a colour of an element is: 0 is black, 1 white."""
    found = tab.locator(selector).first.evaluate(f"one => getComputedStyle(one).{name}")
    numbers = [float(part) for part in found.removeprefix("rgb").strip("a()").split(",")[:3]]
    return sum(share * number for share, number in zip((0.2126, 0.7152, 0.0722), numbers, strict=True)) / 255


@browsing
def test_the_dark_theme_is_the_readers_or_chosen_and_is_kept(page: playwright.Page, address: str) -> None:  # noqa: F811
    page.emulate_media(color_scheme="dark")
    page.goto(f"{address}/#/jobs/healthy")
    page.locator(".vertex").first.wait_for()
    for selector, surface in {"body": "backgroundColor", ".panel": "backgroundColor", ".vertex .box": "fill"}.items():
        assert luminance(page, selector, surface) < 0.3, selector
    for selector, ink in {"h1": "color", ".panel td": "color", ".vertex .name": "fill"}.items():
        assert luminance(page, selector, ink) > 0.6, selector

    page.get_by_role("group", name="Colours").get_by_text("Light", exact=True).click()
    assert luminance(page, "body", "backgroundColor") > 0.8
    page.reload()
    page.locator(".vertex").first.wait_for()
    assert luminance(page, ".panel", "backgroundColor") > 0.8
    assert luminance(page, "h1", "color") < 0.4
