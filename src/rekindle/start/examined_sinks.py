"""The targets of a job's sinks before a start, as far as they can be looked at without a write."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rekindle.errors import RekindleError
from rekindle.sinks import TwoPhaseSink
from rekindle.start.opened_sinks import claim_of, refuse_older
from rekindle.start.permissions import Permissions
from rekindle.storage.checkpoint_documents import CheckpointDocuments
from rekindle.storage.documents.runs import Identity

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedSink:
    """The findings about the target of one sink."""

    #: error with which a start would be refused, or the first batch end the job; None: none was found
    error: RekindleError | None = None
    #: reason why it was not examined; None: it was
    unseen: str | None = None


class SinkExamination:
    """Looks at the targets of a job's sinks, as a start with some permissions would meet them."""

    def __init__(
        self, sinks: Mapping[str, TwoPhaseSink], storage: CheckpointDocuments, permissions: Permissions, now_ms: int
    ) -> None:
        self._sinks = sinks
        self._storage = storage
        self._permissions = permissions
        self._now_ms = now_ms
        # A job that is new gets another id, which no target knows either.
        self._owner = (storage.identity() or Identity(job=storage.job, created_ms=now_ms, id="00000000")).owner

    def examine(self, uid: str, columns: StructType | None) -> ExaminedSink:
        """Look at the target of one sink.

        Args:
            columns: of the rows that it gets; None: they are not known.
        """
        sink = copy(self._sinks[uid])  # the job may be at work with it
        if sink.cannot_examine is not None:
            return ExaminedSink(unseen=sink.cannot_examine)
        try:
            shared = self._permissions.shared_target
            newest = sink.examine(claim_of(uid, self._storage, self._owner, self._now_ms, shared=shared), columns)
            if not self._permissions.sink_ahead:
                refuse_older(uid, newest or 0, self._storage)
        except RekindleError as error:
            return ExaminedSink(error=error)
        return ExaminedSink()
