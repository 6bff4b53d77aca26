"""The names of the package, which are said three times: to checkers of types, to ``*``, and to who looks one up."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

import rekindle as rk


def seen_by_checkers() -> dict[str, str]:
    """Name → the module from which it is imported for a checker of types."""
    tree = ast.parse(Path(rk.__file__).read_text())
    checked = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imports = [node for node in checked.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in imports for alias in node.names}


def test_checkers_of_types_see_the_names_that_are_public_where_they_are_found() -> None:
    modules = dict.fromkeys(rk._MODULES, "rekindle")
    homes = {name: f"rekindle.{home}" for name, home in rk._HOMES.items()}
    assert seen_by_checkers() == modules | homes
    assert sorted(rk.__all__) == sorted(modules | homes)


@pytest.mark.parametrize("name", rk.__all__)
def test_each_public_name_is_what_its_module_has(name: str) -> None:
    module = import_module("rekindle" if name in rk._MODULES else f"rekindle.{rk._HOMES[name]}")
    assert getattr(rk, name) is getattr(module, name)
    assert name in dir(rk)
