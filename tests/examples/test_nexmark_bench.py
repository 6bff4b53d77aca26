"""What the Nexmark benchmark is made of, without a run: Flink's SQL, its log, which files count, the tables."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nexmark_bench
import nexmark_flink
import nexmark_tables
from measuring import PAGE
from nexmark_live import LIVE, fed, new_row
from nexmark_queries import QUERIES, SCHEMAS
from nexmark_runs import differences, write_streams, written
from nexmark_tables import Life
from nexmark_ways import BATCH, CHOSEN, HEAP, PLAIN, REKINDLE, ROCKSDB, Runs
from tests.waiting import until

# --- the SQL of Flink -------------------------------------------------------------------------------------------------


def test_every_query_has_a_text_in_flinks_sql_and_nothing_else_has_one() -> None:
    assert {path.stem for path in nexmark_flink.SQL.glob("*.sql")} == {*QUERIES, "streams"}


@pytest.mark.parametrize("name", QUERIES)
def test_flink_reads_the_streams_of_a_query_and_writes_one_answer(name: str, tmp_path: Path) -> None:
    *before, last = nexmark_flink.statements(name, tmp_path / "streams", tmp_path / "out")
    views = "\n".join(before[6:])
    assert all(re.match(r"(--.*\n)*CREATE TEMPORARY (TABLE|VIEW) ", statement) for statement in before)
    assert last.startswith("CREATE TABLE answer WITH (") and (tmp_path / "out").as_uri() in last
    read = {stream for stream in SCHEMAS if re.search(rf"\b(FROM|JOIN|TABLE) {stream}\b", f"{views}\n{last}")}
    assert read == set(QUERIES[name].reads)
    assert "monitor-interval" not in "".join(before)


def test_flink_looks_for_new_files_where_a_stream_goes_on(tmp_path: Path) -> None:
    *before, _ = nexmark_flink.statements("q0", tmp_path, tmp_path / "out", live=True)
    assert "".join(before).count("'source.monitor-interval'") == len(SCHEMAS)


def test_the_tables_of_flink_have_the_columns_of_the_streams(tmp_path: Path) -> None:
    tables = nexmark_flink.statements("q0", tmp_path, tmp_path / "out")[:3]
    for (stream, schema), table in zip(SCHEMAS.items(), tables, strict=True):
        assert f"TABLE {stream[:-1]}_files" in table
        columns = [column.split()[0] for column in schema.split(", ")]
        assert re.findall(r"(\w+) (?:BIGINT|STRING)\b", table) == columns


def test_settings_of_flink_name_the_state_and_the_checkpoint_to_begin_with(tmp_path: Path) -> None:
    fresh = nexmark_flink.settings("RocksDB", tmp_path)
    assert fresh["state.backend.type"] == "rocksdb" and "execution.state-recovery.path" not in fresh
    assert nexmark_flink.settings("heap", tmp_path, "file:///x")["execution.state-recovery.path"] == "file:///x"


def test_a_job_that_was_killed_begins_with_its_newest_complete_checkpoint(tmp_path: Path) -> None:
    for number, job in enumerate(("a/chk-9", "b/chk-2", "b/chk-10")):
        (tmp_path / job).mkdir(parents=True)
        (tmp_path / job / "_metadata").touch()
        os.utime(tmp_path / job / "_metadata", (number, number))
    (tmp_path / "b" / "chk-11").mkdir()
    assert nexmark_flink.last_checkpoint(tmp_path) == (tmp_path / "b" / "chk-10").as_uri()


def test_the_log_of_flink_says_how_long_checkpoints_took() -> None:
    log = (
        "Completed checkpoint 1 for job 5d0f (10240 bytes, checkpointDuration=123 ms, finalizationTime=4 ms).\n"
        "Triggering checkpoint 2\n"
        "Completed checkpoint 2 for job 5d0f (7 bytes, checkpointDuration=45 ms, finalizationTime=0 ms).\n"
    )
    assert nexmark_flink.checkpoint_seconds(log) == [0.127, 0.045]


# --- what counts ------------------------------------------------------------------------------------------------------


def files_of(folder: Path, *names: str) -> list[Path]:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return sorted(folder / name for name in names)


def test_files_that_are_staged_or_in_progress_do_not_count(tmp_path: Path) -> None:
    assert written(tmp_path / "none") == []
    visible = files_of(tmp_path, "part-bids-rows-1.parquet", "part-5d0f-0-0")
    files_of(tmp_path, ".rekindle/q0/rows/part-1.parquet", ".part-5d0f-0-1.inprogress.77", ".part-1.parquet.crc")
    assert written(tmp_path) == visible


def test_of_sparks_file_sink_those_count_that_its_log_names(tmp_path: Path) -> None:
    part, *_ = files_of(tmp_path, "part-0 a.parquet", "part-of-a-batch-that-failed.parquet")
    entry = json.dumps({"path": part.as_uri(), "action": "add"})
    (tmp_path / "_spark_metadata").mkdir()
    (tmp_path / "_spark_metadata" / "0").write_text(f"v1\n{entry}")
    (tmp_path / "_spark_metadata" / "1").write_text("v1")
    (tmp_path / "_spark_metadata" / ".2.tmp").write_text("v1\n{")
    assert written(tmp_path) == [part]


def test_rows_that_are_missing_and_too_many_are_counted(tmp_path: Path) -> None:
    write_streams(tmp_path / "streams", 200, 2)
    out = tmp_path / "out"
    out.mkdir()
    assert differences(QUERIES["q0"], tmp_path / "streams", out) == {"rows": 184, "missing": 184, "too many": 0}
    rows = pa.concat_tables(map(pq.read_table, sorted((tmp_path / "streams" / "bids").iterdir())))
    pq.write_table(pa.concat_tables([rows.slice(4), rows.slice(180), rows.slice(180)]), out / "part-0")
    assert differences(QUERIES["q0"], tmp_path / "streams", out) == {"rows": 184, "missing": 4, "too many": 8}


def test_the_times_of_the_streams_are_whole_milliseconds(tmp_path: Path) -> None:
    write_streams(tmp_path, 200, 1)
    for stream in SCHEMAS:
        (file,) = (tmp_path / stream).iterdir()
        times = pq.read_table(file).column("ts").cast(pa.int64()).to_pylist()
        assert times and all(time % 1_000 == 0 for time in times)


class AtWork:
    """A job that computes after having been looked at so many times."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def works(self) -> bool:
        self.looks -= 1
        return self.looks < 0


def rows_of(path: Path, rows: int, written_at: float) -> None:
    hidden = path.with_name(f".{path.name}")
    pq.write_table(pa.table({"id": list(range(rows))}), hidden)
    os.utime(hidden, (written_at, written_at))
    hidden.rename(path)


def test_a_new_row_is_one_that_was_written_since_and_is_visible(tmp_path: Path) -> None:
    since = time.time()
    rows_of(tmp_path / "part-before", 3, since - 1)
    rows_of(tmp_path / "part-empty", 0, since + 1)
    job = AtWork(looks=1)
    waiting = threading.Thread(target=lambda: found.append(new_row(job, tmp_path, since)))
    found: list[tuple[float, float]] = []
    waiting.start()
    until(lambda: job.looks < 0)
    assert found == []
    rows_of(tmp_path / "part-new", 1, since + 1)
    waiting.join()
    ((working, took),) = found
    assert 0 < working < took


def test_files_of_each_stream_come_one_after_the_other(tmp_path: Path) -> None:
    write_streams(tmp_path / "ready", 200, 2)
    with fed(tmp_path / "ready", tmp_path / "live"):
        until(lambda: all(list((tmp_path / "live" / stream).iterdir()) for stream in SCHEMAS))
    for stream in SCHEMAS:
        ready, live = (sorted(path.name for path in (tmp_path / at / stream).iterdir()) for at in ("ready", "live"))
        assert live and live == ready[: len(live)]


# --- the tables -------------------------------------------------------------------------------------------------------


def runs(*seconds: float, missing: int = 0) -> Runs:
    cpu_seconds = [2 * one for one in seconds]
    return Runs(seconds=list(seconds), cpu_seconds=cpu_seconds, start_s=[0.5], rows=1_000, missing=missing)


ON_SPARK = {PLAIN: runs(3, 1, 2), CHOSEN: runs(1.5), REKINDLE: runs(4), BATCH: runs(0.5)}
IN_FLINK = {HEAP: runs(1), ROCKSDB: runs(8, missing=70)}


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_times_are_medians_and_ratios_are_theirs_by_ours() -> None:
    head, _, line = nexmark_tables.seconds_table({"q0": {**ON_SPARK, **IN_FLINK}}, {"q0": "every bid"}).splitlines()
    assert dict(zip(cells(head), cells(line), strict=True)) == {
        "query": "q0",
        "what it asks": "every bid",
        "plain, s": "2.00",
        "plain with our settings, s": "1.50",
        "Rekindle, s": "4.00",
        "against plain": "**0.50**",
        "against the second": "0.38",
        "batch, s": "0.50",
        "Flink, heap: job + start, s": "1.00 + 0.50",
        "Flink, RocksDB: job + start, s": "8.00 + 0.50",
        "against Flink, heap": "0.25",
        "against Flink, RocksDB": "2.00",
    }


def test_what_was_not_measured_is_a_dash() -> None:
    *_, line = nexmark_tables.seconds_table({"q0": ON_SPARK}, {"q0": "every bid"}).splitlines()
    assert cells(line)[-4:] == ["-", "-", "-", "-"]
    *_, line = nexmark_tables.rows_table({"q0": ON_SPARK}).splitlines()
    assert cells(line) == ["q0", "4.00", "8.00", "-", "-", "1,000", "0", "0", "-", "-"]


def test_rows_that_an_engine_loses_are_shown() -> None:
    *_, line = nexmark_tables.rows_table({"q0": {**ON_SPARK, **IN_FLINK}}).splitlines()
    assert cells(line)[-3:] == ["0", "0", "70"]


def test_a_life_is_shown_by_query_and_engine() -> None:
    ours = Life(
        stop_s=0.5, resumed_s=9, working_s=[8, 7, 9], new_row_s=[10, 12, 11], checkpoint_s=[0.2, 0.1, 0.3], wrong=0
    )
    plain = Life(stop_s=0.1, resumed_s=7, working_s=[6], new_row_s=[6])
    lives = {("q2", "Rekindle"): ours, ("q2", "plain"): plain}
    lines = nexmark_tables.lives_table(lives, {"q2": "some bids"}).splitlines()
    expected = ["q2", "some bids", "Rekindle", "8.0 (7.0 to 9.0)", "11.0 (10.0 to 12.0)", "0.50", "9.00", "0.20", "0"]
    assert cells(lines[2]) == expected
    assert cells(lines[3])[5:] == ["0.10, no savepoint", "7.00", "-", "0"]


# --- what it can be asked ---------------------------------------------------------------------------------------------


def test_a_dry_run_takes_few_rows_and_one_run_of_each() -> None:
    given = nexmark_bench.told(["--dry", "--queries", "q5", "q0"])
    assert (given.events, given.runs, given.kills) == (nexmark_bench.DRY_EVENTS, 1, 1)
    assert (given.queries, given.live, given.whole) == (["q5", "q0"], ["q5"], False)


def test_without_more_all_queries_run() -> None:
    given = nexmark_bench.told([])
    assert given.whole and given.queries == list(QUERIES) and given.live == list(LIVE)


def test_the_page_has_a_place_for_each_part() -> None:
    page = PAGE.read_text()
    for place, _ in nexmark_bench.PARTS.values():
        assert page.count(f"<!-- {place}: begin -->") == page.count(f"<!-- {place}: end -->") == 1
