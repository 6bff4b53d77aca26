"""Files of one idea, classes that fit in a head: numbers that hold, so that they stay.

A table may be as long as what it lists. What else is longer waits to be parted: its number here may only go down.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "rekindle"

LINES = 300
POSITIONS = 7

TABLES = {
    "errors/conditions.py": "the table of errors",
    "testing/words.py": "events and commands in words",
    "spark/session/settings.py": "the table of Spark's settings",
}

TO_BE_PARTED = {
    "job.py": 450,
    "monitoring/views.py": 375,
    "sinks/postgres/sink.py": 350,
    "spark/streaming/task.py": 325,
    "testing/fake_runner.py": 350,
    "testing/sink_contract.py": 425,
    "ui/flink.py": 325,
    "ui/flink_views.py": 400,
}
"""File → the most lines that it may have meanwhile."""


def files() -> dict[str, str]:
    return {str(file.relative_to(SOURCE)): file.read_text() for file in sorted(SOURCE.rglob("*.py"))}


def test_no_file_is_longer_than_one_idea_takes_but_tables() -> None:
    sizes = {name: len(text.splitlines()) for name, text in files().items() if name not in TABLES}
    assert len(sizes) > 100
    too_long = {name: size for name, size in sizes.items() if size > TO_BE_PARTED.get(name, LINES)}
    assert too_long == {}, "part them by ideas"


def test_what_was_parted_stays_so() -> None:
    sizes = {name: len(text.splitlines()) for name, text in files().items()}
    done = [name for name in TO_BE_PARTED if sizes.get(name, 0) <= LINES]
    assert done == [], "they need no exception any more"


@pytest.mark.parametrize("name", files())
def test_no_function_takes_many_parameters_by_position(name: str) -> None:
    for node in ast.walk(ast.parse(files()[name])):
        if isinstance(node, ast.FunctionDef):
            taken = [one.arg for one in (*node.args.posonlyargs, *node.args.args) if one.arg not in ("self", "cls")]
            # A verb of the command line gets its options from click, by name.
            assert len(taken) <= POSITIONS or name.startswith("cli/"), f"{node.name}({', '.join(taken)})"


def test_the_rules_of_a_job_change_no_field_of_its_parts() -> None:
    """A part has a method for each of its transitions: `job.stop.overtake()`, not `job.stop.unaligned = True`."""
    changed = []
    for name in ("job", "job_parts", "handlers", "rules"):
        for node in ast.walk(ast.parse((SOURCE / "protocol" / f"{name}.py").read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                owner = ast.unparse(node.value)
                changed += [] if owner in ("self", "job") else [f"{name}: {ast.unparse(node)}"]
    assert changed == []
