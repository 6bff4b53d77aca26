"""Nothing of eight lines is written twice, but declarations."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = ("src", "tests", "bench", "examples", "tools")

LINES = 8


def bodies(text: str) -> Iterator[list[tuple[int, str]]]:
    """The numbered lines of each function, without its signature, docstring and comments."""
    lines = text.splitlines()
    inner = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node not in inner:
            inner |= {*ast.walk(node)}
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            if body:
                numbered = ((at, lines[at - 1].strip()) for at in range(body[0].lineno, (body[-1].end_lineno or 0) + 1))
                yield [(at, line) for at, line in numbered if line and not line.startswith("#")]


def written_twice(files: dict[str, str]) -> list[str]:
    """Runs of lines that stand at two places."""
    places = defaultdict(list)
    for name, text in files.items():
        for body in bodies(text):
            for first in range(len(body) - LINES + 1):
                run = body[first : first + LINES]
                places["\n".join(line for _, line in run)].append(f"{name}:{run[0][0]}")
    return [f"{', '.join(found)}\n{run}" for run, found in places.items() if len(found) > 1]


def test_nothing_of_eight_lines_is_written_twice() -> None:
    files = {str(file.relative_to(ROOT)): file.read_text() for of in CODE for file in sorted((ROOT / of).rglob("*.py"))}
    assert len(files) > 1_000
    assert written_twice(files) == []


def test_it_finds_what_was_copied_and_passes_over_what_differs() -> None:
    body = [f"    step({number})" for number in range(LINES)]
    one = "\n".join(["def one():", '    """Do it."""', *body])
    other = "\n".join(["class Other:", "    def two(self, a):", "        a()", *(f"    {line}" for line in body)])
    assert written_twice({"one.py": one, "other.py": other}) == [
        "one.py:3, other.py:4\n" + "\n".join(line.strip() for line in body)
    ]
    assert written_twice({"one.py": one, "other.py": other.replace("step(4)", "step(5)")}) == []
