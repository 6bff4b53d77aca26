"""Docstrings begin as they should, and the check finds those that do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import prose
from tools.beginnings import beginnings


def test_no_docstring_of_the_package_begins_with_what_is_no_verb() -> None:
    assert [str(one) for file in sorted(prose.SOURCE.rglob("*.py")) for one in beginnings(file)] == []


@pytest.mark.parametrize(
    ("code", "word"),
    [
        ('"""What it is."""', "What"),
        ('class A:\n    """Where it is."""', "Where"),
        ('def a():\n    """The path."""', "The"),
        ('def a():\n    """Whether it is."""', "Whether"),
        ('A = 1\n"""How many."""', "How"),
        ("class A:\n    def __init__(self):\n        #: who asks\n        self.a = 1", "who"),
        ('class A:\n    @staticmethod\n    def a():\n        """A path."""', "A"),
    ],
)
def test_one_that_does_is_found(code: str, word: str, tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text(code)
    assert [one.word for one in beginnings(file)] == [word]


@pytest.mark.parametrize(
    "code",
    [
        '"""The table of rules."""',
        'class A:\n    """A rule."""\n    a: int\n    """The number of it."""',
        'def a():\n    """Return the path."""\n    b = 1\n    return "What"',
        'class A:\n    @property\n    def a(self):\n        """The path."""',
    ],
)
def test_verbs_and_things_are_let_be(code: str, tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text(code)
    assert list(beginnings(file)) == []
