from __future__ import annotations

import subprocess
import sys

import pytest

from rekindle.errors import DefinitionError
from rekindle.sources import Batch, Files, Stream


def test_only_a_stream_has_no_end() -> None:
    assert (Files.bounded, Batch.bounded, Stream.bounded) == (True, True, False)
    assert (Files.kind, Batch.kind, Stream.kind) == ("Files", "Batch", "Stream")


@pytest.mark.parametrize("spec", [Files("x"), *(kind(lambda spark: spark.range(1)) for kind in (Batch, Stream))])
def test_a_specification_does_not_change(spec) -> None:
    with pytest.raises(AttributeError):
        spec.path = spec.read = None


def test_the_function_is_kept_and_not_called() -> None:
    def read(spark):
        raise AssertionError

    assert Batch(read).read is read
    assert Stream(read).read is read


@pytest.mark.parametrize("kind", [Batch, Stream])
def test_a_dataframe_in_the_place_of_its_function_is_refused(kind) -> None:
    class DataFrame:
        """What `spark.readStream.load()` returns: no function."""

    with pytest.raises(DefinitionError, match=rf"rk\.{kind.kind} was given an object of type DataFrame") as refused:
        kind(DataFrame())
    assert refused.value.code == "SOURCE_FUNCTION_INVALID"
    assert refused.value.next_step.startswith(f"Write rk.{kind.kind}(lambda spark: ...)")


def test_defining_sources_loads_neither_pyspark_nor_what_lists_files() -> None:
    code = (
        "import sys; from rekindle.sources import *; Files('x'); Batch(id); Stream(id);"
        "print({'pyspark', 'fsspec', 'pyarrow'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("set()\n", "")
