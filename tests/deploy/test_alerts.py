"""The alert rules and the dashboard in deploy/: they name metrics that there are, and raise what they should."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rekindle.monitoring.monitors import Monitors
from rekindle.ui.metrics import exposition
from tests.ui.world import World

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "prometheus" / "rekindle-alerts.yml"
VENV = Path(os.environ.get("REKINDLE_TEST_JARS", ROOT / ".venv"))
DASHBOARD = ROOT / "deploy" / "grafana" / "rekindle.json"
NAMES = re.compile(r"\b(?:rekindle|flink)_[a-zA-Z_]+")


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> str:
    return exposition(Monitors([World(str(tmp_path_factory.mktemp("world"))).everything().store]))[0].decode()


@pytest.mark.parametrize("page", [RULES, DASHBOARD], ids=lambda page: page.name)
def test_every_metric_that_is_named_is_there(metrics: str, page: Path) -> None:
    there = {family.name for family in text_string_to_metric_families(metrics)}

    assert set(NAMES.findall(page.read_text(encoding="utf-8"))) - there == set()


def test_every_state_that_an_alert_names_is_there(metrics: str) -> None:
    states = set(re.findall(r'rekindle_job_state\{.*state="(\w+)"', metrics))

    assert set(re.findall(r'state="(\w+)"', RULES.read_text(encoding="utf-8"))) <= states


def test_every_panel_of_the_dashboard_has_a_place_and_a_query() -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    taken: set[tuple[int, int]] = set()

    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert all(query["expr"] for query in panel["targets"])
        assert not taken & cells
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_the_dashboard_is_one_by_the_schema_of_grafana() -> None:
    models = pytest.importorskip("grafana_foundation_sdk.models.dashboard")
    document = json.loads(DASHBOARD.read_text(encoding="utf-8"))

    found = models.Dashboard.from_json(document)

    known = set(found.to_json()) | {"panels"}
    assert set(document) - known == set()
    assert [panel.title for panel in found.panels] == [panel["title"] for panel in document["panels"]]


def test_promtool_finds_the_rules_raise_what_they_should(tmp_path: Path, metrics: str) -> None:
    promtool = shutil.which("promtool") or shutil.which("promtool", path=str(VENV / "prometheus"))
    if promtool is None:
        pytest.skip("no promtool (Debian: apt-get install prometheus)")
    exprs = [
        query["expr"].replace("$__rate_interval", "1m").replace("$job", ".*")
        for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
        for query in panel["targets"]
    ]
    queries = tmp_path / "queries.yml"  # JSON is YAML
    rules = [{"record": f"query:{number}", "expr": expr} for number, expr in enumerate(exprs)]
    queries.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))

    for arguments in (["check", "rules", str(RULES)], ["check", "rules", str(queries)],
                      ["test", "rules", str(ROOT / "tests" / "deploy" / "alerts_test.yml")]):  # fmt: skip
        done = subprocess.run([promtool, *arguments], check=False, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
