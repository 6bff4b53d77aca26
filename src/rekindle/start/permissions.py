"""What a user allows a start to do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """What the user allows a start to do."""

    non_restored_state: bool = False
    drained: bool = False
    sink_ahead: bool = False
    shared_target: bool = False
    changed_files: bool = False
    rewind_sinks: bool = False
    #: the job is to own the savepoint that it starts from
    claim: bool = False
    other_name: bool = False

    def granted(self) -> set[str]:
        """What is allowed, by the names that a user writes."""
        permissions = {"allow_non_restored_state": self.non_restored_state, "allow_other_name": self.other_name}
        return {name for name, given in permissions.items() if given}
