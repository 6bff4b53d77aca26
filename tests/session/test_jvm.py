"""How the JVM is started: what its stderr loses on the way, and when Log4j is left to the user."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest

from rekindle.cli import logs
from rekindle.session import jvm, session
from rekindle.session.environment import environment


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """An environment that says nothing of Log4j."""
    for name in (*jvm._PLACES, "LOG4J_CONFIGURATION_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    return tmp_path


def passed_on(text, capfd):
    reader, writer = os.pipe()
    os.write(writer, text)
    os.close(writer)
    jvm._pass_on(reader)
    return capfd.readouterr().err


def test_only_the_line_about_the_incubator_module_is_cut_out(capfd):
    told = b"first\nWARNING: Using incubator modules: jdk.incubator.vector\nOutOfMemoryError\nno newline"
    assert passed_on(told, capfd) == "first\nOutOfMemoryError\nno newline"


def test_other_incubator_modules_are_reported(capfd):
    told = b"WARNING: Using incubator modules: jdk.incubator.vector, jdk.incubator.foreign\n"
    assert passed_on(told, capfd) == told.decode()


@pytest.mark.parametrize("log_format", [None, "json"])
def test_where_spark_logs_is_a_line_of_the_log_where_that_is_printed_in_a_format(log_format, capfd):
    with logs.printed(log_format, {}):
        jvm._say("Spark logs to /x")
    said = capfd.readouterr().err
    assert said == "Spark logs to /x\n" if log_format is None else json.loads(said)["message"] == "Spark logs to /x"


def test_log4j_is_configured_only_if_it_was_not_yet(bare):
    (bare / "spark-defaults.conf").touch()
    assert not jvm.configures_log4j({"spark.driver.extraJavaOptions": "-XX:+UseG1GC"})


@pytest.mark.parametrize("key", ["spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions"])
def test_a_setting_that_names_a_log4j_configuration_stands(bare, key):
    assert jvm.configures_log4j({key: "-Dlog4j.configurationFile=mine.xml"})


@pytest.mark.parametrize("name", [*jvm._PLACES, "LOG4J_CONFIGURATION_FILE"])
def test_an_environment_variable_that_names_one_stands(bare, monkeypatch, name):
    monkeypatch.setenv(name, "-Dlog4j2.configurationFile=mine.xml")
    assert jvm.configures_log4j({})


def test_a_log4j_file_in_sparks_conf_folder_stands(bare):
    (bare / "log4j2.properties.template").touch()
    assert not jvm.configures_log4j({}), "Spark ships this one"
    (bare / "log4j2.xml").touch()
    assert jvm.configures_log4j({})


def test_options_of_ours_come_before_the_users_which_win(monkeypatch):
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Xmx1g -XX:SharedArchiveFile=mine.jsa")
    log4j = f"-Dlog4j2.configurationFile={jvm._CONFIGURATION.as_uri()}"
    assert jvm._java_options({}, configured=False) == f"{log4j} -Xmx1g -XX:SharedArchiveFile=mine.jsa"
    assert jvm._java_options({}, configured=True) == "-Xmx1g -XX:SharedArchiveFile=mine.jsa"


def test_the_environment_is_as_before_once_a_process_runs(monkeypatch):
    monkeypatch.setenv("SET", "before")
    monkeypatch.delenv("UNSET", raising=False)
    with environment({"SET": None, "UNSET": "meanwhile"}):
        assert "SET" not in os.environ
        assert os.environ["UNSET"] == "meanwhile"
    assert os.environ["SET"] == "before"
    assert "UNSET" not in os.environ


def test_the_log_lies_in_the_folder_that_is_named_or_in_the_working_directory(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REKINDLE_LOGS", raising=False)
    assert jvm._log_file("hourly") == str(tmp_path / "rekindle-logs" / "hourly.log")
    monkeypatch.setenv("REKINDLE_LOGS", "elsewhere/logs")
    assert jvm._log_file("rekindle flush") == str(tmp_path / "elsewhere" / "logs" / "rekindle-flush.log")


def test_the_log_lies_in_the_temporary_directory_where_the_folder_cannot_be_made(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("REKINDLE_LOGS", str(tmp_path / "file" / "logs"))
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    assert jvm._log_file("hourly") == str(tmp_path / f"rekindle-logs-{os.getuid()}" / "hourly.log")


def test_what_a_ctrl_c_means_stays_as_it_was_since_no_session_is_made_in_the_main_thread():
    made_in = []
    builder = Mock()
    builder.session._jsparkSession.getClass().getName.return_value = "org.apache.spark.sql.classic.SparkSession"
    builder.getOrCreate.side_effect = lambda: made_in.append(threading.current_thread()) or builder.session

    assert session._make(builder) is builder.session

    assert made_in != [threading.main_thread()]
    activate = getattr(builder.session._jvm, "org.apache.spark.sql.classic.SparkSession").setActiveSession
    activate.assert_called_once_with(builder.session._jsparkSession)


def test_workers_import_what_stands_beside_the_program_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "before")
    for _ in range(2):
        session._let_workers_import_beside(str(tmp_path / "job.py"))
    session._let_workers_import_beside(None)
    assert os.environ["PYTHONPATH"] == os.pathsep.join([os.path.realpath(tmp_path), "before"])
