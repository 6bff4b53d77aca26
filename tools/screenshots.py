"""Take the pictures of docs/ui.md: pages of `rekindle ui` over made jobs, in a real Chromium, into docs/images."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Literal

from playwright.sync_api import sync_playwright

from rekindle.ui.security import Policy
from tests.ui.conftest import served
from tests.ui.world import World

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
PICTURES: dict[str, tuple[str, Literal["light", "dark"], tuple[int, int]]] = {
    "ui-jobs": ("", "light", (1280, 1010)),
    "ui-job": ("jobs/back-pressured", "dark", (1280, 1100)),
    "ui-checkpoints": ("jobs/healthy/checkpoints/summary", "light", (1280, 580)),
    "ui-log": ("jobs/failing/history", "light", (1280, 900)),
    "ui-telephone": ("jobs/back-pressured", "light", (390, 844)),
}
"""Name → page, colours, width and height."""

SHOWN = {"ui-log": "section:has(#log)"}
"""Name of a screenshot → the element that is scrolled into view first, instead of the top of the page."""

SECONDS = 10
"""So long the jobs beat, all but the silent one, which shows that it is; and the charts have samples to draw."""


def main() -> None:
    """Take all of them."""
    IMAGES.mkdir(exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        world = World(f"{folder}/rekindle-state", customer="7").everything()
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        with served([world.store], Policy()) as address:
            for name, (path, scheme, (width, height)) in PICTURES.items():
                page = browser.new_page(viewport={"width": width, "height": height})
                page.emulate_media(color_scheme=scheme)
                page.goto(f"{address}/#/{path}")
                page.locator("main .panel table").first.wait_for()
                for _ in range(SECONDS):
                    world.beat()
                    page.wait_for_timeout(1_000)
                if name in SHOWN:
                    page.locator(SHOWN[name]).scroll_into_view_if_needed()
                page.screenshot(path=IMAGES / f"{name}.png")
                page.close()
        browser.close()


if __name__ == "__main__":
    main()
