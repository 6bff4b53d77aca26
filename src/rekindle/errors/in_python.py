"""The arguments of Python that stand for the options of the command line in a next step."""

from __future__ import annotations

import re

ARGUMENTS = {
    "--from": "restore=...",
    "--claim-mode claim": 'claim_mode="claim"',
    "--rewind-sinks": "rewind_sinks=True",
    "--mode": "mode=...",
    "--storage": "storage=...",
    "--allow-non-restored-state": "allow_non_restored_state=True",
    "--allow-drained": "allow_drained=True",
    "--allow-sink-ahead": "allow_sink_ahead=True",
    "--allow-other-name": "allow_other_name=True",
    "--allow-shared-target": "allow_shared_target=True",
    "--allow-changed-files": "allow_changed_files=True",
}
"""Option of ``rekindle run`` → the argument of `Job.run` and `Job.start`."""


def in_python(next_step: str) -> list[str]:
    """Return the arguments that stand for the options in a next step, except those that it names itself."""
    found = [said for option, said in ARGUMENTS.items() if re.search(rf"{re.escape(option)}(?![\w-])", next_step)]
    return [said for said in found if said not in next_step]
