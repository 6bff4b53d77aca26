"""The page on testing one's job: its job and its tests run as they stand there, and it names all there is."""

from __future__ import annotations

import re
import subprocess
import sys
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


@pytest.mark.slow
@pytest.mark.spark
def test_the_tests_of_the_page_pass_where_a_user_has_put_them_in_a_jvm_that_starts_quickly(tmp_path: Path) -> None:
    (conftest,) = re.findall(r"^```text\n(pytest_plugins.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    quickly = """
def test_the_jvm_starts_quickly(rekindle_spark):
    beans = rekindle_spark._jvm.java.lang.management.ManagementFactory
    assert set(QUICKLY.split()) <= set(beans.getRuntimeMXBean().getInputArguments())
"""
    files = {"conftest.py": conftest, "pipeline.py": JOB, "test_pipeline.py": TESTS}
    files["test_jvm.py"] = f"from rekindle.testing.harness.fixtures import QUICKLY\n{quickly}"
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
    assert f"{TESTS.count('def test_') + 1} passed" in done.stdout


def test_the_page_names_every_method_and_its_steps_are_steps() -> None:
    methods = [name for name in vars(JobHarness) if not name.startswith("_")]
    assert [name for name in methods if not re.search(rf"\b{name}\b", PAGE)] == []
    steps = re.findall(r"`([a-z]+\.[a-z]+/[a-z]+)`", PAGE)
    assert len(steps) > 5
    assert [checked(step) for step in steps] == steps
    assert "def rekindle_spark(spark)" in SESSION
