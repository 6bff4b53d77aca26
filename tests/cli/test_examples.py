"""``rekindle example``: the files it writes, and those it does not overwrite."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from rekindle.cli import jobfile
from rekindle.cli.verbs import rekindle


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(rekindle, ["example", *words])
    return result.exit_code, result.output


def test_an_example_is_a_job_with_the_data_that_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, said = run()

    assert code == 0
    assert "Run it: cd rekindle-example && rekindle run hourly_bids.py" in said
    root = tmp_path / "rekindle-example"
    assert sorted(path.name for path in root.iterdir()) == ["bids", "hourly_bids.py", "make_bids.py"]
    assert jobfile.load(str(root / "hourly_bids.py")).name == "hourly_bids"
    for folder, hours in (("history", range(6)), ("live", range(6, 8))):
        (file,) = (root / "bids" / folder).iterdir()
        times = pq.read_table(file)["ts"].to_pylist()
        assert {time.hour for time in times} == {*hours}
        assert len(times) == 360 * len(hours)


def test_an_example_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "make_bids.py").write_text("mine")

    code, said = run(str(tmp_path), "--json")

    assert code == 1
    assert json.loads(said)["error"]["code"] == "EXAMPLE_EXISTS"
    assert [path.name for path in tmp_path.iterdir()] == ["make_bids.py"]
    assert (tmp_path / "make_bids.py").read_text() == "mine"


def test_an_example_in_json_names_its_files(tmp_path: Path) -> None:
    code, said = run(str(tmp_path / "new"), "--json")

    assert code == 0
    told = json.loads(said)
    assert told["folder"] == str(tmp_path / "new")
    assert all((tmp_path / "new" / name).exists() for name in told["files"])


def test_a_folder_that_cannot_be_made_is_an_error_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        code, said = run(str(folder))
        assert code == 1
        assert "[ARGUMENT_INVALID] rekindle example has FOLDER=" in said
        assert "No files can be written there" in said
