"""Tests replace names only where nothing can be handed in, and sleep between two looks; how often may only go down.

What a test puts there, another place may look up too, and later. So a store of the test's own, a clock or an argument
of a constructor comes first.
"""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]

PATCHES = 80
"""Calls of ``monkeypatch.setattr`` and of ``patch.object``. Lower it where there are fewer. What is left:

- planted faults, which show that a test can fail (the simulator, the protocol's cases, computed nulls, channels);
- a job that is started as users start it, which should take no such argument: how many batches Spark keeps, how large
  a first admission is, how often inboxes are looked at, when a query starts, waits and closes, whether another driver
  seems to live;
- what belongs to the whole process or machine: ``sys.path``, handlers of logging, a terminal, ``/proc``, PySpark's JVM;
- what a user's constructor should not take: how long Kafka, PostgreSQL and mounted folders are asked again;
- what is only looked on at: every step that is announced, every event that the protocol handles.
"""
NEAR = 5


def patches(text: str) -> int:
    """How often a program replaces a name."""
    calls = (node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return sum(
        isinstance(call, ast.Attribute) and (call.attr == "setattr" or ast.unparse(call) == "patch.object")
        for call in calls
    )


SLEEPS = 26
"""Calls of ``time.sleep``: between two looks at what a test waits for, or in what plays something slow."""


def sleeps(text: str) -> int:
    """How often a program sleeps."""
    calls = (node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return sum(ast.unparse(call) in ("time.sleep", "sleep") for call in calls)


def test_no_more_sleeps_than_there_were() -> None:
    found = {str(path.relative_to(TESTS)): sleeps(path.read_text()) for path in TESTS.rglob("*.py")}
    assert sum(found.values()) <= SLEEPS, [name for name, count in found.items() if count]
    assert sleeps("import time\ntime.sleep(1)\nawait asyncio.sleep(1)") == 1


def test_no_more_names_are_replaced_than_were() -> None:
    found = sum(patches(path.read_text()) for path in TESTS.rglob("*.py"))
    assert found <= PATCHES, "hand it in: a store of the test's own, a clock, an argument"
    assert found > PATCHES - NEAR, "there are fewer: lower the number"


def test_each_replaced_name_counts() -> None:
    assert (
        patches("def t(monkeypatch):\n  monkeypatch.setattr(a, 'b', 1)\n  with c() as patch: patch.setattr(a, 'b', 2)")
        == 2
    )
    assert patches("with patch.object(a, 'b'):\n  a.object(1)") == 1
