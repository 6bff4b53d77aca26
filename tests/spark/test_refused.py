"""Which deaths of a query mean that Spark cannot plan it. Needs no JVM."""

# ruff: noqa: N802
from __future__ import annotations

import pytest
from py4j.protocol import Py4JNetworkError

from rekindle.spark.query.refused import refusal

ANALYSIS = "org.apache.spark.sql.AnalysisException"
PLANNER = ("org.apache.spark.sql.execution.QueryExecution$", "createSparkPlan")
UNSUPPORTED = "org.apache.spark.SparkUnsupportedOperationException"
SOURCE = ("org.apache.spark.sql.execution.streaming.FileStreamSource", "getBatch")


class Frame:
    def __init__(self, place: tuple[str, str]) -> None:
        self._place = place

    def getClassName(self) -> str:
        return self._place[0]

    def getMethodName(self) -> str:
        return self._place[1]


class Java:
    """An exception of the JVM, with a frame of its stack."""

    def __init__(self, name: str, at: tuple[str, str] = PLANNER, cause: Java | None = None, gone: bool = False) -> None:
        self._name, self._at, self._cause, self._gone = name, at, cause, gone

    def getClass(self) -> Java:
        return self

    def getName(self) -> str:
        return self._name

    def getMessage(self) -> str:
        return "Not supported."

    def getStackTrace(self) -> list[Frame]:
        if self._gone:
            raise Py4JNetworkError("the JVM is gone")
        return [Frame(self._at)]

    def getCause(self) -> Java | None:
        return self._cause


class Died(Exception):
    """As PySpark raises it."""

    def __init__(self, reason: Java, name: str = "org.apache.spark.sql.streaming.StreamingQueryException") -> None:
        super().__init__("terminated with exception")
        self._origin = Java(name, cause=reason)


@pytest.mark.parametrize("name", [ANALYSIS, UNSUPPORTED])
def test_what_sparks_planner_raises_itself_is_permanent_and_keeps_its_trace(name: str) -> None:
    died = Died(Java(name))
    refused = refusal("work", died)
    assert refused is not None and refused.permanent and refused.__cause__ is died
    assert (refused.code, refused.parameters["task"]) == ("QUERY_REFUSED", "work")


@pytest.mark.parametrize(
    "died",
    [
        pytest.param(None, id="stopped"),
        pytest.param(RuntimeError("no JVM"), id="of Python"),
        pytest.param(Died(Java(ANALYSIS, at=SOURCE)), id="raised by a source, perhaps of a missing file"),
        pytest.param(Died(Java(UNSUPPORTED, at=SOURCE)), id="a source does not support what it found"),
        pytest.param(Died(Java(ANALYSIS, cause=Java("java.net.ConnectException"))), id="a catalog is away"),
        pytest.param(Died(Java("org.apache.spark.sql.delta.DeltaAnalysisException")), id="of a connector"),
        pytest.param(Died(Java("org.apache.spark.SparkException")), id="of the data"),
        pytest.param(Died(Java(ANALYSIS, gone=True)), id="the JVM dies meanwhile"),
        pytest.param(Died(Java(ANALYSIS), name="py4j.Py4JException"), id="raised in a batch"),
    ],
)
def test_any_other_death_may_pass(died: BaseException | None) -> None:
    assert refusal("work", died) is None
