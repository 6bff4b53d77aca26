"""Spark Connect is refused before PySpark looks for the libraries that it needs."""

from __future__ import annotations

import pytest

from rekindle.errors import DefinitionError
from rekindle.session.classic import refuse_connect


@pytest.mark.parametrize(
    ("settings", "environ"),
    [
        ({}, {"SPARK_REMOTE": "sc://host"}),
        ({"spark.remote": "local"}, {}),
        ({"spark.api.mode": "connect"}, {}),
    ],
)
def test_what_asks_for_connect_is_refused(settings: dict[str, str], environ: dict[str, str]) -> None:
    with pytest.raises(DefinitionError, match="SPARK_CONNECT_UNSUPPORTED"):
        refuse_connect(settings, environ)


def test_a_classic_session_is_not() -> None:
    refuse_connect({"spark.master": "local[2]", "spark.api.mode": "classic"}, {"SPARK_REMOTE": ""})
