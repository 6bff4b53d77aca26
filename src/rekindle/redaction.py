"""The redaction of secrets in logs and errors: known values, and values after a word like "password"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

HIDDEN = "***"

_WORDS = (
    "password|passwd|passphrase|pwd|secret|token|credential"
    "|(?:access|account|api|private|sas|storage)[._-]?key|(?<=[_.-])pass(?![a-z])"
)
_NAME = re.compile(rf"(?i){_WORDS}|connection[._-]?string|fs\.azure\.sas\.")
_A_PLACE = re.compile(r"(?i)(file|path|dir|url|uri|provider|class)$")
"""Names with these ends hold the place of a secret, or the class that provides it."""

_FOLDERS = ("PWD", "OLDPWD")
"""Variables of every shell: the folder that it is in, and the one before."""

_SHORTEST = 6
"""The least length of a secret, in letters: a shorter value could be part of any text."""

_QUOTED = r"""'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"|(?P<quote>\\{1,3}["']).*?(?P=quote)"""
"""A text in quotes, in which a backslash may stand before a letter; or in quotes with backslashes, as JSON in JSON."""

_ASSIGNED = re.compile(
    rf"""(?is)((?:(?:{_WORDS})[\w.-]{{0,80}}(?<!file)(?<!path)(?:\\{{0,3}}["'])?\s{{0,3}}(?:[=:]|%3[ad])"""
    r"""|(?<![a-z])pass=)\s{0,3})"""
    rf"""(?:{_QUOTED}|\\{{0,3}}["']?[^\s"',;&)}}\]]+)"""
)
_IN_URL = re.compile(r"""(://)[^/\s:@\[]{0,200}:(?!\d{1,5}(?:[^\w@.%+~!$&*=-]|$))[^\s"'<>]{1,200}@""")
"""A user and a password, which may have letters that an address must not have; no port."""

_OF_ORACLE = re.compile(r"(?i)(jdbc:oracle:\w{1,10}:)[^\s@/]{1,200}/\S{1,200}@")
_SIGNED = re.compile(
    r"""(?i)((?:[?&;](?:sig|delegation|x-(?:amz|goog)-signature)=)|(?<![a-z])sig=(?=[^&\s]{20}))[^&\s"'<>;]+"""
)
"""The signature or the token of an address that lets anyone in who has it."""

_HEADER = re.compile(r"(?i)\b(bearer|basic)\s{1,3}(?!auth|credential|realm|scheme|token)[\w.~+/=-]{6,}")
_AUTHORIZATION = re.compile(
    r"""(?i)(\bauthorization["']?\s{0,3}[:=]\s{0,3}["']?(?:apikey|digest|negotiate|ntlm|sharedkey|token)\s{1,3})[^\s"',]+"""
)
_PRIVATE_KEY = re.compile(r"(?s)(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----).*?(?=-----END|\Z)")
_PATTERNS = (
    (_PRIVATE_KEY, rf"\1{HIDDEN}"),
    (_IN_URL, rf"\1{HIDDEN}@"),
    (_OF_ORACLE, rf"\1{HIDDEN}@"),
    (_SIGNED, rf"\1{HIDDEN}"),
    (_ASSIGNED, rf"\1{HIDDEN}"),
    (_HEADER, rf"\1 {HIDDEN}"),
    (_AUTHORIZATION, rf"\1{HIDDEN}"),
)
# Each is tried at each letter of a text. So each has a bound on its length, or ends where it could begin again.


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
        self._values: set[str] = set()
        self._known: re.Pattern[str] | None = None
        self.learn(values)

    def learn(self, values: Iterable[str]) -> None:
        """Hide these from now on, too. Threads may call it at the same time."""
        self._values.update(value for value in values if len(value) >= _SHORTEST)
        known: list[str] = []
        while len(known) < len(self._values):  # another thread may have taught more, and put its pattern here before
            known = sorted(self._values, key=len, reverse=True)
            self._known = re.compile("|".join(map(re.escape, known)))

    def __call__(self, text: str) -> str:
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        for pattern, shown in _PATTERNS:
            text = pattern.sub(shown, text)
        return text


hide = Redaction()
"""The filter of this process, for errors: it learns the secrets of the jobs that are started in it."""
