"""``rekindle flush``: what is refused before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.errors import DefinitionError
from rekindle.flushing import flush


@pytest.mark.parametrize("work", ["hdfs://node/work", "{file}/below"])
def test_a_folder_for_the_copy_that_cannot_be_made_is_refused_before_spark_starts(work: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DefinitionError) as refused:
        flush(lambda spark: spark.range(1), "checkpoint", work=work.format(file=tmp_path / "file"))
    assert (refused.value.code, refused.value.parameters["argument"]) == ("ARGUMENT_INVALID", "work")
