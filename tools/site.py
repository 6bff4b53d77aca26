"""Bring the pages at the top of the repository into the documentation site: a hook of MkDocs (see mkdocs.yml).

README.md, CONTRIBUTING.md and CHANGELOG.md lie beside docs/, where a reader of the repository expects them, and link to
pages as they lie there. The site has them under names of its own, and links that fit.

A page loads nothing from other hosts, so that it can be read without them: Mermaid, which draws diagrams, lies beside
the pages (`tools/mermaid.py` fetches it), and the build fails where a page or a style names another host.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"README.md": "start.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Page at the top of the repository → its name in the site."""
SCENARIOS = "tests/scenarios"
"""The stories that docs/protocol.md links to."""

MERMAID = Path(sys.prefix) / "mermaid"
"""The folder into which `tools/mermaid.py` puts the package."""
IN_SITE = "assets/mermaid"

_DIAGRAM = '<pre class="mermaid">'
_ELSEWHERE = re.compile(r"(https?:)?//")
_STYLE_ELSEWHERE = re.compile(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')\s]+)")

_FROM_DOCS = re.compile(rf"\]\(((?:\.\./)*)\.\./({'|'.join(map(re.escape, PAGES))})")
_FROM_TOP = re.compile(rf"\]\(({'|'.join(map(re.escape, PAGES))})")
_NO_PAGE = re.compile(r"\[([^\]]*)\]\(LICENSE\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages at the top of the repository."""
    from mkdocs.structure.files import File

    stories = {f"{SCENARIOS}/{path.name}": f"scenarios/{path.name}" for path in (ROOT / SCENARIOS).glob("*.txt")}
    for path, name in {**PAGES, **stories}.items():
        files.append(File.generated(config, name, content=(ROOT / path).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Let the links of a page lead to the pages of the site."""
    if page.file.src_uri in PAGES.values():
        markdown = _NO_PAGE.sub(r"\1", markdown).replace("](docs/", "](")
        return _FROM_TOP.sub(lambda link: f"]({PAGES[link[1]]}", markdown)
    markdown = markdown.replace(f"](../{SCENARIOS}/", "](scenarios/")
    return _FROM_DOCS.sub(lambda link: f"]({link[1]}{PAGES[link[2]]}", markdown)


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Give a page with diagrams the script that draws them; refuse one that loads anything from another host."""
    from mkdocs.exceptions import PluginError
    from mkdocs.utils import get_relative_url

    if _DIAGRAM in output:
        if (MERMAID / "mermaid.min.js").is_file():
            script = get_relative_url(f"{IN_SITE}/mermaid.min.js", page.url)
            output = output.replace("</head>", f'<script src="{script}"></script></head>', 1)
        else:
            # The theme's own script would fetch it from another host.
            output = output.replace(_DIAGRAM, "<pre>")
    if found := [*loaded_from_elsewhere(output)]:
        raise PluginError(f"{page.file.src_uri} loads from another host: {', '.join(found)}")
    return output


def on_post_build(config: Any, **_: Any) -> None:
    """Put Mermaid and its licence beside the pages, and look through the styles."""
    from mkdocs.exceptions import PluginError

    site = Path(config.site_dir)
    if MERMAID.is_dir():
        shutil.copytree(MERMAID, site / IN_SITE, dirs_exist_ok=True)
    for style in site.rglob("*.css"):
        if found := styled_from_elsewhere(style.read_text(encoding="utf-8")):
            raise PluginError(f"{style.relative_to(site)} loads from another host: {', '.join(found)}")


def loaded_from_elsewhere(html: str) -> Iterator[str]:
    """Yield what a page loads from another host: scripts, styles, fonts, pictures, frames."""
    links = _Links()
    links.feed(html)
    yield from links.found
    yield from styled_from_elsewhere(html)


def styled_from_elsewhere(css: str) -> list[str]:
    """Return what a style loads from another host."""
    return _STYLE_ELSEWHERE.findall(css)


class _Links(HTMLParser):
    """Collects what a page loads from another host; a link to be followed is none of that."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        address = given.get("href") if tag == "link" and given.get("rel") != "canonical" else given.get("src")
        if address and _ELSEWHERE.match(address):
            self.found.append(address)
