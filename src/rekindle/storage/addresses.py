"""Addresses: letter for letter as Java and Hadoop write them into logs, and as they may be shown."""

from __future__ import annotations

import re

_ESCAPED = re.compile(r'[\x00- "#%<>?\[\\\]^`{|}\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]')
"""Characters that Java escapes in the path of a URI: some of ASCII, and of all others blanks and control characters."""


_CREDENTIALS = re.compile(r"(?<=//)[^/]*@")
_CONTAINER = re.compile(r"abfss?://[a-z0-9$-]+@[a-z0-9.-]+(/.*)?", re.DOTALL)
_BY_HADOOP = re.compile(r"(s3a?|gs|abfss?|az|hdfs)://")
_AS_HADOOP_SAYS = {"s3": "s3a", "az": "abfss"}


def is_s3(address: str) -> bool:
    """Return whether the address leads into a bucket of S3."""
    return address.startswith(("s3://", "s3a://"))


def is_hdfs(address: str) -> bool:
    """Return whether the address leads into HDFS."""
    return address.startswith("hdfs://")


def hadoop_scheme(address: str) -> str | None:
    """Return Hadoop's name for the scheme of a store (``s3a``, ``abfss``, ...); None for the address of a folder."""
    found = _BY_HADOOP.match(address)
    return _AS_HADOOP_SAYS.get(found[1], found[1]) if found else None


def shown(address: str) -> str:
    """Return an address that a user gave as an error may show it: without user and password."""
    return address if _CONTAINER.fullmatch(address) else _CREDENTIALS.sub("...@", address)


def encoded(path: str) -> str:
    """Encode the path of a URI: ``/a b/100%`` becomes ``/a%20b/100%25``; letters outside ASCII stay unchanged.

    This is for logs only: Spark's readers, writers and checkpoint locations take a path as it is and would look for a
    real ``%20``.
    """
    return _ESCAPED.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), path)
