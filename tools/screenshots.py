"""Take the pictures of docs/ui.md: pages of `rekindle ui` over made jobs, in a real Chromium, into docs/images."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from rekindle.ui.security import Policy
from tests.ui.conftest import served
from tests.ui.world import World

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
PICTURES = {
    "ui-jobs": ("", "light"),
    "ui-job": ("jobs/back-pressured", "dark"),
    "ui-checkpoints": ("jobs/healthy/checkpoints/summary", "light"),
}


def main() -> None:
    """Take all of them."""
    IMAGES.mkdir(exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        world = World(folder).everything()
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        with served([world.store], Policy()) as address:
            for name, (path, scheme) in PICTURES.items():
                world.beat()
                page = browser.new_page(viewport={"width": 1280, "height": 900})
                page.emulate_media(color_scheme=scheme)
                page.goto(f"{address}/#/{path}")
                page.locator("main .panel table").first.wait_for()
                page.wait_for_timeout(1_500)  # the charts are drawn after their first samples
                page.screenshot(path=IMAGES / f"{name}.png")
                page.close()
        browser.close()


if __name__ == "__main__":
    main()
