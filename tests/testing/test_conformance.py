"""The conformance runner, on cases written here and on those beside the checkout, where they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rekindle.testing import conformance
from rekindle.testing.cases import plan, restore

SHARED = Path(__file__).resolve().parents[3] / "shared" / "conformance"

PLAN: dict[str, dict[str, Any]] = {
    "sources are triggered while all run": {
        "vertices": [[2, []], [3, []]],
        "edges": [[0, 1, "A2A"]],
        "trigger": {"0": [0, 1]},
        "fullyFinished": [],
    },
    "a finished source makes new roots": {
        "vertices": [[2, [0, 1]], [3, [1]]],
        "edges": [[0, 1, "A2A"]],
        "trigger": {"1": [0, 2]},
        "fullyFinished": [0],
    },
    "two sources for a consumer": {
        "vertices": [[4, [0, 1]], [2, []]],
        "edges": [[0, 1, "PW"]],
        "trigger": {"0": [2, 3], "1": [0]},
        "fullyFinished": [],
    },
    "more than ten vertices keep their order": {
        "vertices": [[1, [0]]] * 12 + [[1, []]],
        "edges": [],
        "trigger": {"12": [0]},
        "fullyFinished": list(range(12)),
    },
    "nothing is left to trigger": {
        "vertices": [[1, [0]], [2, [0, 1]]],
        "edges": [[0, 1, "A2A"]],
        "trigger": {},
        "fullyFinished": [0, 1],
        "reason": "ALL_TASKS_FINISHED",
    },
    "the feature is off": {
        "vertices": [[2, [0]]],
        "edges": [],
        "feature": False,
        "trigger": {},
        "fullyFinished": [],
        "reason": "TASKS_FINISHED_FEATURE_OFF",
    },
}

RESTORE: dict[str, dict[str, Any]] = {
    "finished behind partly finished": {"v1": "PARTIAL", "v2": "FULL", "edges": ["PW"], "rule": "F"},
    "partly finished behind running, all to all": {"v1": "RUNNING", "v2": "PARTIAL", "edges": ["A2A"], "rule": "A"},
    "partly finished behind running, pointwise": {"v1": "RUNNING", "v2": "PARTIAL", "edges": ["PW"], "rule": "P"},
    "partly finished behind partly finished": {"v1": "PARTIAL", "v2": "PARTIAL", "edges": ["PW"], "rule": None},
    "unchanged": {"v1": "FULL", "v2": "FULL", "edges": ["A2A", "PW"], "rule": None},
}


@pytest.mark.parametrize("case", PLAN.values(), ids=PLAN)
def test_a_plan_is_compared_with_what_its_case_says(case: dict[str, Any]) -> None:
    ok, actual = plan.check(case)
    assert ok, actual
    assert actual == {key: case[key] for key in ("trigger", "fullyFinished", "reason") if key in case}


def test_a_refused_plan_triggers_no_subtask() -> None:
    case = {key: value for key, value in PLAN["nothing is left to trigger"].items() if key != "reason"}
    assert plan.check(case) == (True, {"trigger": {}, "fullyFinished": [0, 1]})


@pytest.mark.parametrize("wrong", [{"trigger": {"0": [0]}}, {"fullyFinished": []}])
def test_a_plan_other_than_its_case_says_is_not_ok(wrong: dict[str, Any]) -> None:
    assert not plan.check({**PLAN["a finished source makes new roots"], **wrong})[0]


def test_a_case_that_expects_nothing_is_not_ok() -> None:
    assert not plan.check({"vertices": [[1, []]], "edges": []})[0]


@pytest.mark.parametrize("case", RESTORE.values(), ids=RESTORE)
def test_a_restore_is_compared_with_what_its_case_says(case: dict[str, Any]) -> None:
    expected = {"verdict": "reject" if case["rule"] else "accept", "rule": case["rule"]}
    assert restore.check({**case, **expected}) == (True, expected)
    assert restore.check({**case, "verdict": expected["verdict"], "rule": "M"}) == (False, expected)


def test_a_restore_of_other_states_or_rules_than_its_case_says_is_not_ok() -> None:
    case = {**RESTORE["unchanged"], "verdict": "accept"}
    assert restore.check(case)[0]
    assert not restore.check({**case, "v1": "RUNNING"})[0]


# --- the command ------------------------------------------------------------------------------------------------------


def write(folder: Path, cases: object) -> str:
    path = folder / "cases.json"
    path.write_text(json.dumps(cases))
    return str(path)


def test_the_command_prints_a_list_with_an_object_for_each_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = [{"name": "plain", **RESTORE["unchanged"], "verdict": "accept"}, {**RESTORE["unchanged"], "verdict": "→"}]
    assert conformance.main(["restore", write(tmp_path, cases)]) == 1
    accepted = {"verdict": "accept", "rule": None}
    assert json.loads(capsys.readouterr().out) == [
        {"name": "plain", "ok": True, "actual": accepted},
        {"name": "case 1", "ok": False, "actual": accepted},
    ]
    assert conformance.main(["restore", write(tmp_path, cases[:1])]) == 0


def test_a_file_without_cases_is_conformed_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert conformance.main(["plan", write(tmp_path, [])]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_a_case_that_cannot_be_run_is_not_ok_and_the_others_are_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = PLAN["a finished source makes new roots"]
    circle = {**good, "edges": [[0, 1, "PW"], [1, 0, "PW"]]}
    assert conformance.main(["plan", write(tmp_path, [circle, {**good, "edges": [[0, 1, "?"]]}, good])]) == 1
    first, second, third = json.loads(capsys.readouterr().out)
    assert not first["ok"] and "[TASKS_CYCLIC]" in first["actual"]["error"]
    assert not second["ok"] and second["actual"] == {"error": "KeyError: '?'"}
    assert third["ok"]


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "No such file"), ("{", "Expecting"), ("{}", "not a JSON list of objects"), ("[1]", "not a JSON list")],
)
def test_a_file_that_holds_no_cases_is_refused_with_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, words: str
) -> None:
    path = tmp_path / "cases.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SystemExit) as raised:
        conformance.main(["plan", str(path)])
    assert raised.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert f"{path} cannot be read: " in last and words in last


def test_a_kind_that_there_is_not_is_refused_with_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        conformance.main(["plans", "cases.json"])
    assert raised.value.code == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert "'plans'" in line and all(kind in line for kind in conformance.KINDS)


@pytest.mark.parametrize("kind", conformance.KINDS)
def test_every_case_beside_the_checkout_is_conformed_to(kind: str) -> None:
    path = SHARED / f"{kind}.json"
    if not path.is_file():
        pytest.skip("the conformance cases are not in ../shared/conformance beside this checkout")
    results = conformance.run(kind, conformance.read_cases(path))
    assert results
    assert [result for result in results if not result["ok"]] == []
