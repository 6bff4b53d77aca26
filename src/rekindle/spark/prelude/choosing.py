"""The choice of a task's prelude, by what its plan says and what the setting ``backlog.mode`` asks for."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from rekindle.errors import DefinitionError
from rekindle.graph.job_graph import Task
from rekindle.graph.prelude import why_streamed
from rekindle.graph.queries import QueryDescription
from rekindle.runtime.definition import RunContext
from rekindle.spark.inputs.input import Input
from rekindle.spark.output.outputs import SubtaskPlace
from rekindle.spark.prelude.facts import facts_of
from rekindle.spark.prelude.history import HistoryPrelude
from rekindle.spark.prelude.prelude import FIRST, NoPrelude, Prelude
from rekindle.spark.prelude.reading import PreludeReading

_LOG = logging.getLogger(__name__)


def prelude_of(
    run: RunContext,
    spark: SparkSession,
    task: Task,
    place: SubtaskPlace,
    frame: DataFrame,
    inputs: Sequence[Input],
    *,
    described: QueryDescription,
    last: int,
) -> Prelude:
    """Return the prelude of a subtask.

    Args:
        frame: its query.
        inputs: what that reads.
        described: the identity of it.
        last: its last batch that is recorded, -1 for none.

    Raises:
        DefinitionError: ``BACKLOG_UNSUPPORTED``, ``BACKLOG_BEGUN``.
    """
    mode, none = run.config.backlog_mode, NoPrelude(run.storage, place.folder)
    found = None if last >= FIRST else run.storage.prelude(place.folder)
    begun = found is not None and found.first is not None
    if mode == "stream" and not begun:
        return none
    facts, kept = facts_of(task, frame, inputs, changed_files=run.changed_files)
    if not facts.has_history and not begun:
        return none
    refused = why_streamed(facts)
    if found is not None and begun and (refused is not None or found.query != described):
        reason = refused or "it is another query, of which Spark may keep other rows"
        raise DefinitionError("BACKLOG_BEGUN", task=task.uid, reason=reason)
    if refused is None:
        assert kept is not None, "it keeps what a watermark lets go"
        reading = PreludeReading(run, spark, task, place, inputs, kept, first_reads=facts.first_reads)
        fence, number = run.storage.fence, run.run.run
        return HistoryPrelude(
            run.storage, number, task.uid, place.folder, reading, described, lambda: fence.check(number)
        )
    if mode == "batch":
        raise DefinitionError("BACKLOG_UNSUPPORTED", task=task.uid, reason=refused)
    _LOG.warning("Task %s streams its history: %s", task.uid, refused)
    return none
