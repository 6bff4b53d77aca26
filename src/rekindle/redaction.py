"""The redaction of secrets in logs and errors: known values, and values after a word like "password"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

HIDDEN = "***"

_WORDS = r"password|passwd|pwd|secret|token|credential|access[._-]?key|api[._-]?key|private[._-]?key|sas[._-]?key"
_NAME = re.compile(rf"(?i){_WORDS}")
_A_PLACE = re.compile(r"(?i)(file|path|dir|url|uri|provider|class)$")
"""Names with these ends hold the place of a secret, or the class that provides it."""

_FOLDERS = ("PWD", "OLDPWD")
"""Variables of every shell: the folder that it is in, and the one before."""

_SHORTEST = 6
"""The least length of a secret, in letters: a shorter value could be part of any text."""

_VALUE = r"""'[^']{0,500}'|"[^"]{0,500}"|[^\s"',;&)}\]]+"""
_ASSIGNED = re.compile(rf"""(?i)((?:{_WORDS})[\w.-]{{0,40}}["']?\s{{0,3}}[=:]\s{{0,3}})(?:{_VALUE})""")
_IN_URL = re.compile(r"(://)[^/\s:@]{0,200}:[^/\s@]{1,200}@")
_HEADER = re.compile(r"(?i)\b(bearer|basic)\s{1,3}[\w.~+/=-]{6,}")
# Each pattern is tried at each letter of a text, so each has a bound on its length.


def secret_values(settings: Mapping[str, str]) -> set[str]:
    """Return the values of the settings, or variables, whose names show that they are secret."""
    return {
        value
        for name, value in settings.items()
        if len(value) >= _SHORTEST and _NAME.search(name) and not _A_PLACE.search(name) and name not in _FOLDERS
    }


class Redaction:
    """A filter that hides secrets in texts.

    Args:
        values: known secrets; those with fewer than 6 letters are ignored.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        known = sorted({value for value in values if len(value) >= _SHORTEST}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def __call__(self, text: str) -> str:
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        text = _IN_URL.sub(rf"\1{HIDDEN}@", text)
        text = _ASSIGNED.sub(rf"\1{HIDDEN}", text)
        return _HEADER.sub(rf"\1 {HIDDEN}", text)
