"""The operators whose state can be written, each with the class that knows how it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rekindle.progress.stored_state import JOIN, StatefulOperator
from rekindle.state_rewriting.layouts import Groups, JoinSide, Sessions, StateTable
from rekindle.state_rewriting.variables import ExpiringVariable, Timers, Variable

_STREAMING = "spark.sql.streaming."


@dataclass(frozen=True, slots=True)
class OperatorKind:
    """The layout of an operator's state, and what may be done to it."""

    layout: type[StateTable]
    #: setting of the version of its state → the version that is known here
    version: tuple[str, str] | None = None
    #: True if its value may have other columns
    evolves: bool = False

    def layout_of(self, operator: StatefulOperator, part: str | None) -> type[StateTable]:
        """Return how a part of such an operator is kept."""
        if operator.timers and part == operator.timers_part:
            return Timers
        variable = operator.variables.get(part or "")
        return ExpiringVariable if variable is not None and variable.expires else self.layout


KINDS: Mapping[str, OperatorKind] = {
    "stateStoreSave": OperatorKind(StateTable, (f"{_STREAMING}aggregation.stateFormatVersion", "2"), evolves=True),
    "dedupe": OperatorKind(Groups),
    "dedupeWithinWatermark": OperatorKind(Groups),
    "sessionWindowStateStoreSaveExec": OperatorKind(Sessions),
    "applyInPandasWithState": OperatorKind(Groups, evolves=True),
    JOIN: OperatorKind(JoinSide, (f"{_STREAMING}join.stateFormatVersion", "2")),
    "transformWithStateInPandasExec": OperatorKind(Variable, evolves=True),
    "transformWithStateInPySparkExec": OperatorKind(Variable, evolves=True),
}
"""Spark's name of an operator → its kind; each is tested."""
