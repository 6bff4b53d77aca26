"""The three standard streams, as a process may be given them: closed, or of an encoding that lacks letters.

A job runs for weeks where no one looks at it. What it prints must not be able to end it.
"""

from __future__ import annotations

import io
import os
import sys


def make_usable() -> None:
    """Let every stream take what is written: a closed one drops it, others spell the letters that they lack."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            _fill(number)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _fill(number: int) -> None:
    """Open the null device as the descriptor, which the next file or pipe of this process would be given."""
    opened = os.open(os.devnull, os.O_RDWR)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    os.set_inheritable(number, True)
