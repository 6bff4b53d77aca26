"""The documentation site can be read without the internet: it loads nothing from other hosts, diagrams included."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tools import mermaid, site

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")

PAGE = """# A page

```mermaid
stateDiagram-v2
    [*] --> RUNNING: begin
    RUNNING --> FINISHED: end
```
"""


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://unpkg.com/mermaid@11/dist/mermaid.min.js"></script>',
        '<link rel="stylesheet" href="//fonts.example.com/css">',
        '<link rel="preconnect" href="https://fonts.example.com">',
        '<img src="http://img.example.com/badge.svg">',
        "<style>@import 'https://example.com/a.css';</style>",
        "<style>@font-face { src: url(//example.com/a.woff2) }</style>",
    ],
)
def test_what_a_page_loads_from_another_host_is_found(html: str) -> None:
    assert len([*site.loaded_from_elsewhere(html)]) == 1


@pytest.mark.parametrize(
    "html",
    [
        '<a href="https://spark.apache.org">Spark</a>',
        '<script src="assets/mermaid/mermaid.min.js"></script>',
        '<link rel="canonical" href="https://example.com/page.html">',
        '<img src="../images/ui-job.png">',
        "<style>a { background: url(data:image/svg+xml;base64,AAAA) }</style>",
    ],
)
def test_links_and_what_lies_in_the_site_are_nothing_of_another_host(html: str) -> None:
    assert [*site.loaded_from_elsewhere(html)] == []


def test_a_page_that_loads_from_another_host_fails_the_build() -> None:
    page: Any = SimpleNamespace(file=SimpleNamespace(src_uri="guide.md"), url="guide.html")
    with pytest.raises(Exception, match=r"guide\.md loads from another host: https://example\.com/x\.js"):
        site.on_post_page('<script src="https://example.com/x.js"></script>', page=page)


def test_a_diagram_is_text_where_no_mermaid_could_be_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "MERMAID", tmp_path)
    page: Any = SimpleNamespace(file=SimpleNamespace(src_uri="a.md"), url="a.html")
    made = site.on_post_page('<head></head><pre class="mermaid"><code>x</code></pre>', page=page)
    assert made == "<head></head><pre><code>x</code></pre>"


@pytest.fixture
def built(tmp_path: Path) -> Iterator[str]:
    """A site of one page with a diagram, made as docs/ is, and served; yields its address."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(PAGE)
    config = load_config(
        str(site.ROOT / "mkdocs.yml"),
        docs_dir=str(tmp_path / "docs"),
        site_dir=str(tmp_path / "site"),
        nav=[{"Home": "index.md"}],
        plugins=[],
        strict=False,  # pages of the repository are there, and what they link to is not
    )
    build(config)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path / "site")))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium (Debian: apt-get install chromium)")
@pytest.mark.skipif(not (mermaid.FOLDER / mermaid.SCRIPT).is_file(), reason="no Mermaid: make setup fetches it")
def test_a_diagram_is_drawn_and_nothing_is_asked_of_another_host(built: str) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    asked: list[str] = []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{built}/index.html")
        # What Mermaid has drawn lies in a shadow root.
        page.wait_for_selector("div.mermaid")
        browser.close()
    assert f"{built}/{site.IN_SITE}/{mermaid.SCRIPT}" in asked
    assert [url for url in asked if not url.startswith((f"{built}/", "data:", "blob:"))] == []
