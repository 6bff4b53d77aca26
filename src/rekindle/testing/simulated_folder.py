"""The checkpoint folder of a simulated job: manifests, numbers that are used up, and savepoints."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from rekindle.ids import SubtaskId
from rekindle.testing.simulated_files import SimulatedManifest


@dataclass(slots=True)
class CheckpointFolder:
    """The checkpoints of a job, and what was made of them."""

    manifests: dict[int, SimulatedManifest] = field(default_factory=dict)
    #: number that no checkpoint has or will have → the run that used it up
    void: dict[int, int] = field(default_factory=dict)
    #: checkpoint, task and batch of everything that a manifest has ever named
    named: set[tuple[int, SubtaskId, int]] = field(default_factory=set)
    savepoints: dict[str, int] = field(default_factory=dict)
    #: the checkpoint of another world that this one continues
    opened_from: int | None = None

    @property
    def last_number(self) -> int:
        """The highest number that is used, 0 for none."""
        return max((*self.manifests, *self.void), default=0)

    def fence(self, run: int, ended: Collection[int]) -> None:
        """Use up the next number: a driver that may only be paused could be about to create its manifest."""
        if any(earlier not in ended for earlier in range(1, run)):
            self.void[self.last_number + 1] = run

    def use_up(self, run: int, numbers: Iterable[int]) -> bool:
        """Let numbers have no checkpoint; return False where another run has used one of them."""
        return all(self._use_up(run, number) for number in numbers)

    def _use_up(self, run: int, number: int) -> bool:
        if number in self.manifests:
            return self.manifests[number].run == run
        return self.void.setdefault(number, run) == run

    def is_taken(self, number: int, manifest: SimulatedManifest) -> bool:
        """Return True if a number is used up, or has another manifest."""
        return number in self.void or self.manifests.get(number, manifest) != manifest

    def create(self, number: int, manifest: SimulatedManifest) -> None:
        """Make a checkpoint complete."""
        self.manifests.setdefault(number, manifest)
        self.named |= {(number, task, batch) for task, batch in manifest.transactions}

    def discard_older(self, keep: int, pinned: Collection[int]) -> bool:
        """Delete all manifests except the newest `keep` and the `pinned` ones; return True if the newest went too."""
        newest = max(self.manifests, default=None)
        for number in sorted(self.manifests, reverse=True)[keep:]:
            if number not in pinned:
                del self.manifests[number]
        oldest = min(self.manifests, default=0)
        self.void = {number: by for number, by in self.void.items() if number > oldest}
        return newest is not None and newest not in self.manifests
