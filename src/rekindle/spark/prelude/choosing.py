"""The choice of a task's prelude, by what its plan says and what the setting ``backlog.mode`` asks for."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from rekindle.errors import DefinitionError
from rekindle.graph.job_graph import Task
from rekindle.graph.prelude import why_streamed
from rekindle.runtime.definition import RunContext
from rekindle.spark.inputs.input import Input
from rekindle.spark.output.outputs import SubtaskPlace
from rekindle.spark.prelude.facts import facts_of
from rekindle.spark.prelude.history import HistoryPrelude
from rekindle.spark.prelude.prelude import NoPrelude, Prelude
from rekindle.spark.prelude.reading import PreludeReading

_LOG = logging.getLogger(__name__)


def prelude_of(
    run: RunContext, spark: SparkSession, task: Task, place: SubtaskPlace, frame: DataFrame, inputs: Sequence[Input]
) -> Prelude:
    """Return the prelude of a subtask.

    Args:
        frame: its query.
        inputs: what that reads.

    Raises:
        DefinitionError: ``BACKLOG_UNSUPPORTED``.
    """
    mode, none = run.config.backlog_mode, NoPrelude(run.storage, place.folder)
    if mode == "stream":
        return none
    facts, windows = facts_of(task, frame, inputs, changed_files=run.changed_files)
    if not facts.has_history:
        return none
    refused = why_streamed(facts)
    if refused is None:
        assert windows is not None, "it has windows that close"
        reading = PreludeReading(run, spark, task, place, inputs, windows)
        fence, number = run.storage.fence, run.run.run
        return HistoryPrelude(run.storage, number, task.uid, place.folder, reading, lambda: fence.check(number))
    if mode == "batch":
        raise DefinitionError("BACKLOG_UNSUPPORTED", task=task.uid, reason=refused)
    _LOG.warning("Task %s streams its history: %s", task.uid, refused)
    return none
