"""Environment variables that are changed for a while, for a process that is started meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


def of_file_names(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what lets Java read the names of files as Python does.

    Python takes names for UTF-8 where ``LC_ALL`` is ``C``, while Java knows ASCII then.
    """
    return {"LC_ALL": "C.UTF-8"} if environ.get("LC_ALL") in ("C", "POSIX") else {}


@contextmanager
def environment(changed: Mapping[str, str | None]) -> Iterator[None]:
    """Set variables, or unset those whose value is None, until the end."""
    before = {name: os.environ.get(name) for name in changed}
    _set(changed)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
