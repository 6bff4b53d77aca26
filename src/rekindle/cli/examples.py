"""``rekindle example``: write a job that runs unchanged, and the data it reads."""

from __future__ import annotations

import runpy
from importlib import resources
from pathlib import Path

import click

from rekindle.cli import output
from rekindle.cli.app import example as usage
from rekindle.cli.app import with_json
from rekindle.errors import ConfigError, DefinitionError

JOBFILE = "hourly_bids.py"
_FILES = {
    JOBFILE: "the job: it counts the bids of each auction and hour",
    "make_bids.py": "makes more bids",
}
_DATA = {"bids/history": (0, 6), "bids/live": (6, 2)}
"""Folder of sample bids → the first hour and the number of hours in it."""


@click.command("example", epilog=usage("rekindle example && cd rekindle-example\nrekindle run hourly_bids.py"))
@click.argument("folder", default="rekindle-example")
@with_json
def make_example(folder: str, as_json: bool) -> int:
    """Write a job and its sample data into FOLDER.

    The default FOLDER is rekindle-example. It is created if it does not exist. No file in it is overwritten.
    """
    root = Path(folder)
    names = [*_FILES, *_DATA]
    if taken := [name for name in names if (root / name).exists()]:
        raise ConfigError("EXAMPLE_EXISTS", folder=folder, names=", ".join(taken))
    try:
        write_example(root)
    except OSError as error:
        raise DefinitionError(
            "ARGUMENT_INVALID",
            what="rekindle example",
            argument="FOLDER",
            value=folder,
            reason=f"No files can be written there: {error.strerror}.",
            hint="Name another folder.",
        ) from error
    if as_json:
        output.as_json({"folder": str(root.resolve()), "files": names})
        return 0
    for name, meaning in _FILES.items():
        output.say(f"{root / name}  {meaning}")
    for name, (first_hour, hours) in _DATA.items():
        output.say(f"{root / name}  bids of the hours {first_hour} to {first_hour + hours - 1} of 1 January 2025")
    output.say(f"Run it: cd {folder} && rekindle run {JOBFILE}")
    return 0


def write_example(root: Path) -> Path:
    """Write all files into a folder, and return the one with the job."""
    root.mkdir(parents=True, exist_ok=True)
    for name in _FILES:
        text = resources.files("rekindle.cli").joinpath("example").joinpath(name).read_text(encoding="utf-8")
        (root / name).write_text(text, encoding="utf-8")
    make = runpy.run_path(str(root / "make_bids.py"))["make"]
    for name, (first_hour, hours) in _DATA.items():
        make(str(root / name), first_hour, hours)
    return root / JOBFILE
