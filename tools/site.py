"""Bring the pages at the top of the repository into the documentation site: a hook of MkDocs (see mkdocs.yml).

README.md, CONTRIBUTING.md and CHANGELOG.md lie beside docs/, where a reader of the repository expects them, and link to
pages as they lie there. The site has them under names of its own, and links that fit.
"""

from __future__ import annotations

import re
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
