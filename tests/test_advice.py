"""The errors of the public functions end with what to do next, in words of Python too."""

from __future__ import annotations

import inspect
import sys
import traceback
from pathlib import Path

import pytest

import rekindle as rk
from rekindle.cli.running import run
from rekindle.errors import RestoreError
from rekindle.errors.conditions import CONDITIONS
from rekindle.errors.in_python import ARGUMENTS, in_python


def test_the_table_has_the_permissions_of_run_and_arguments_that_exist() -> None:
    permissions = {name for option in run.params for name in option.opts if name.startswith("--allow-")}
    assert permissions == {name for name in ARGUMENTS if name.startswith("--allow-")}
    options = {name for option in run.params for name in option.opts}
    assert {name.split()[0] for name in ARGUMENTS} <= options
    arguments = {said.partition("=")[0] for said in ARGUMENTS.values()}
    assert arguments <= inspect.signature(rk.Job.run).parameters.keys()
    assert arguments <= inspect.signature(rk.Job.start).parameters.keys()


def test_each_permission_that_a_next_step_names_is_said_in_python() -> None:
    said = {name for one in CONDITIONS.values() for name in in_python(one.next_step)}
    assert said >= {name for option, name in ARGUMENTS.items() if option.startswith("--allow-")}


def test_options_of_other_verbs_and_longer_names_are_not_taken_for_arguments() -> None:
    assert in_python("Start it with --allow-actions, or --allow-drained-too; see --from-here.") == []
    assert in_python("--from CHECKPOINT --rewind-sinks (restore=..., rewind_sinks=True)") == []
    assert in_python("Start from it with --from.") == ["restore=..."]


def test_the_text_of_an_error_ends_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(RestoreError) as caught:
        rk.state(tmp_path)
    first, step = str(caught.value).splitlines()
    assert first == f"[{caught.value.code}] {caught.value.message}"
    assert step == f"next: {caught.value.next_step}"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tracebacks of Python 3.10 show no notes")
def test_the_traceback_of_a_wrong_definition_ends_with_the_next_step() -> None:
    with pytest.raises(rk.errors.DefinitionError) as caught:
        rk.Files("orders", format="xml")  # type: ignore[arg-type]
    assert "".join(traceback.format_exception(caught.value)).splitlines()[-2:] == [
        f"rekindle.errors.DefinitionError: [FORMAT_UNKNOWN] {caught.value.message}",
        f"next: {caught.value.next_step}",
    ]


@pytest.mark.parametrize("verb", ["start", "run", "check"])
def test_a_refused_start_says_the_next_step_once(verb: str, tmp_path: Path) -> None:
    job = rk.Job("none")
    with pytest.raises(rk.RekindleError) as caught:
        getattr(job, verb)(storage=str(tmp_path))
    shown = "".join(traceback.format_exception(caught.value)).splitlines()
    assert [line for line in shown if line.startswith("next:")] == [f"next: {caught.value.next_step}"]
    assert str(caught.value).splitlines()[1:] == [f"next: {caught.value.next_step}"]
