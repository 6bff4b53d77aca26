"""The sink that the guide shows how to write keeps the contract, tested as the page on testing shows it."""

from __future__ import annotations

import sys
from types import ModuleType

from tests.docs.test_docs import DOCS, GUIDE, blocks

_module = ModuleType("json_lines")
exec(next(code for code in blocks(GUIDE, "python") if "class JsonLines" in code), vars(_module))
_test = next(code for code in blocks(DOCS / "testing.md", "python") if "class TestJsonLines" in code)
sys.modules["json_lines"] = _module
try:
    exec(_test)  # defines TestJsonLines
finally:
    del sys.modules["json_lines"]
