"""The result of a shadow: plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Verdict = Literal["equal", "differs", "not compared"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowExample:
    """Rows that are not in both, as JSON."""

    #: of the original; None: it does not have this row
    original: str | None
    #: of the shadow; None: it does not have this row
    shadow: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkComparison:
    """The rows of one sink, counted as often as they are there."""

    sink: str
    #: the reason for which its rows were not compared; None: they were
    unseen: str | None = None
    #: rows that both have
    equal: int = 0
    #: keys whose rows are not the same in both; without a key, none
    different: int = 0
    #: rows that the original has, and the shadow should have
    missing: int = 0
    #: rows that the shadow has, and the original should have
    extra: int = 0
    #: rows that only one of them has, and that the other may still write: of the original, of the shadow
    pending: tuple[int, int] = (0, 0)
    #: columns that only the original has, that only the shadow has, and those with another type
    columns_gone: tuple[str, ...] = ()
    columns_new: tuple[str, ...] = ()
    columns_changed: tuple[str, ...] = ()
    examples: tuple[RowExample, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The verdict on this sink alone."""
        columns = (*self.columns_gone, *self.columns_new, *self.columns_changed)
        if self.different or self.missing or self.extra or (columns and self.unseen is None):
            return "differs"
        return "equal" if self.equal else "not compared"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowReport:
    """The comparison of a shadow's rows with those of the job that it began beside; see `rekindle.shadow`."""

    job: str
    #: the savepoint or checkpoint at which both began
    origin: str
    #: the newest checkpoint of each, and the newest one all of whose rows the other must have
    original_checkpoint: int | None
    original_comparable: int | None
    shadow_checkpoint: int | None
    shadow_comparable: int | None
    sinks: tuple[SinkComparison, ...]
    #: the state in which the shadow has ended: STOPPED | DRAINED | FINISHED
    state: str
    #: folder of the shadow's storage and rows; None: they were deleted
    folder: str | None

    @property
    def verdict(self) -> Verdict:
        """``"equal"``: some rows were compared and none differs; ``"not compared"``: there was none to compare."""
        found = {sink.verdict for sink in self.sinks}
        return "differs" if "differs" in found else "equal" if "equal" in found else "not compared"

    def to_json(self) -> dict[str, Any]:
        """Return what ``rekindle shadow --json`` prints."""
        sinks = [{**asdict(sink), "verdict": sink.verdict} for sink in self.sinks]
        return {**asdict(self), "verdict": self.verdict, "sinks": sinks}
