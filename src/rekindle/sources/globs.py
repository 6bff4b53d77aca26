"""Patterns for paths as Hadoop has them: ``*``, ``?``, ``[a-c]``, ``[^a]``, ``{a,b}``; ``\\`` makes a letter plain.

They differ from Python's: braces are alternatives, which may hold slashes, and ``*`` matches a leading dot too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

_SPECIAL = frozenset("{}[]*?\\")


def is_glob(path: str) -> bool:
    """Return whether Spark takes `path` for a pattern."""
    return not _SPECIAL.isdisjoint(path)


def compiled(pattern: str) -> re.Pattern[str]:
    """Return a regular expression for one name; raise ValueError where `pattern` is not well formed."""
    return re.compile("|".join(_expression(plain) for plain in expanded(pattern)), re.DOTALL)


def expanded(pattern: str) -> list[str]:
    """Return the patterns without braces that `pattern` stands for: ``a/{b,c/d}`` → ``a/b``, ``a/c/d``."""
    depth, parts = 0, [0]
    for at, letter in _unescaped(pattern):
        if letter == "{":
            depth += 1
            if depth == 1:
                parts = [at]
        elif letter == "," and depth == 1:
            parts.append(at)
        elif letter == "}" and depth:
            depth -= 1
            if depth == 0:
                parts.append(at)
                choices = [pattern[start + 1 : end] for start, end in pairwise(parts)]
                head, tail = pattern[: parts[0]], pattern[at + 1 :]
                return [plain for choice in choices for plain in expanded(f"{head}{choice}{tail}")]
    if depth:
        raise ValueError("a '{' is not closed")
    return [pattern]


def _unescaped(pattern: str) -> list[tuple[int, str]]:
    """Return the letters of `pattern` with their places, without those after a backslash or in square brackets."""
    found, in_set, skip = [], False, False
    for at, letter in enumerate(pattern):
        if skip or letter == "\\":
            skip = not skip
        elif in_set or letter == "[":
            in_set = letter != "]"
        else:
            found.append((at, letter))
    return found


def _expression(pattern: str) -> str:
    result, letters = "", iter(pattern)
    for letter in letters:
        if letter == "\\":
            escaped = next(letters, None)
            if escaped is None:
                raise ValueError("nothing follows the last '\\'")
            result += re.escape(escaped)
        elif letter == "[":
            result += _set(letters)
        else:
            result += {"*": ".*", "?": "."}.get(letter) or re.escape(letter)
    return result


def _set(letters: Iterator[str]) -> str:
    members = ""
    for letter in letters:
        if letter == "]" and members.lstrip("^"):
            try:
                re.compile(f"[{members}]")
            except re.error as error:
                raise ValueError(f"[{members}]: {error}") from None
            return f"[{members}]"
        if letter in "!^" and not members:
            members = "^"
        elif letter == "\\":
            members += re.escape(next(letters, ""))
        else:
            members += letter if letter == "-" else re.escape(letter)
    raise ValueError("a '[' is not closed")
