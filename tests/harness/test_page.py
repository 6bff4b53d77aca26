"""The page on testing one's job: its job and its tests run as they stand there, and it names all there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rekindle.testing.harness import JobHarness
from rekindle.testing.harness.fixtures import MakeHarness
from rekindle.testing.harness.points import checked

PAGE = (Path(__file__).parents[2] / "docs" / "harness.md").read_text()
JOB, TESTS, SESSION = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.spark
@pytest.mark.parametrize("name", re.findall(r"def (test_\w+)", TESTS))
def test_the_tests_of_the_page_pass(
    name: str, job_harness: MakeHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pipeline.py").write_text(JOB)
    monkeypatch.syspath_prepend(tmp_path)
    written: dict[str, object] = {}
    exec(compile(TESTS, "<docs/harness.md>", "exec"), written)
    test = written[name]
    assert callable(test)
    test(job_harness)


def test_the_page_names_every_method_and_its_steps_are_steps() -> None:
    methods = [name for name in vars(JobHarness) if not name.startswith("_")]
    assert [name for name in methods if not re.search(rf"\b{name}\b", PAGE)] == []
    steps = re.findall(r"`([a-z]+\.[a-z]+/[a-z]+)`", PAGE)
    assert len(steps) > 5
    assert [checked(step) for step in steps] == steps
    assert "def rekindle_spark(spark)" in SESSION
