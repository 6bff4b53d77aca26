"""The command line: verbs over a job's storage, and `run`.

A verb reads the storage, or leaves a request there and waits for the answer: nothing here talks to a driver in any
other way. `run`, `check`, `shadow`, `state`, `flush` and `adopt` load Spark; the other verbs load nothing heavy.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the ``rekindle`` command; end the process with an exit code (docs/cli.md)."""
    from rekindle.cli.streams import make_usable
    from rekindle.cli.verbs import rekindle

    make_usable()
    rekindle()
