from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--re-record", action="store_true", help="write the answers that the protocol gives into tests/scenarios/*.txt"
    )
