"""The JSON that the manual of the command line shows has the fields that the verbs print."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rekindle.cli import manifests
from rekindle.errors import ControlError
from rekindle.history.statistics import Spread
from rekindle.ids import SubtaskId
from rekindle.progress.state_sizes import StateSize
from rekindle.results import JobResult
from rekindle.shadowing.report import RowExample, ShadowReport, SinkComparison
from rekindle.start.previews import (
    JobChange,
    QueryChangePreview,
    SinkPreview,
    SourcePreview,
    StartPreview,
    TaskPreview,
)
from rekindle.storage import layout
from rekindle.storage.documents.history import EventError, EventSegment, HistoryEvent
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore
from tests.cli.kit import JANUARY_MS, Command, beat, complete, end, start
from tools import make_docs

PAGE = make_docs.DOCS / "cli.md"

OPEN = ("position", "sink_commit_ms", "pending_transactions", "unread_files", "parameters", "unread_bytes")
"""Objects whose keys are names of the user's, or Spark's."""

NAMED = ("inputs", "checkpoint_summary")
"""Objects that hold one kind of object under each of several names."""


def shown(section: str) -> Any:
    """The JSON document that a section of the page shows."""
    text = PAGE.read_text()
    part = text[text.index(f"\n## {section}\n") :].removeprefix("\n") if section else text
    found = re.search(r"^```json\n(.*?)^```$", part, re.DOTALL | re.MULTILINE)
    assert found is not None, f"{section} has no JSON"
    return json.loads(found[1])


def fields(value: Any, path: str = "") -> Iterator[str]:
    """The paths of all fields of a document; what may be null or empty has no fields below it."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from fields(item, path)
    elif isinstance(value, dict):
        for key, item in value.items():
            name = "*" if path.rpartition(".")[2] in NAMED else key
            yield f"{path}.{name}"
            if key not in OPEN:
                yield from fields(item, f"{path}.{name}")


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(str(tmp_path / "state"))


@pytest.fixture
def job(command: Command) -> JobStorage:
    """A job of which there is one document of each kind."""
    made = JobStorage(LocalStore(command.storage), "bids")
    start(made)
    complete(made, 1)
    error = {"code": "TASK_FAILED", "message": "x", "parameters": {}, "next_step": "y"}
    end(made, "FAILED", error=error)
    start(made)
    beat(made, run=2)
    event = HistoryEvent(
        time_ms=JANUARY_MS, run=2, kind="task_failed", message="x",
        error=EventError(code="TASK_FAILED", message="x", next_step="y", trace="z"),
    )  # fmt: skip
    made.replace(layout.history_segment("bids", "events", 2, 1, 0), EventSegment(first=0, rows=(event,)))
    return made


def test_the_fields_that_what_is_stored_has_are_those_on_the_page(command: Command, job: JobStorage) -> None:
    assert {*fields(shown("list"))} == {*fields(command.json("list"))}
    both = {*fields(shown("list"))} - {".checkpoint"} | {*fields(shown("status"))}
    spreads = {f".checkpoint_summary.*.{name}" for name in Spread.__dataclass_fields__}
    assert both | spreads == {*fields(command.json("status", "bids"))} | spreads
    assert spreads < both
    assert {*fields(shown("checkpoints"))} == {*fields(command.json("checkpoints", "bids"))}
    assert {*fields(shown("runs"))} == {*fields(command.json("runs", "bids"))}
    assert {*fields(shown("events"))} == {*fields(command.json("events", "bids"))}


def test_the_fields_of_a_manifest_are_those_on_the_page(job: JobStorage) -> None:
    manifest = job.manifest(1)
    assert manifest is not None
    states = {SubtaskId("hourly", 0): [StateSize(operator=0, name="stateStoreSave", partitions=2, rows=1, bytes=1)]}
    assert {*fields(shown("inspect"))} == {*fields(manifests.manifest_json(manifest, "x", states, committed=True))}


def test_the_fields_of_what_a_verb_returns_are_those_on_the_page() -> None:
    change = QueryChangePreview(what="", before="", now="", then="")
    preview = StartPreview(
        job="bids", beginning="begins", running=None, path=None, checkpoint=None,
        tasks=(TaskPreview(uid="hourly", fate="begins", subtasks=1, query=(change,)),),
        sinks=(SinkPreview(uid="out"),), sources=(SourcePreview(uid="live"),),
        changes=(JobChange(what="", before=None, now=None),),
    )  # fmt: skip
    assert {*fields(shown("check"))} == {*fields(preview.to_json())}
    report = ShadowReport(
        job="bids", origin="", original_checkpoint=1, original_comparable=1, shadow_checkpoint=1, shadow_comparable=1,
        sinks=(SinkComparison(sink="out", examples=(RowExample(original=None, shadow=None),)),), state="STOPPED",
        folder=None,
    )  # fmt: skip
    assert {*fields(shown("shadow"))} == {*fields(report.to_json())}
    assert {*fields(shown("run"))} == {*fields(JobResult(job="bids", state="STOPPED", run=1).to_json())}
    error = ControlError("JOB_NOT_RUNNING", job="hourly_bids", state="STOPPED")
    assert shown("") == {"error": error.to_json()}


def test_a_field_that_the_page_does_not_have_is_noticed() -> None:
    assert {*fields([{"a": {"b": 1}, "inputs": {"x": {"c": 1}, "y": {"c": 2}}, "position": {"z": 1}}])} == {
        ".a", ".a.b", ".inputs", ".inputs.*", ".inputs.*.c", ".position",
    }  # fmt: skip
