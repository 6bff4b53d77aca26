"""``rekindle docs``: read the documentation, which is installed with the package; it needs no network."""

from __future__ import annotations

import re
import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rekindle.cli import output
from rekindle.cli.app import CommandLineError, example, hint, with_json
from rekindle.errors import ConfigError

if TYPE_CHECKING:
    from importlib.abc import Traversable

_OF_THE_SITE = "api"
"""The page that the site makes of the docstrings."""

_HEADING = re.compile(r"(#+) (.+)")
_FENCE = re.compile(r"\s*```")
_IN_NO_ANCHOR = re.compile(r"[^\w\- ]")


@click.command("docs", epilog=example("rekindle docs object-storage#which-credentials"))
@click.argument("page", required=False)
@with_json
def docs(page: str | None, as_json: bool) -> int:
    """Show PAGE of the documentation, or PAGE#SECTION; without PAGE, list the pages.

    The pages are those of this version. Errors and other pages name them.
    """
    pages = _pages()
    if page is None:
        titles = {name: _title(text.read_text(encoding="utf-8")) for name, text in pages.items()}
        if as_json:
            output.as_json([{"page": name, "title": title} for name, title in titles.items()])
            return 0
        output.say("\n".join(output.table(("page", "about"), [*titles.items()], output.width())))
        return 0
    name, _, anchor = page.removeprefix("docs/").partition("#")
    name = name.removesuffix(".md")
    if name not in pages:
        raise CommandLineError(ConfigError("PAGE_UNKNOWN", page=name, hint=hint(name, pages)))
    text = pages[name].read_text(encoding="utf-8")
    if anchor:
        text = _section(name, text, anchor)
    if as_json:
        output.as_json({"page": name, "title": _title(text), "text": text})
    elif sys.stdout.isatty():
        _show(text)
    else:
        output.say(text.rstrip())
    return 0


def _pages() -> dict[str, Traversable]:
    """Return the pages by their names: of the installed package, else of the clone that it is used from."""
    inside = resources.files("rekindle").joinpath("docs")
    folder: Traversable = inside if inside.is_dir() else Path(__file__).parents[3] / "docs"
    if not folder.joinpath("index.md").is_file():
        raise ConfigError("DOCS_MISSING")
    pages = {one.name[:-3]: one for one in folder.iterdir() if one.name.endswith(".md")}
    return {name: pages[name] for name in sorted(pages) if name != _OF_THE_SITE}


def _title(text: str) -> str:
    """Return the first heading of a page, or of a section."""
    match = _HEADING.search(text)
    return match[2] if match else ""


def _section(name: str, text: str, anchor: str) -> str:
    """Return the section of a page that begins with the heading of this anchor, with the sections below it."""
    lines, depth, is_code = list[str](), 0, False
    for line in text.splitlines():
        is_code ^= _FENCE.match(line) is not None
        heading = None if is_code else _HEADING.fullmatch(line)
        if heading is not None and depth and len(heading[1]) <= depth:
            break
        if heading is not None and not depth and _anchor(heading[2]) == anchor:
            depth = len(heading[1])
        if depth:
            lines.append(line)
    if not lines:
        raise CommandLineError(ConfigError("SECTION_UNKNOWN", page=name, section=anchor))
    return "\n".join(lines)


def _anchor(heading: str) -> str:
    """Return the anchor that a site makes of a heading."""
    return _IN_NO_ANCHOR.sub("", heading).strip().lower().replace(" ", "-")


def _show(text: str) -> None:
    """Show Markdown on the terminal, a screenful at a time."""
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(width=min(output.width(), 100))
    with console.capture() as shown:
        console.print(Markdown(text, hyperlinks=False))
    click.echo_via_pager(shown.get())
