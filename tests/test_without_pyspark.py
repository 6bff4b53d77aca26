"""A Python without PySpark: each public function that needs it says so, in words of ours."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = '''
import sys

class Missing:
    """As if PySpark was not installed."""

    def find_spec(self, name, path=None, target=None):
        top = name.split(".")[0]
        if top in ("pyspark", "py4j"):
            raise ModuleNotFoundError(f"No module named {top!r}", name=top)

sys.meta_path.insert(0, Missing())
import rekindle as rk

job = rk.Job("job")
source = job.source("source", rk.Files("nowhere", schema="n int"))
task = job.task(source, uid="task")(lambda frame: frame)
job.sink("sink", task, rk.sinks.Parquet("nowhere"))
try:
    VERB
except rk.RekindleError as error:
    print(error.code)
'''

VERBS = ("job.run()", "job.start()", "job.check()", "job.adopt('a', 'task')", "rk.flush(lambda spark: None, 'a')")


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_missing_is_said(verb: str) -> None:
    program = PROGRAM.replace("VERB", verb)

    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert said.stdout.split() == ["PYSPARK_MISSING"], said.stderr
