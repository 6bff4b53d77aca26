"""What set-up refuses before it changes anything. The rest of it is tried by every fresh clone."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

TOOLS = Path(__file__).parents[2] / "tools"
PROGRAMS = ("bash", "cat", "dirname", "grep", "head", "id", "readlink", "rm", "sed")
"""All that it finds in this test: no Python, and nothing that installs one."""


def test_an_environment_that_is_a_link_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for program in PROGRAMS:
        found = shutil.which(program)
        assert found is not None
        (tmp_path / "bin" / program).symlink_to(found)
    other, checkout = tmp_path / "other" / ".venv", tmp_path / "checkout"
    other.mkdir(parents=True)
    (other / "env.sh").write_text("of the other checkout")
    (checkout / "tools").mkdir(parents=True)
    for script in ("setup.sh", "jars.sh"):
        shutil.copy(TOOLS / script, checkout / "tools")
    (checkout / ".venv").symlink_to(other)

    done = subprocess.run(
        ["bash", "tools/setup.sh", "product"],
        cwd=checkout,
        env={"PATH": str(tmp_path / "bin"), "PYTHON": "/nowhere/python", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 1
    assert f".venv is a link to {other}" in done.stderr
    assert "rm .venv" in done.stderr
    assert (os.listdir(other), (other / "env.sh").read_text()) == (["env.sh"], "of the other checkout")
