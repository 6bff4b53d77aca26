"""What a process does that should have come to an end: for the message of a test that hangs."""

from __future__ import annotations

import sys
import threading
import traceback


def threads() -> str:
    """Where each thread of this process is."""
    frames = sys._current_frames()
    return "\n".join(
        f"{one.name}: {''.join(traceback.format_stack(frames[one.ident], limit=5))}"
        for one in threading.enumerate()
        if one.ident in frames
    )
