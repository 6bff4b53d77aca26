"""Recognise what the connectors of Delta and Iceberg raise where a table cannot be read on as a stream.

A task that fails is tried again; none of these would be gone then. As in `failures`, classes and conditions decide, and
where an exception was raised; never the words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rekindle.errors import InputError
from rekindle.redaction import hide
from rekindle.session.links import Link

_COLUMNS = re.compile(
    r"DELTA_SCHEMA_CHANGED\w*|DELTA_STREAMING_(INCOMPATIBLE_SCHEMA_CHANGE|METADATA_EVOLUTION|SCHEMA_MISMATCH)\w*"
    r"|DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION"
)
_HISTORY = re.compile(
    r"DELTA_SOURCE_(TABLE_)?IGNORE_(CHANGES|DELETE)|DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"
    r"|DELTA_MISSING_(FILES_UNEXPECTED_VERSION|CHANGE_DATA)|DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE"
)
_NAMED = re.compile(r"\[[A-Z][A-Z0-9_.]+\]\s*")
_ADVICE = re.compile(r"(?<=\.)\s+[A-Z].*")
"""The words of Delta after its first sentence: they advise what is done otherwise in a job."""


def of_table(links: Sequence[Link], source: str) -> InputError | None:
    """Return the error of a table that a query cannot read on; None where the failure is another.

    Args:
        links: of the exception, the outermost first.
        source: its uid; with others, where it is not known which of them it is.
    """
    for link in links:
        if _COLUMNS.fullmatch(link.condition):
            return InputError("TABLE_COLUMNS_CHANGED", source=source, reason=_said(link))
        if _HISTORY.fullmatch(link.condition):
            return InputError("TABLE_NOT_CONTINUED", source=source, reason=_said(link))
    # Iceberg has no conditions. Servers and files that fail are of other classes, and a sink fails inside a batch.
    if [link.short_name for link in links] == ["StreamingQueryException", "IllegalStateException"]:
        last = links[-1]
        if last.raised_by.startswith("org.apache.iceberg."):
            return InputError("TABLE_NOT_CONTINUED", source=source, reason=_said(last))
    return None


def _said(link: Link) -> str:
    first = _NAMED.sub("", link.message.lstrip(), count=1).partition("\n")[0]
    return hide(_ADVICE.sub("", first).strip().removesuffix(":"))
