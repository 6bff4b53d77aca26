"""The temporary files of JVMs that were killed do not add up."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rekindle.session import scratch
from tests.class_archive import environment_of_a_user

HOLDS = """
import sys
from rekindle.session import scratch
for text in sys.argv[2:] or [""]:
    print(scratch.option([], sys.argv[1]), flush=True)
sys.stdin.read()
"""

SHOWS_LOGS = """
import os, signal, sys
from rekindle.channels.shown_logs import shown_logs
from rekindle.session import scratch
from tests.channels.test_shown_logs import PaidStore
scratch.option([], sys.argv[1])
logs = shown_logs(PaidStore(), scratch.held())
logs.create("job/inbox/_spark_metadata/0", b"v1")
os.kill(os.getpid(), signal.SIGKILL)
"""

IS_KILLED = """
import os, signal, sys
from rekindle.session.session import make_session
spark = make_session("killed", {"spark.master": "local[1]"})
spark.range(10).repartition(2).count()
os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGKILL)
os.kill(os.getpid(), signal.SIGKILL)
"""


@contextmanager
def holding(root: Path, *jvms: str) -> Iterator[list[Path]]:
    """A process that has begun so many JVMs, one after the other, and is killed at the end; the folders of these."""
    command = [sys.executable, "-c", HOLDS, str(root), *jvms]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = [process.stdout.readline().strip().strip('"') for _ in jvms or ("",)]
            yield [Path(text.removeprefix("-Djava.io.tmpdir=")) for text in said]
        finally:
            process.kill()


def test_a_process_that_was_killed_leaves_its_folder_to_the_next_which_deletes_it(tmp_path: Path) -> None:
    with holding(tmp_path) as (lives,):
        with holding(tmp_path) as (killed,):
            (killed / "librocksdbjni.so").touch()
            assert lives.is_dir()
        assert killed.is_dir()
        with holding(tmp_path) as (later,):
            assert sorted(later.parent.iterdir()) == sorted([lives, later]), "the one that lives keeps its files"


def test_the_next_jvm_of_a_process_begins_with_an_empty_folder_and_the_one_before_is_gone(tmp_path: Path) -> None:
    with holding(tmp_path, "first", "second") as (first, second):
        assert list(second.parent.iterdir()) == [second] != [first]


def test_a_folder_of_all_that_others_can_write_to_is_not_used(tmp_path: Path) -> None:
    place = tmp_path / f"rekindle-spark-{os.getuid()}"
    place.mkdir()
    place.chmod(0o777)
    assert scratch.option([], str(tmp_path)) == ""
    assert list(place.iterdir()) == []


def test_where_no_folder_can_be_made_java_has_its_own(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert scratch.option([], str(tmp_path / "file")) == ""


def test_logs_that_spark_reads_on_this_machine_are_gone_with_the_folder(tmp_path: Path) -> None:
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", SHOWS_LOGS, str(tmp_path)], check=False, env=environ, timeout=60)
    (place,) = tmp_path.iterdir()
    assert [one.name for one in place.rglob("0")] == ["0"]
    with holding(tmp_path) as (later,):
        assert list(place.iterdir()) == [later] and not [*later.iterdir()]


@pytest.mark.parametrize("given", ["-Djava.io.tmpdir=/big", "-Xmx1g -Djava.io.tmpdir=/big"])
def test_a_user_who_names_a_directory_has_the_choice(tmp_path: Path, given: str) -> None:
    assert scratch.option(["", given], str(tmp_path)) == ""
    assert list(tmp_path.iterdir()) == []


def test_all_that_a_killed_jvm_leaves_lies_in_its_folder(tmp_path: Path) -> None:
    environ = {**environment_of_a_user(), "TMPDIR": str(tmp_path), "REKINDLE_LOGS": str(tmp_path / "logs")}
    command = [sys.executable, "-c", IS_KILLED]
    subprocess.run(command, check=False, env=environ, cwd=tmp_path, capture_output=True, timeout=300)
    place = tmp_path / f"rekindle-spark-{os.getuid()}"
    (killed,) = place.iterdir()
    assert any(killed.iterdir()), "Spark had its files there"
    assert not [one for one in tmp_path.iterdir() if one.name.startswith(("spark-", "blockmgr-", "lib"))]
    with holding(tmp_path) as (later,):
        assert list(place.iterdir()) == [later]


def test_a_process_that_can_write_nothing_temporary_is_told_so_and_how() -> None:
    program = f"""
import os, tempfile
from rekindle.session import scratch
tempfile._candidate_tempdir_list = lambda: ["{os.devnull}"]
try:
    scratch.temporary()
except Exception as error:
    print(error.code)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "TEMPORARY_FOLDER_MISSING\n"
