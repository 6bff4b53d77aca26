"""Check how docstrings begin: those of functions with a verb, none with a bare "Whether", "What" or "Who".

A function's docstring says what it does; "Return the path of ..." does, "The path of ..." leaves it to the reader.
ruff's D401 refuses other moods of a verb ("Returns"); this refuses what is no verb. Classes, modules, constants and
attributes are things, so a noun is right there, and a question word is not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

QUESTIONS = frozenset(("Whether", "What", "Who", "Whom", "Whose", "Where", "How", "Why", "When", "Which"))
"""First words that leave the sentence without a subject."""

_THINGS = """
    A All An As Both Bytes Each Every Everything Folder From It Its Names No Number Numbers One Path Paths Rows Several
    Some Something Spark Text The These This Those Three Two
"""

NO_VERBS = QUESTIONS.union(_THINGS.split())
"""First words with which a function's docstring does not say what it does."""

_ATTRIBUTE = re.compile(r"\s*#: (\w+)")


class Beginning(NamedTuple):
    """A docstring that begins as none should."""

    path: Path
    line: int
    word: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: a docstring begins with {self.word!r}: write a verb, or say what the thing is"


def beginnings(path: Path) -> Iterator[Beginning]:
    """Yield the docstrings of a file, those of constants and attributes too, that begin as none should."""
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            yield from _of(path, first, NO_VERBS if _acts(node) else QUESTIONS)
        body = getattr(node, "body", None)
        for before, after in pairwise(body) if isinstance(body, list) else ():
            if isinstance(before, ast.Assign | ast.AnnAssign):
                yield from _of(path, after, QUESTIONS)
    for number, line in enumerate(text.splitlines(), 1):
        if (found := _ATTRIBUTE.match(line)) and found[1].capitalize() in QUESTIONS:
            yield Beginning(path, number, found[1])


def _acts(node: ast.AST) -> bool:
    """Return whether it is a function that is called: a property is a thing."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return not any(ast.unparse(one).endswith(("property", "setter")) for one in node.decorator_list)


def _of(path: Path, statement: ast.stmt | None, refused: frozenset[str]) -> Iterator[Beginning]:
    match statement:
        case ast.Expr(value=ast.Constant(value=str(text))) if text.strip():
            word = text.split()[0].rstrip(",:.")
            if word in refused:
                yield Beginning(path, statement.lineno, word)
