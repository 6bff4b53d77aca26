"""A terminal in a folder that holds the files of some pages."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from glob import glob
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()

# The pages speak as in an activated environment.
COMMANDS = {"rekindle": [sys.executable, "-m", "rekindle.cli"], "python": [sys.executable]}


def files(page: str) -> dict[str, str]:
    """A page's Python files; a block's name stands in the line above it."""
    return dict(re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE))


def lines(page: str) -> list[str]:
    """All lines of a page's shell blocks."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()]


class Shell:
    """The terminal."""

    def __init__(self, folder: Path, *pages: str) -> None:
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items() if name != "REKINDLE_STORAGE"}
        self.started: list[subprocess.Popen[str]] = []
        for page in pages:
            for name, text in files(page).items():
                (folder / name).write_text(text)

    def start(self, words: list[str]) -> subprocess.Popen[str]:
        """Start a command."""
        process = subprocess.Popen(
            [*COMMANDS.get(words[0], words[:1]), *words[1:]],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.started.append(process)
        return process

    def do(self, words: list[str]) -> str:
        """Do a command, which has to succeed; what it said."""
        process = self.start(words)
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 0, said
        return said

    def type(self, line: str) -> str:
        """Do a line, which has to succeed, and return what it said; ``... && cd FOLDER`` enters the folder."""
        line, _, folder = line.partition(" #")[0].partition(" && cd ")
        said = self.do(self.words(line))
        self.folder /= folder.strip()
        return said

    def words(self, line: str) -> list[str]:
        """A line as words; patterns are the files that match them."""
        if line.split(maxsplit=1)[0] not in COMMANDS:
            return ["bash", "-c", line]
        found = []
        for word in shlex.split(line, comments=True):
            matches = sorted(glob(word, root_dir=self.folder)) if "*" in word else []
            found += matches or [word]
        return found

    def close(self) -> None:
        """End what still runs."""
        for process in self.started:
            process.kill()
            process.communicate()
