"""Spark's classes kept in a file (`rekindle.session.kept_classes`): who uses the file, and when there is none."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from rekindle.errors import ConfigError
from rekindle.session import jvm, kept_classes, local_files
from tests.class_archive import COMPILED_QUICKLY, environment_of_a_user

KEEPS = """
import json, sys
from functools import partial
from rekindle.cli.warming import run_example, temporary_folder
from rekindle.errors import ConfigError
from rekindle.session.jvm import start_jvm
from rekindle.session.kept_classes import keep
from rekindle.session.local_files import HADOOPS
try:
    with temporary_folder() as folder:
        life = partial(run_example, folder) if sys.argv[2:] else partial(start_jvm, HADOOPS, "life")
        print(json.dumps(keep(life, sys.argv[1])))
except ConfigError as error:
    sys.exit(f"{error}")
"""
FAILS = """
import sys
from rekindle.session.jvm import start_jvm
from rekindle.session.kept_classes import keep
def fails():
    start_jvm({}, "fails")
    raise OSError("the example failed")
keep(fails, sys.argv[1])
"""
STARTS = """
import sys
sys.prefix = sys.argv.pop(1)
from rekindle.session.jvm import start_jvm
start_jvm(dict(each.split("=", 1) for each in sys.argv[1:]), "starts")
"""
QUERIES = """
import sys
sys.prefix = sys.argv.pop(1)
from rekindle.session.session import make_session
make_session("queries", {}).range(10).count()
"""
SHARED = "source: shared objects file (top)"
"""What Java logs of a class that is in a file of this kind."""
OF_QUERIES = "org.apache.spark.sql.execution.WholeStageCodegenExec "
"""A class that a session alone does not need."""


@pytest.fixture
def cached(tmp_path: Path) -> Path:
    """The folder of kept classes in a cache that stands for the user's."""
    folder = tmp_path / "cache" / "rekindle"
    folder.mkdir(parents=True)
    return folder


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    """That of a user's process: it has no file of classes, and no jars of tests."""
    return {
        **environment_of_a_user(),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "REKINDLE_LOGS": str(tmp_path / "logs"),
        **more,
    }


def run(program: str, environ: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300, check=False)


def kept_in(tmp_path: Path, environ: Mapping[str, str], *example: str) -> Path:
    """Keep the classes of a JVM, or of one that has run the example; return the file, which is alone in its folder."""
    made = run(KEEPS, environ, str(tmp_path / "a prefix"), *example)
    assert made.returncode == 0, made.stderr
    path, size = json.loads(made.stdout.splitlines()[-1])
    assert os.path.getsize(path) == size
    assert [*(tmp_path / "a prefix" / "share" / "rekindle").iterdir()] == [Path(path)]
    return Path(path)


def shared_by(tmp_path: Path, environ: Mapping[str, str], *settings: str, program: str = STARTS) -> list[str]:
    """Start a JVM; return what it logs of the kept classes that it uses."""
    log = tmp_path / "classes.log"
    environ = {**environ, "SPARK_SUBMIT_OPTS": f"{COMPILED_QUICKLY} -Xlog:class+load:file={log}"}
    started = run(program, environ, str(tmp_path / "a prefix"), *settings)
    assert started.returncode == 0, started.stderr
    assert "cds" not in started.stdout + started.stderr
    shared = [line for line in log.read_text().splitlines() if SHARED in line]
    log.unlink()
    return shared


def test_jvms_of_every_kind_use_what_is_kept(tmp_path: Path) -> None:
    configuration = tmp_path / "hadoop"
    configuration.mkdir()
    (configuration / "core-site.xml").write_text("<configuration/>")
    environ = environment(tmp_path, HADOOP_CONF_DIR=str(configuration))
    kept_in(tmp_path, environ)

    # With the master of a cluster the class path has no jar of ours, with a local one it has.
    for kind in (local_files.HADOOPS, local_files.SETTINGS):
        assert len(shared_by(tmp_path, environ, *("=".join(each) for each in kind.items()))) > 1_000
    # With another class path Java starts as it would without, and says nothing.
    assert not shared_by(tmp_path, environ, f"spark.driver.extraClassPath={configuration}")


@pytest.mark.slow  # to write the classes of a query to a file takes a JVM longer than to run it
def test_the_example_is_run_and_a_session_uses_what_is_kept(tmp_path: Path) -> None:
    environ = environment(tmp_path)
    kept_in(tmp_path, environ, "example")
    shared = shared_by(tmp_path, environ, program=QUERIES)
    assert len(shared) > 5_000 and any(OF_QUERIES in line for line in shared)


def test_a_folder_of_configuration_before_sparks_jars_is_the_reason_that_none_are_kept(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").touch()
    old = kept_classes._file_in(tmp_path / "share" / "rekindle", os.environ)
    old.parent.mkdir(parents=True)
    old.write_text("older")
    made = run(KEEPS, environment(tmp_path, SPARK_CONF_DIR=str(tmp_path)), str(tmp_path))
    assert made.returncode == 1
    assert "[CLASSES_NOT_KEPT] Spark's classes could not be kept in a file" in made.stderr
    assert f"non-empty directory '{tmp_path}/'" in made.stderr
    assert [path.read_text() for path in old.parent.iterdir()] == ["older"]


def test_a_life_that_fails_leaves_nothing_not_even_when_its_process_ends(tmp_path: Path) -> None:
    failed = run(FAILS, environment(tmp_path), str(tmp_path))
    assert "OSError: the example failed" in failed.stderr.splitlines()
    assert not [*(tmp_path / "share" / "rekindle").iterdir()]


def test_where_nothing_can_be_written_none_are_kept(tmp_path: Path) -> None:
    (tmp_path / "share").touch()
    (tmp_path / "cache").touch()
    made = run(KEEPS, environment(tmp_path), str(tmp_path))
    assert made.returncode == 1
    assert f"no file can be written in {tmp_path}/share/rekindle or {tmp_path}/cache/rekindle" in made.stderr


def test_a_warm_up_that_fails_leaves_nothing_but_the_log_that_it_has_named(tmp_path: Path) -> None:
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text('#!/bin/sh\necho no room > "$REKINDLE_SPARK_LOG"\nexit 1\n')
    submit.chmod(stat.S_IRWXU)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environ = environment(tmp_path, SPARK_HOME=str(tmp_path), TMPDIR=str(temporary))
    logs = environ.pop("REKINDLE_LOGS")
    command = "import sys; from rekindle.cli.verbs import rekindle; rekindle(['warm-up'])"

    failed = run(command, environ)
    (named,) = (line for line in failed.stderr.splitlines() if line.startswith("Spark logs to "))
    assert Path(named.removeprefix("Spark logs to ")).read_text() == "no room\n"
    assert [path.name for path in temporary.glob("rekindle-warm-up-*")] == [Path(named).parts[-3]]

    assert run(command, {**environ, "REKINDLE_LOGS": logs}).returncode == 1
    assert len([*temporary.glob("rekindle-warm-up-*")]) == 1


def test_a_process_that_spark_submit_has_started_keeps_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with pytest.raises(ConfigError, match="this process has a JVM of Spark already") as error:
        kept_classes.keep(lambda: None)
    assert error.value.code == "CLASSES_NOT_KEPT"


def test_the_file_of_the_environment_comes_before_that_of_the_user(tmp_path: Path, cached: Path) -> None:
    environ = environment(tmp_path)
    own = tmp_path / "share" / "rekindle"
    assert kept_classes.options(environ, str(tmp_path)) == ""
    for folder in (cached, own):
        folder.mkdir(parents=True, exist_ok=True)
        path = kept_classes._file_in(folder, environ)
        path.touch()
        assert kept_classes.options(environ, str(tmp_path)).startswith(f'"-XX:SharedArchiveFile={path}" -Xlog:')


def test_each_java_and_each_spark_has_a_file_of_its_own(tmp_path: Path) -> None:
    javas = []
    for name in ("one", "two"):
        java = tmp_path / name / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text(name)
        java.chmod(stat.S_IRWXU)
        javas.append({"PATH": str(java.parent)})
    one, two = (kept_classes._file_in(tmp_path, environ) for environ in javas)
    assert one != two
    assert kept_classes._file_in(tmp_path, {"JAVA_HOME": str(tmp_path / "two"), **javas[0]}) == two


@pytest.mark.parametrize("name", jvm._PLACES)
def test_a_user_who_names_a_file_of_classes_has_the_choice(
    tmp_path: Path, cached: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for place in jvm._PLACES:
        monkeypatch.delenv(place, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kept_classes._file_in(cached, os.environ).touch()
    assert "SharedArchiveFile" in jvm._java_options({}, configured=True)
    for option in ("-XX:SharedArchiveFile=mine.jsa", "-XX:ArchiveClassesAtExit=mine.jsa"):
        assert "rekindle" not in jvm._java_options({"spark.driver.extraJavaOptions": option}, configured=True)
        monkeypatch.setenv(name, option)
        assert "rekindle" not in jvm._java_options({}, configured=True)
