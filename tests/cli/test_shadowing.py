"""``rekindle shadow``: what it prints, and what it refuses before it starts Spark."""

from __future__ import annotations

import json
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from rekindle.cli.shadowing import CODES, lines_of
from rekindle.shadowing.report import RowExample, ShadowReport, SinkComparison, Verdict
from rekindle.storage import layout
from rekindle.storage.documents.checkpoint import Manifest
from rekindle.storage.documents.runs import Identity, JobDescription, SinkDescription
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore
from tests.cli.kit import Command, start

OUT = SinkComparison(sink="out", equal=3, pending=(1, 0))
REPORT = ShadowReport(
    job="bids",
    origin="/saves/bids-1",
    original_checkpoint=9,
    original_comparable=8,
    shadow_checkpoint=4,
    shadow_comparable=None,
    sinks=(OUT,),
    state="STOPPED",
    folder=None,
)


def of(*sinks: SinkComparison) -> ShadowReport:
    return replace(REPORT, sinks=sinks)


@pytest.mark.parametrize(
    ("sinks", "verdict", "code"),
    [
        ((OUT,), "equal", 0),
        ((OUT, SinkComparison(sink="call", unseen="no")), "equal", 0),
        ((OUT, SinkComparison(sink="two", equal=3, missing=1)), "differs", 3),
        ((SinkComparison(sink="out", different=1),), "differs", 3),
        ((SinkComparison(sink="out", extra=1),), "differs", 3),
        ((replace(OUT, columns_new=("c",)),), "differs", 3),
        ((SinkComparison(sink="out", pending=(5, 5)),), "not compared", 4),
        ((SinkComparison(sink="out", unseen="no"),), "not compared", 4),
        ((), "not compared", 4),
    ],
)
def test_equal_needs_a_row_that_is_equal_and_none_that_is_not(
    sinks: tuple[SinkComparison, ...], verdict: Verdict, code: int
) -> None:
    assert of(*sinks).verdict == verdict
    assert CODES[of(*sinks).verdict] == code
    document = json.loads(json.dumps(of(*sinks).to_json()))
    assert document["verdict"] == verdict and len(document["sinks"]) == len(sinks)


def test_the_report_says_how_far_both_have_come_and_shows_rows_that_differ() -> None:
    examples = (
        RowExample(original='{"k":1}', shadow='{"k":2}'),
        RowExample(original='{"k":3}', shadow=None),
        RowExample(original=None, shadow='{"k":4}'),
    )
    sink = replace(OUT, different=1, missing=1, extra=1, columns_gone=("old",), examples=examples)
    report = replace(of(sink, SinkComparison(sink="call", unseen="it is a function")), folder="/x")
    assert [*lines_of(report, 120)] == [
        "bids: differs",
        "The original has come to checkpoint 9; rows up to checkpoint 8 have to be in the other one.",
        "The shadow has come to checkpoint 4; none of its rows have to be in the other one.",
        "",
        "sink  then     equal  different  missing  extra  not yet comparable",
        "out   differs  3      1          1        1      1 and 0",
        "out  columns that only the original has: old",
        'out  ~ {"k":1} -> {"k":2}',
        'out  - {"k":3}',
        'out  + {"k":4}',
        "call was not compared: it is a function.",
        "The rows of the shadow are in /x/rows. To delete it: rekindle dispose /x",
    ]
    assert [line.split()[-1] for line in lines_of(report, 40) if "extra" in line] == ["1"], "no count is left out"
    nothing = replace(of(), original_checkpoint=None)
    assert [*lines_of(nothing, 120)][1] == "The original has committed no checkpoint since."


JOB = """
    import rekindle as rk

    job = rk.Job("bids")
    history = job.source("history", rk.Files("nowhere"), event_time="ts")
    task = job.task(history, uid="hourly")(lambda rows: rows)
    job.sink("out", task, rk.sinks.{sink})
"""


def written(root: Path, sink: str) -> str:
    path = root / "new_bids.py"
    path.write_text(textwrap.dedent(JOB.format(sink=sink)))
    return str(path)


def job_manifest(job_id: str) -> Manifest:
    return Manifest(
        checkpoint=1, job="bids", kind="savepoint", run=1, lineage=1, triggered_ms=0, completed_ms=0,
        graph={"hourly": ["history"]}, tasks={}, savepoint=True, job_id=job_id,
    )  # fmt: skip


def saved(root: Path, job_id: str) -> str:
    """A savepoint with nothing in it but its table of contents."""
    storage = JobStorage(LocalStore(str(root / "saves")), "bids")
    storage.create(layout.manifest("bids-1"), job_manifest(job_id))
    return str(root / "saves" / "bids-1")


def ran(command: Command, kind: str) -> None:
    """The job has run with one sink."""
    job = JobStorage(LocalStore(command.storage), "bids")
    job.create(layout.identity("bids"), Identity(job="bids", created_ms=0, id="mine"))
    start(job, description=JobDescription(sinks=(SinkDescription(uid="out", task="hourly", kind=kind),)))


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(str(tmp_path / "state"))


@pytest.mark.parametrize(
    ("sink", "kind", "job_id", "code"),
    [
        ("Parquet('out')", "Parquet", "another", "SHADOW_ORIGINAL_UNKNOWN"),
        ("Foreach(print)", "Foreach", "mine", "SHADOW_NOTHING_TO_COMPARE"),
        ("Parquet('out')", "Delta", "mine", "SHADOW_NOTHING_TO_COMPARE"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_started(
    command: Command, tmp_path: Path, sink: str, kind: str, job_id: str, code: str
) -> None:
    ran(command, kind)
    result = command("shadow", written(tmp_path, sink), "--from", saved(tmp_path, job_id), "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["code"] == code
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new_bids.py", "saves", "state"]


def test_a_job_that_has_deleted_a_checkpoint_since_the_savepoint_is_refused_before_anything_is_started(
    command: Command, tmp_path: Path
) -> None:
    ran(command, "Parquet")
    job = JobStorage(LocalStore(command.storage), "bids")
    origin = saved(tmp_path, "mine")
    later = replace(job_manifest("mine"), checkpoint=3, savepoint=False)
    job.create(layout.manifest(layout.checkpoint("bids", 3)), later)
    result = command("shadow", written(tmp_path, "Parquet('out')"), "--from", origin, "--json")
    error = json.loads(result.stdout)["error"]
    assert (result.exit_code, error["code"]) == (1, "SHADOW_ORIGINAL_UNKNOWN")
    assert "checkpoint 2 was deleted" in error["message"]
    assert not (tmp_path / "state-shadow").exists()


def test_a_savepoint_that_is_not_there_is_refused(command: Command, tmp_path: Path) -> None:
    result = command("shadow", written(tmp_path, "Parquet('out')"), "--from", str(tmp_path / "gone"), "--json")
    assert (result.exit_code, json.loads(result.stdout)["error"]["code"]) == (1, "CHECKPOINT_UNKNOWN")


def test_a_tolerance_needs_a_key(command: Command, tmp_path: Path) -> None:
    asked = ("shadow", written(tmp_path, "Parquet('out')"), "--from", "x", "--tolerance", "1e-9", "--json")
    result = command(*asked)
    assert (result.exit_code, json.loads(result.stdout)["error"]["code"]) == (1, "ARGUMENT_INVALID")


@pytest.mark.parametrize("wrong", [[], ["--from", "x", "--for", "soon"], ["--from", "x", "--tolerance", "-1"]])
def test_a_wrong_command_line_is_one(command: Command, tmp_path: Path, wrong: list[str]) -> None:
    assert command("shadow", written(tmp_path, "Parquet('out')"), *wrong).exit_code == 2
