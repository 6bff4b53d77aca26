"""What an error quotes is shown, stored and sent on: no password is in it."""

from __future__ import annotations

import json
from typing import Any

from rekindle.errors import JobError
from rekindle.history.events import TaskEvents
from rekindle.ids import SubtaskId
from rekindle.logs.job_log import redaction

SAID = "FATAL: no connection to postgresql://etl:hunter22@db/orders?sslmode=require, password=hunter22"


def test_an_error_quotes_no_password() -> None:
    error = JobError("SPARK_DIED", reason=SAID)
    assert "hunter22" not in f"{error} {error!r} {error.message} {json.dumps(error.to_json())}"
    assert "postgresql://***@db/orders?sslmode=require" in error.message


def test_where_a_secret_lies_is_no_secret() -> None:
    error = JobError("SPARK_DIED", reason="Invalid value for '--token-file': File 'x' does not exist, token='hunter22'")
    assert "'--token-file': File 'x' does not exist, token=***" in error.message


def test_an_event_has_no_password_in_its_trace() -> None:
    kept: list[tuple[Any, Any]] = []
    events = TaskEvents(lambda *words, **more: kept.append((words, more)))
    events.failed(SubtaskId("hourly", 0), JobError("SPARK_DIED", reason=SAID), f"Traceback ...: {SAID}")
    assert "hunter22" not in repr(kept)
    assert "Traceback" in repr(kept)


def test_an_error_that_quotes_another_error_or_a_list_quotes_no_password() -> None:
    error = JobError("SPARK_DIED", reason=OSError(SAID), where=[{"at": SAID}], tries=3)
    assert "hunter22" not in f"{error} {error!r} {error.message} {error.parameters} {json.dumps(error.to_json())}"
    assert "FATAL: no connection to postgresql://***@db/orders" in error.message
    assert error.parameters["tries"] == 3


def test_an_error_hides_what_is_secret_in_the_settings_of_a_job_of_its_process() -> None:
    """A word that shows itself as secret by nothing but the name of the variable or setting that holds it."""
    redaction({"spark.hadoop.fs.s3a.secret.key": "correct-horse-battery"})
    error = JobError("SPARK_DIED", reason="denied for correct-horse-battery")
    kept: list[tuple[Any, Any]] = []
    events = TaskEvents(lambda *words, **more: kept.append((words, more)))
    events.failed(SubtaskId("hourly", 0), error, "Traceback ...: correct-horse-battery")
    assert "correct-horse" not in f"{error} {json.dumps(error.to_json())} {kept!r}"
    assert "denied for ***" in error.message
