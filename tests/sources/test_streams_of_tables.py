"""Tables of Delta and Iceberg as streams, which Spark reads with the formats' own connectors.

The connectors are made for one version of Spark each, so these tests run in `make matrix`, on the versions that have
some, and in a process of their own, whose Spark knows them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.servers.kafka import jars
from tests.sinks.test_tables_read_by_spark import WITHOUT

pytestmark = [pytest.mark.spark, pytest.mark.skipif(not jars("spark-tables"), reason=WITHOUT)]

ROOT = Path(__file__).parents[2]
PROGRAM = "tests.sources.streams_of_tables"
DELETED = {
    "delta": {"skipChangeCommits": "true"},
    "iceberg": {"streaming-skip-overwrite-snapshots": "true", "streaming-skip-delete-snapshots": "true"},
}


class Table:
    """Lives of a job that reads one table, and what happens to the table in between."""

    def __init__(self, form: str, folder: Path) -> None:
        self.form, self.folder = form, folder

    def live(self, *steps: Any) -> list[Any]:
        """Take these steps; return what each run has come to: its rows up to then, and the code of its error."""
        connectors = ",".join(map(str, jars("spark-tables")))
        command = [sys.executable, "-m", PROGRAM, self.form, str(self.folder), connectors, json.dumps(steps)]
        run = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr[-3_000:]
        found: list[Any] = json.loads(run.stdout.splitlines()[-1])
        return found


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return Table(request.param, tmp_path)


def ids(*ranges: range) -> list[int]:
    return sorted(one for each in ranges for one in each)


def test_each_row_is_read_once_over_many_runs(table: Table) -> None:
    found = table.live(["add", 0, 20], ["run"], ["add", 20, 30], ["add", 30, 40], ["run"], ["run"])
    assert found == [[ids(range(20)), None], [ids(range(40)), None], [ids(range(40)), None]]


def test_files_that_are_rewritten_are_not_read_again(table: Table) -> None:
    rewrite = "CALL local.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))"
    rewritten = ["sql", "OPTIMIZE {table}" if table.form == "delta" else rewrite]
    found = table.live(["add", 0, 20], ["run"], ["add", 20, 30], rewritten, ["add", 30, 40], ["run"])
    assert found == [[ids(range(20)), None], [ids(range(40)), None]]


def test_rows_that_were_deleted_end_the_job_and_can_be_left_out(table: Table) -> None:
    steps = [["add", 0, 20], ["run"], ["sql", "DELETE FROM {table} WHERE id = 7"], ["add", 20, 30]]
    found = table.live(*steps, ["run"], ["run", DELETED[table.form]])
    assert found == [
        [ids(range(20)), None],
        [ids(range(20)), "TABLE_NOT_CONTINUED"],
        [ids(range(30)), None],
    ]


def test_a_table_that_was_made_again_is_another(table: Table) -> None:
    found = table.live(["add", 0, 20], ["run"], ["drop"], ["add", 0, 40], ["run"])
    assert found == [[ids(range(20)), None], [ids(range(20)), "TABLE_NOT_CONTINUED"]]


def test_versions_that_are_gone_before_they_were_read_end_the_job(table: Table) -> None:
    found = table.live(["add", 0, 20], ["run"], ["add", 20, 30], ["expire"], ["run"])
    assert found == [[ids(range(20)), None], [ids(range(20)), "TABLE_NOT_CONTINUED"]]


def test_a_column_that_comes_between_two_runs_is_read_on(table: Table) -> None:
    found = table.live(
        ["add", 0, 20], ["run"], ["sql", "ALTER TABLE {table} ADD COLUMN more int"], ["add", 20, 30], ["run"]
    )
    assert found == [[ids(range(20)), None], [ids(range(30)), None]]


def test_a_column_that_comes_while_the_job_runs_ends_it_with_delta(table: Table) -> None:
    steps = [["add", 0, 20], ["start"], ["sql", "ALTER TABLE {table} ADD COLUMN more int"], ["add", 20, 30]]
    found = table.live(*steps, ["wait"], ["run"])
    ended = ["TABLE_COLUMNS_CHANGED", ids(range(20))] if table.form == "delta" else [None, ids(range(30))]
    assert found == [ended[::-1], [ids(range(30)), None]]
