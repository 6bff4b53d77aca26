"""Check the English of the pages: a table of words that a reader may not know, with what to write instead.

    python tools/prose.py                 check README.md, CONTRIBUTING.md and docs/; exit code 1 if a word is refused
    python tools/prose.py --docstrings    the same for the docstrings, comments and texts of src/, and how they begin

The reader is a data engineer whose first language is rarely English. Code blocks, code in backticks and the generated
parts of pages are not read: the texts of src/ are, from which they are made.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where this file is run and not imported

from tools.beginnings import beginnings

ROOT = Path(__file__).resolve().parents[1]

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCE = ROOT / "src" / "rekindle"

REFUSED = {
    r"told": "reported, shown, asked",
    r"anew": "again",
    r"nobody": "no one",
    r"whoever|whomever": "any driver that, the person who",
    r"somebody": "someone, another",
    r"behind": "after (for order); behind is for lag only",
    r"(?:lag|lags|is) [^.]*after the clock": "behind the clock",
    r"marker rows?": "watermark row",
    r"seldom": "rarely",
    r"beforehand": "in advance",
    r"mend": "fix",
    r"without a word(?: of it)?": "silently",
    r"for ever": "forever",
    r"but for": "except",
    r"all but": "all except",
    r"as (?:he|it) stands?": "unchanged",
    r"(?:goes|go|gone|going|went) on": "continue, resume",
    r"durably stood": "stopped",
    r"comes? to (?:its|an) end": "ends",
    r"hence|thereof|whence|whereof|ere|lest": "so, of it, from where",
    r"everybody|anybody": "everyone, anyone",
    r"DESIGN \d+": "docs/architecture.md#section, or a decision: a page that is in the repository",
}
"""Refused words, as a regular expression of whole words → what to write instead."""

ALLOWED = (
    "for order in time, these pages say",
    "is behind its producer",
    "lagging",
    "behind a backlog",
    "behind the clock",
)
"""Lines that speak about a refused word."""

_LINE = {re.compile(rf"\b(?:{words})\b", re.IGNORECASE): instead for words, instead in REFUSED.items()}
_UNREAD = re.compile(
    r"^```.*?^```$|<!-- generated: .*?<!-- end generated -->|<!--.*?-->|`[^`\n]*`|\]\([^)]*\)|<a id=[^>]*>",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Fault:
    """A refused word."""

    path: Path
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.word!r}: write {self.instead}"


def faults(path: Path, text: str, first_line: int = 1) -> Iterator[Fault]:
    """Yield the refused words of a text, which begins at `first_line` of the file."""
    for number, line in enumerate(_blank(text).splitlines(), first_line):
        if any(words in line.lower() for words in ALLOWED):
            continue
        for words, instead in _LINE.items():
            for found in words.finditer(line):
                yield Fault(path, number, found[0], instead)


def _blank(text: str) -> str:
    """Return the text without what is not read; the numbers of its lines stay."""
    return _UNREAD.sub(lambda part: "\n" * part[0].count("\n"), text)


def in_pages(pages: Iterable[Path] = PAGES) -> Iterator[Fault]:
    """Yield the refused words of pages."""
    for page in pages:
        yield from faults(page, page.read_text(encoding="utf-8"))


def in_code(paths: Iterable[Path]) -> Iterator[Fault]:
    """Yield the refused words of comments, docstrings and all other string literals."""
    for path in paths:
        source = path.read_text(encoding="utf-8")
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield from faults(path, token.string, token.start[0])
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from faults(path, node.value, node.lineno)


def main() -> int:
    parser = argparse.ArgumentParser(description="Check the English of the pages.")
    parser.add_argument(
        "--docstrings", action="store_true", help="check docstrings, comments and texts of src/ instead"
    )
    code = parser.parse_args().docstrings
    files = sorted(SOURCE.rglob("*.py"))
    found = [*in_code(files), *(one for file in files for one in beginnings(file))] if code else list(in_pages())
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
