"""``rekindle warm-up``: keep Spark's classes in a file, so that Spark starts sooner."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import click

from rekindle.cli import output
from rekindle.cli.app import example, with_json
from rekindle.cli.examples import write_example
from rekindle.cli.running import stdout_for_result
from rekindle.errors import ConfigError

_LOOK_S = 0.1


@click.command("warm-up", epilog=example("rekindle warm-up"))
@with_json
def warm_up(as_json: bool) -> int:
    """Keep Spark's classes in a file, with which Spark starts sooner.

    It runs the example of `rekindle example` in a temporary folder, and keeps the classes that Java has loaded by then
    beside this Python, or in the user's cache where that cannot be written. Every JVM that Rekindle starts from then on
    uses the file. Do it once in an environment or an image, and once more after an update of Java or PySpark.
    """
    from rekindle.session.kept_classes import keep

    if not as_json:
        output.say("Running the example once ...", err=True)
    with stdout_for_result(as_json), temporary_folder() as folder:
        kept = keep(partial(run_example, folder))
    if as_json:
        output.as_json(kept._asdict())
        return 0
    output.say(f"{kept.path}  {output.size(kept.bytes)}")
    output.say("Every JVM that Rekindle starts in this environment uses it from now on.")
    return 0


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder that is deleted at the end, unless something fails, and Spark's log, which was named, is there."""
    folder = Path(tempfile.mkdtemp(prefix="rekindle-warm-up-"))
    is_wanted = False
    try:
        yield folder
    except Exception:
        is_wanted = any(folder.glob("*/*.log"))
        raise
    finally:
        if not is_wanted:
            shutil.rmtree(folder, ignore_errors=True)


def run_example(folder: Path) -> None:
    """Run the example from beginning to end in `folder`, in a session that could be that of a cluster as well."""
    from rekindle.cli.jobfile import load
    from rekindle.session.local_files import HADOOPS

    # Java uses the file if its class path begins with the one that the file was made with.
    with _inside(folder):
        job = load(str(write_example(folder)))
        settings = {**HADOOPS, "spark.master": "local[2]"}
        handle = job.start(storage="state", config={"checkpoint.interval": "1 second"}, spark_config=settings)
        # A drain reads nothing more of a history.
        while handle.is_running() and not any(Path("out").rglob("*.parquet")):
            time.sleep(_LOOK_S)
        result = handle.stop(drain=True)
        if result.error is not None:
            raise ConfigError("CLASSES_NOT_KEPT", reason=f"the example failed: {result.error['message']}")


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
