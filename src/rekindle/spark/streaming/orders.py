"""The orders in which the sources of a job are read: that of time only where the plans of all tasks that it reaches
allow it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame

from rekindle.channels.splits import Splits
from rekindle.errors import DefinitionError
from rekindle.graph.job_graph import JobGraph, Task
from rekindle.graph.time_order import in_any_order, readings_before
from rekindle.runtime.definition import SourceSpec
from rekindle.sources import Files
from rekindle.spark.inputs.input import Input
from rekindle.spark.plans.time_order import why_any_order

_LOG = logging.getLogger(__name__)


class Orders:
    """The orders in which the sources of a job are read: first each plan is looked at, then they are settled.

    Args:
        sources: by uid, as the user defined them.
        splits: task → bounded source → its files.
    """

    def __init__(
        self, graph: JobGraph, sources: Mapping[str, SourceSpec], splits: Mapping[str, Mapping[str, Splits]]
    ) -> None:
        self._graph = graph
        self._sources = sources
        self._splits = splits
        #: task → why it needs any order; None: it does not
        self._reasons: dict[str, str | None] = {}
        #: task → the inputs of its subtasks
        self._inputs: dict[str, list[Input]] = {}

    def look(self, task: Task, frame: DataFrame, inputs: Iterable[Input]) -> None:
        """Look whether the plan of a task allows the order of time, if one of its histories is in it.

        Args:
            inputs: those of a subtask that loses rows which come after a later watermark.
        """
        self._inputs.setdefault(task.uid, []).extend(inputs)
        if task.uid not in self._reasons and any(
            self._is_asked(source) or self._is_by_time(of, source) for of, source in readings_before(self._graph, task)
        ):
            is_read = bool(self._graph.consumers_of(task))
            self._reasons[task.uid] = why_any_order(task, frame, is_read=is_read)

    def settle(self) -> None:
        """Let sources be read in any order where a plan needs it.

        Raises:
            DefinitionError: ``STATISTICS_UNUSABLE``: the user has asked for their order.
        """
        reasons = {task: reason for task, reason in self._reasons.items() if reason is not None}
        for (task, source), reason in in_any_order(self._graph, reasons).items():
            if self._is_asked(source):
                raise DefinitionError("STATISTICS_UNUSABLE", source=source, reason=reason)
            if self._is_by_time(task, source):
                self._splits[task][source].ignore_times()
                _LOG.info("Source %s is read in any order by task %s: %s", source, task, reason)
                for item in self._inputs.get(task, ()):
                    item.order_ignored = item.order_ignored or item.uid == source

    def _is_by_time(self, task: str, source: str) -> bool:
        splits = self._splits.get(task, {}).get(source)
        return splits is not None and splits.by_time

    def _is_asked(self, source: str) -> bool:
        spec = self._sources[source].spec
        return isinstance(spec, Files) and spec.ordered not in (None, False)
