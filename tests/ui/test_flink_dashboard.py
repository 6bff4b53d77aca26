"""Flink's own dashboard over Rekindle's jobs, in a real browser. Its files come from Maven, for this test only."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from rekindle.monitoring.monitors import Monitors
from rekindle.ui import flink
from rekindle.ui.actions import Actions
from rekindle.ui.server import listen
from tests.ui.world import HOSTILE, World

pytestmark = pytest.mark.slow

JARS = Path(os.environ.get("REKINDLE_TEST_JARS", sys.prefix)) / "flink-web"


@pytest.fixture(scope="module")
def dashboard(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Flink's static files at the root, with the routes of Flink's REST beside them."""
    jar = next(JARS.glob("flink-runtime-web-*.jar"), None)
    if jar is None:
        pytest.skip(f"no dashboard of Flink in {JARS}: tools/setup.sh fetches it with Maven")
    folder = tmp_path_factory.mktemp("dashboard")
    with zipfile.ZipFile(jar) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith("web/")])
    monitors = Monitors([world.store])
    routes = flink.routes(monitors, Actions(monitors), "1.2.3")
    app = Starlette(routes=[*routes, Mount("/", StaticFiles(directory=folder / "web", html=True))])
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(30)


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium (Debian: apt-get install chromium)")
    with api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def page(browser) -> Iterator[object]:
    page = browser.new_page(viewport={"width": 1_280, "height": 900})
    page.set_default_timeout(60_000)
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("response", lambda answer: page.errors.append(answer.url) if answer.status >= 400 else None)
    yield page
    page.close()


def _open(page, dashboard: str, world: World, job: str, tab: str = "overview") -> None:
    from rekindle.ui.flink_names import job_id

    line = next(one for one in Monitors([world.store]).overview() if one.job == job)
    page.goto(f"{dashboard}/#/job/running/{job_id(line)}/{tab}")


def test_it_lists_the_jobs(page, dashboard: str) -> None:
    page.goto(f"{dashboard}/#/overview")

    for job in ("healthy", "failing", "back-pressured"):
        page.get_by_text(job, exact=True).first.wait_for()
    page.get_by_text("Rekindle 1.2.3").first.wait_for()
    assert page.errors == []


def test_it_draws_the_graph_of_a_job(page, dashboard: str, world: World) -> None:
    _open(page, dashboard, world, "back-pressured")

    graph = page.locator("flink-dagre")
    graph.locator("g.node").nth(1).wait_for(state="attached")
    assert graph.locator("g.node").count() == 2
    for text in ("Source: live", "Sink: counts", "Backpressured (max): 90%", "Busy (max): 100%"):
        graph.get_by_text(text).first.wait_for(state="attached")
    assert page.errors == []


def test_it_shows_the_tabs_of_checkpoints(page, dashboard: str, world: World) -> None:
    _open(page, dashboard, world, "failing", "checkpoints")

    page.get_by_text("Latest Completed Checkpoint").first.wait_for()
    overview = page.locator("flink-job-checkpoints").text_content()
    assert "Completed: 30" in overview
    assert "Failed: 10" in overview
    assert "ID: 39" in overview
    page.locator("flink-job-checkpoints").get_by_role("tab", name="History").click()
    page.get_by_text("COMPLETED").locator("visible=true").first.wait_for()
    page.locator("flink-job-checkpoints").get_by_role("tab", name="Summary").click()
    page.get_by_text("End to End Duration").locator("visible=true").first.wait_for()
    page.locator("flink-job-checkpoints").get_by_role("tab", name="Configuration").click()
    page.get_by_text("Exactly Once").locator("visible=true").first.wait_for()
    assert page.errors == []
    assert page.title() != "owned"


def test_it_shows_errors_as_text(page, dashboard: str, world: World) -> None:
    _open(page, dashboard, world, "failing", "exceptions")

    page.get_by_text("no such customer").first.wait_for()
    shown = page.locator("body").text_content().replace("\xa0", " ")  # its editor's blanks
    assert HOSTILE in shown
    assert page.title() != "owned"
