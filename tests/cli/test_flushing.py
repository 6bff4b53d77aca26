"""``rk.flush``: what is refused before Spark starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rekindle as rk
from rekindle.errors import DefinitionError
from rekindle.flushing import flush


@pytest.mark.parametrize("work", ["hdfs://node/work", "{file}/below"])
def test_a_folder_for_the_copy_that_cannot_be_made_is_refused_before_spark_starts(work: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DefinitionError) as refused:
        flush(lambda spark: spark.range(1), "checkpoint", work=work.format(file=tmp_path / "file"))
    assert (refused.value.code, refused.value.parameters["argument"]) == ("ARGUMENT_INVALID", "work")


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("FLUSH_MODE_REFUSED", {"output_mode": "complete"}),
        ("SAVEPOINT_TARGET_EXISTS", {"out": "full"}),
        ("SPARK_CHECKPOINT_MISSING", {}),
    ],
)
def test_places_and_modes_are_looked_at_before_spark_starts(
    code: str, arguments: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    no_session: Any = object()
    with pytest.raises(rk.RekindleError) as refused:
        rk.flush(lambda spark: spark.range(1), "nowhere", spark=no_session, **arguments)
    assert refused.value.code == code
