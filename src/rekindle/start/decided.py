"""The decision of a start, with the facts that led to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rekindle.graph.changes import Change
from rekindle.runtime.rewinding import Rewind
from rekindle.start.lost import Loss
from rekindle.start.resolve import Decision
from rekindle.storage.documents.runs import JobDescription
from rekindle.storage.origin import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The decision of a start, and the facts that led to it."""

    decision: Decision
    #: checkpoint or savepoint that a restore starts from; None: it is no restore
    origin: Origin | None = None
    #: number of the newest run; of a job that was deleted the highest number that it has left; 0: there is none
    newest_number: int
    #: number of the newest completed checkpoint; None: there is none
    newest_checkpoint: int | None
    #: the job in the newest run that began; None: there is none, or an older version wrote it
    before: JobDescription | None = None
    #: changes of the job
    changes: tuple[Change, ...] = ()
    #: task → its last operators, if the job resumes in place
    chains: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: loss because of which it does not resume in place; None: it does, or another reason decides
    loss: Loss | None = None
    #: later commits of sinks that are taken back, or one that is given up; None: sinks are left as they are
    rewind: Rewind | None = None
    #: False: no start has read anything, or what was read counts for nothing, so that files are listed again
    keeps_lists: bool = True

    @property
    def goes_back(self) -> bool:
        """Return True if sinks go back to an earlier checkpoint."""
        return self.rewind is not None and self.rewind.takes_back
