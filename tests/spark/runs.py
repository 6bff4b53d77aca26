"""A run for tests of what one subtask does with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rekindle.config import Config
from rekindle.protocol import events as e
from rekindle.runtime.definition import RunContext
from rekindle.runtime.steps import no_steps
from rekindle.storage.documents.runs import Run
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.run_ends import RunEnds


def run_of(storage: JobStorage, post: Callable[[e.Event], None] = lambda event: None) -> RunContext:
    """Return the first run of a job that is not defined any further."""
    undefined: Any = None
    run = Run(run=1, started_ms=0, host="here", pid=1, lineage=1)
    return RunContext(
        storage=storage,
        run=run,
        owner=f"{storage.job}-1a2b",
        graph=undefined,
        definition=undefined,
        frozen={},
        config=Config(),
        steps=no_steps,
        ends=RunEnds(storage, run, ()),
        post=post,
    )
