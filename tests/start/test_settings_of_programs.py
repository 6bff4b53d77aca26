"""Settings of a job and of Spark as a program gives them, right and wrong."""

from __future__ import annotations

from typing import Any

import pytest

from rekindle.config import Config, texts
from rekindle.errors import ConfigError, DefinitionError


def test_numbers_and_bools_are_written_as_spark_reads_them() -> None:
    given = {"spark.sql.shuffle.partitions": 2, "spark.sql.ansi.enabled": False, "spark.master": "local[2]"}
    wanted = {"spark.sql.shuffle.partitions": "2", "spark.sql.ansi.enabled": "false", "spark.master": "local[2]"}
    assert texts(given) == wanted


@pytest.mark.parametrize("value", [None, ["a"], {"a": 1}])
def test_what_is_no_text_is_refused_by_its_name(value: object) -> None:
    with pytest.raises(ConfigError, match=r"'?spark\.jars'?") as refused:
        texts({"spark.jars": value})
    assert refused.value.code == "VALUE_INVALID"


@pytest.mark.parametrize("given", ["checkpoint.interval=1 s", [("checkpoint.interval", "1 s")], 7])
def test_what_is_no_mapping_is_refused_with_how_to_write_it(given: Any) -> None:
    for of, argument in ((Config.of, "config"), (texts, "spark_config")):
        with pytest.raises(DefinitionError, match=rf"The job has {argument}=") as refused:
            of(given)
        assert refused.value.code == "ARGUMENT_INVALID"


def test_a_name_that_is_no_text_is_an_unknown_setting() -> None:
    with pytest.raises(ConfigError) as refused:
        Config.of({1: "2"})  # type: ignore[dict-item]
    assert refused.value.code == "KEY_UNKNOWN"


def test_a_run_of_what_is_available_now_gives_up_unless_the_settings_say_otherwise() -> None:
    assert Config.of({}).restart_attempts is None
    assert Config.of({}, available_now=True).restart_attempts == 10
    assert Config.of({"restart.attempts": "unlimited"}, available_now=True).restart_attempts is None
    assert Config.of({"restart.attempts": "2"}, available_now=True).restart_attempts == 2
