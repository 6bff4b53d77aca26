"""Errors of clients of buckets: which error of ours each is, and the part of its text that may be shown.

An address of a request may be signed, an endpoint of tokens may say in its body what it was sent, and a client that
cannot be made may say what it was given: none of this is shown.
"""

from __future__ import annotations

import re

_NO_CREDENTIALS = re.compile(
    "Error performing token request|Error getting token response|Error reading federated token file"
    "|External AWS credential provider"
)
_WITHOUT_ITS_BODY = re.compile(r"(.*?non-2xx status code: \d{3}[A-Za-z ]*)", re.DOTALL)
_CODE_OF_ENTRA = re.compile(r"AADSTS\d+")
_OF_CREDENTIALS = re.compile(r"credential|service account|pem file|access key|SAS query", re.IGNORECASE)
_SAFE = re.compile(
    r"Unable to (?:open|decode) service account file|Error reading pem file|Invalid Access Key"
    r"|Missing component in SAS query|unknown variant `\w{1,40}`|missing field `\w{1,40}`"
    r"|No such file or directory"
)
"""Of what is said about a file of credentials: what holds nothing of the file."""


def code_of(error: Exception, forbidden: str) -> str:
    """Return the code of an error, `forbidden` where a bucket has refused who asks."""
    if _NO_CREDENTIALS.search(_short(str(error))):
        return "STORAGE_CREDENTIALS_MISSING"
    refused = type(error).__name__ in ("PermissionDeniedError", "UnauthenticatedError")
    return forbidden if refused else "STORAGE_UNAVAILABLE"


def refused_environment(error: Exception) -> tuple[str, str]:
    """Return the code of an error by which a client cannot be made from the environment, and what may be said of it."""
    kind, text = type(error).__name__, str(error)
    of_credentials = _OF_CREDENTIALS.search(f"{kind} {text}")
    reason = f"its client cannot be made from the environment ({', '.join((kind, *_SAFE.findall(text)))})"
    return "STORAGE_CREDENTIALS_MISSING" if of_credentials else "STORAGE_UNAVAILABLE", reason


def what_was_said(text: str) -> str:
    """Return what a server has said, in one line, without what may be secret."""
    short = _short(text)
    if _NO_CREDENTIALS.search(short) and (refused := _WITHOUT_ITS_BODY.match(short)):
        short = " ".join((refused[1], *_CODE_OF_ENTRA.findall(short)[:1]))
    if found := re.search(r"<Code>(.*?)</Code>(?:.*?<(?:Message|Details)>(.*?)(?:\n|<))?", short, re.DOTALL):
        return ": ".join(filter(None, found.groups()))
    return " ".join(re.sub(r"(https?://[^\s?]*)\?\S*", r"\1", short).split())[:300]


def _short(text: str) -> str:
    return text.split("\n\nDebug source", maxsplit=1)[0]
