"""Addresses: letter for letter as Java and Hadoop write them into logs, and as they may be shown."""

from __future__ import annotations

import re

_ESCAPED = re.compile(r'[\x00- "#%<>?\[\\\]^`{|}\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]')
"""What Java escapes in the path of a URI: some of ASCII, and beyond it only blanks and control characters."""


_CREDENTIALS = re.compile(r"(?<=//)[^/]*@")


def is_bucket(address: str) -> bool:
    """Whether it leads into a bucket."""
    return address.startswith(("s3://", "s3a://"))


def shown(address: str) -> str:
    """What an error may say of an address that a user gave: without user and password."""
    return _CREDENTIALS.sub("...@", address)


def encoded(path: str) -> str:
    """The path of a URI: ``/a b/100%`` becomes ``/a%20b/100%25``; letters outside ASCII stay as they are.

    This is for logs only: Spark's readers, writers and checkpoint locations take a path as it is and would look for a
    real ``%20``.
    """
    return _ESCAPED.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), path)
