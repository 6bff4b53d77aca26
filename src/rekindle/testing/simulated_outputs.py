"""The sinks of a simulated job: one that knows batches, and a table that knows numbers of checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rekindle.ids import SubtaskId
from rekindle.testing.simulated_files import Row, SimulatedRecord


@dataclass(slots=True)
class SimulatedOutputs:
    """Rows that anyone can see, each with how often it is there."""

    #: batches whose rows the sink shows
    visible: set[tuple[SubtaskId, int]] = field(default_factory=set)
    sink: Counter[Row] = field(default_factory=Counter)
    #: a sink that goes by numbers: it knows the newest checkpoint that it has committed, and no batches
    table: Counter[Row] = field(default_factory=Counter)
    table_upto: int = 0

    def show(self, task: SubtaskId, batch: int, record: SimulatedRecord | None) -> None:
        """Show a batch in the sink, as far as there is a record of it; again is harmless."""
        if (task, batch) not in self.visible:
            self.visible.add((task, batch))
            self.sink.update(record.rows if record is not None else ())

    def show_by_number(self, number: int, records: Iterable[SimulatedRecord]) -> None:
        """Show batches in the table, all at once, unless it has the checkpoint or a later one already."""
        if number > self.table_upto:
            self.table_upto = number
            for record in records:
                self.table.update(record.rows)

    def not_shown(self, last: Mapping[SubtaskId, int]) -> tuple[tuple[SubtaskId, int], ...]:
        """Return the batches that the sink does not show; `last`: the last batch of each task."""
        batches = ((task, batch) for task, until in last.items() for batch in range(until + 1))
        return tuple(one for one in batches if one not in self.visible)
