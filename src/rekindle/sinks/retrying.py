"""Try again where a server may be back in a moment; the job itself tries again where it takes longer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import stamina

# It logs each further try; that is for programs that listen, and not for the terminal of a running job.
logging.getLogger("stamina").addHandler(logging.NullHandler())


def trying(may_pass: Callable[[Exception], bool], attempts: int, patience_s: float) -> Iterator[stamina.Attempt]:
    """Return the attempts for ``for attempt in trying(...): with attempt: ...``; the last error is raised unchanged."""
    return iter(stamina.retry_context(on=may_pass, attempts=attempts, timeout=patience_s))
