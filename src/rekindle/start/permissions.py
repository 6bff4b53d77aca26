"""The permissions that a user gives to a start."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """The permissions of a start; each is False unless the user sets it."""

    non_restored_state: bool = False
    drained: bool = False
    sink_ahead: bool = False
    shared_target: bool = False
    changed_files: bool = False
    rewind_sinks: bool = False
    #: True if the job is to own the savepoint that it starts from
    claim: bool = False
    other_name: bool = False

    def granted(self) -> set[str]:
        """Return the permissions for changes that are given, by the names of their options."""
        permissions = {"allow_non_restored_state": self.non_restored_state, "allow_other_name": self.other_name}
        return {name for name, given in permissions.items() if given}
