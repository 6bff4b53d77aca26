"""Loading a job file: the one job it defines, or one line about what is wrong with it."""

from __future__ import annotations

import os
import sys
import textwrap
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from rekindle.cli.jobfile import load, load_function
from rekindle.errors import DefinitionError, RekindleError


class Job:
    """Stands in for `rekindle.job.Job`: what is loaded is told by its type alone."""

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self) -> None:
        raise AssertionError("the guard let it through")


@pytest.fixture(autouse=True)
def api(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("rekindle.job")
    module.Job = Job  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rekindle.job", module)
    monkeypatch.setattr(sys, "path", list(sys.path))


Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to_file(text: str) -> str:
        (tmp_path / "job.py").write_text(textwrap.dedent(text))
        return str(tmp_path / "job.py")

    return to_file


def refusal(path: str) -> RekindleError:
    with pytest.raises(RekindleError) as caught:
        load(path)
    return caught.value


def test_the_job_is_loaded_and_its_guarded_run_is_not_called(write: Write) -> None:
    path = write("""
        from rekindle.job import Job
        job = Job("bids")
        alias = job
        if __name__ == "__main__":
            job.run()
    """)

    assert load(path).name == "bids"


def test_modules_beside_the_job_file_can_be_imported(write: Write, tmp_path: Path) -> None:
    (tmp_path / "beside_the_job.py").write_text("NAME = 'from beside'")

    path = write("""
        from beside_the_job import NAME
        from rekindle.job import Job
        job = Job(NAME)
    """)

    assert load(path).name == "from beside"


def test_functions_of_a_loaded_file_still_see_its_names_and_belong_to_no_module_workers_would_import(
    write: Write,
) -> None:
    path = write("""
        from rekindle.job import Job
        FACTOR = 3
        job = Job("bids")
        job.function = lambda number: FACTOR * number
    """)

    function = load(path).function  # type: ignore[attr-defined]

    assert function(2) == 6
    assert function.__module__ not in sys.modules


def test_a_missing_job_file_is_reported(tmp_path: Path) -> None:
    assert refusal(str(tmp_path / "nope.py")).code == "JOBFILE_MISSING"
    assert refusal(str(tmp_path)).code == "JOBFILE_MISSING"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = 1\ny = nope\n", "NameError: name 'nope' is not defined (line 2)"),
        ("def f():\n    raise ValueError('a\\nb')\nf()\n", "ValueError: a (line 2)"),
        ("import json\njson.loads('{')\n", "(line 2)"),
        ("x = 1\nif x\n", "SyntaxError: expected ':' (line 2)"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3 (line 2)"),
        ("raise KeyError\n", "KeyError (line 1)"),
    ],
)
def test_an_error_of_a_job_file_is_reported_in_one_line_with_the_place(text: str, reason: str, write: Write) -> None:
    error = refusal(write(text))

    assert error.code == "JOBFILE_FAILED"
    assert reason in error.message
    assert "\n" not in error.message


def test_an_error_of_ours_keeps_its_own_code(write: Write) -> None:
    error = refusal(write("from rekindle.errors import DefinitionError\nraise DefinitionError('UID_INVALID', uid='?')"))

    assert isinstance(error, DefinitionError)
    assert error.code == "UID_INVALID"


def test_a_file_must_define_exactly_one_job(write: Write) -> None:
    assert refusal(write("x = 1")).code == "JOBFILE_NO_JOB"
    several = refusal(write("from rekindle.job import Job\na = Job('a')\nb = Job('b')"))
    assert several.code == "JOBFILE_SEVERAL_JOBS"
    assert several.parameters["jobs"] == "a, b"


def test_a_function_is_named_behind_its_file_or_module_or_is_called_query(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("def query(spark): return 'query'\ndef bids(spark): return 'bids'\n")
    monkeypatch.syspath_prepend(str(Path(path).parent))
    assert load_function(path)(None) == "query"
    assert load_function(f"{path}:bids")(None) == "bids"
    assert load_function(f"{Path(path).stem}:bids")(None) == "bids"


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("{path}:none", "FUNCTION_UNKNOWN"),
        ("{path}:number", "FUNCTION_UNKNOWN"),
        ("no.such.module:bids", "FUNCTION_UNKNOWN"),
        ("bids", "FUNCTION_UNKNOWN"),
        ("/nowhere/query.py:bids", "JOBFILE_MISSING"),
    ],
)
def test_what_names_no_function_is_refused(write: Write, target: str, code: str) -> None:
    path = write("number = 1\n")
    with pytest.raises(RekindleError) as raised:
        load_function(target.format(path=path))
    assert raised.value.code == code


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process has no session of Spark."""
    for name in ("SparkContext._active_spark_context", "sql.SparkSession._instantiatedSession"):
        monkeypatch.setattr(f"pyspark.{name}", None)


@pytest.mark.usefixtures("no_session")
def test_code_that_needs_spark_while_the_file_is_loaded_gets_a_place_for_it(write: Write) -> None:
    path = write("""
        from pyspark.sql import functions as F
        from rekindle.job import Job

        @F.udf("long")
        def twice(value):
            return 2 * value

        job = Job("bids")
    """)
    error = refusal(path)
    assert error.code == "JOBFILE_NEEDS_SPARK"
    assert "(line 5)" in str(error)
    assert "inside the function of the task" in error.next_step
    assert "@F.udf(DoubleType())" in error.next_step


@pytest.mark.usefixtures("no_session")
def test_a_function_of_sparks_whose_type_is_an_object_needs_no_session(write: Write) -> None:
    path = write("""
        from pyspark.sql import functions as F
        from pyspark.sql.types import DoubleType
        from rekindle.job import Job

        @F.udf(DoubleType())
        def twice(value):
            return 2.0 * value

        job = Job("bids")
    """)
    assert load(path).name == "bids"


def test_workers_find_what_stands_beside_the_file(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "before")
    load(write("from rekindle.job import Job\njob = Job('bids')"))
    assert os.environ["PYTHONPATH"] == os.pathsep.join([str(tmp_path), "before"])


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("x = 1 / 0\n", "ZeroDivisionError: division by zero (line 1)"),
        ("def bids(:\n", "SyntaxError: invalid syntax (line 1)"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3 (line 2)"),
        ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module' (line 1)"),
    ],
)
def test_what_the_code_of_a_module_raises_is_an_error_with_its_line(tmp_path: Path, code: str, reason: str) -> None:
    (tmp_path / "of_a_user.py").write_text(code)
    sys.path.insert(0, str(tmp_path))
    with pytest.raises(RekindleError) as raised:
        load_function("of_a_user:bids")
    assert raised.value.code == "JOBFILE_FAILED"
    assert str(tmp_path / "of_a_user.py") in raised.value.message and reason in raised.value.message


def test_a_module_with_dots_alone_names_no_function() -> None:
    with pytest.raises(RekindleError, match="FUNCTION_UNKNOWN"):
        load_function("..query:bids")
