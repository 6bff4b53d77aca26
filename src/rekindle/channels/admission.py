"""Size the admissions of an input, so that a batch takes about the time it should.

Batches that are too long delay checkpoints and stops, batches that are too short spend their time on overhead. The time
of a batch is roughly an overhead plus a cost for each byte, both unknown and noisy. Each batch scales the next by the
share of the target in its duration: with a small overhead this approaches the right size from one side, without
swinging. Where the overhead alone comes near the target, shrinking would gain little time and lose most of the
throughput, so the target is never below twice the overhead.

Pure: no clock, no files; sizes in bytes, times in milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from rekindle.storage.documents.sources import FrozenFile

MAX_FILES = 1_000
"""Most files of an admission: Spark lists and opens each of them, however small."""

_GROW_AT_MOST = 4.0
_SHRINK_AT_MOST = 8.0


class AdmissionSizer:
    """Size admissions towards a duration of their batch.

    Args:
        target_ms: how long a batch should take, ``input.target_batch_duration``.
        first_bytes: what to admit first: what was learned before this start, or a guess.
    """

    def __init__(self, target_ms: int, first_bytes: int) -> None:
        self._target_ms = max(1, target_ms)
        self._budget = float(max(1, first_bytes))
        #: estimate of the time that a batch takes whatever its size
        self._overhead_ms = 0.0
        #: the batch (bytes, ms) that the next one of quite another size is compared with
        self._reference: tuple[int, float] | None = None

    def next_bytes(self) -> int:
        """Return the bytes to admit next, at least 1."""
        return max(1, round(self._budget))

    def observe(self, size_bytes: int, duration_ms: float) -> None:
        """Learn that a batch with `size_bytes` of this input took `duration_ms`. Empty batches teach nothing."""
        if size_bytes <= 0:
            return
        duration_ms = max(1.0, duration_ms)
        self._estimate_overhead(size_bytes, duration_ms)
        target_ms = max(self._target_ms, 2 * self._overhead_ms)
        scale = size_bytes * target_ms / duration_ms / self._budget
        scale = min(max(scale, 1 / _SHRINK_AT_MOST), _GROW_AT_MOST)
        # A batch much smaller than allowed, like the last one of an input, is mostly overhead: it counts for less.
        self._budget = max(1.0, self._budget * scale ** min(1.0, size_bytes / self._budget))

    def _estimate_overhead(self, size_bytes: int, duration_ms: float) -> None:
        """Estimate the overhead: the line through two batches, one at least twice the other, meets zero bytes there."""
        reference_bytes, reference_ms = self._reference or (size_bytes, duration_ms)
        if self._reference is None:
            self._reference = (size_bytes, duration_ms)
        elif max(size_bytes, reference_bytes) >= 2 * min(size_bytes, reference_bytes):
            cost = max(0.0, (duration_ms - reference_ms) / (size_bytes - reference_bytes))
            self._overhead_ms = max(0.0, min(duration_ms, reference_ms) - cost * min(size_bytes, reference_bytes))
            self._reference = (size_bytes, duration_ms)
        self._overhead_ms = min(self._overhead_ms, duration_ms)


def choose(ahead: Sequence[FrozenFile], budget_bytes: int, rest_bytes: int = 0) -> int:
    """Return how many of the files to admit: what fits the budget, at least one, at most `MAX_FILES`.

    Args:
        rest_bytes: what is beyond the budget is admitted too, if it is no more than this.
    """
    total = fitting = 0
    for count, file in enumerate(ahead[:MAX_FILES], 1):
        total += file.size
        if total <= budget_bytes or not fitting:
            fitting = count
        elif total > budget_bytes + rest_bytes:
            return fitting
    return min(len(ahead), MAX_FILES)
