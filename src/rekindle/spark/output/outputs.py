"""The outputs of a subtask: its sinks and its channels, all written from one evaluation of a batch.

Running the plan twice would commit its state twice, and a batch run would read everything twice. So rows for several of
them are persisted. What a sink makes of its rows has to survive being written as JSON, because batch records and
manifests hold it.

A batch that fails is prepared again, under other names. What it had prepared is taken back at once where no batch
record can name it, and else once the record of the batch shows that it does not: a prepared transaction holds locks.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from pyspark.sql import DataFrame

from rekindle.errors import SinkError, one_line
from rekindle.runtime.closing import close_sinks
from rekindle.runtime.steps import Steps, step
from rekindle.session.failures import brief
from rekindle.sinks import SinkBatch, TwoPhaseSink
from rekindle.sinks.two_phase import Committable
from rekindle.spark.output.segments import SegmentWriter
from rekindle.spark.output.unwritable import channel_of, named_where_unwritable
from rekindle.storage.documents.batch import BatchRecord, Segment

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskPlace:
    """The place of a subtask's batches: job, task, subtask, lineage, run and folder."""

    #: the identity by which its sinks know the job
    owner: str
    task: str
    subtask: int
    lineage: int
    run: int
    #: the subtask's folder in the storage
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The rows of a batch as they were prepared: durable and invisible."""

    committables: dict[str, list[Committable]]
    segments: tuple[Segment, ...] = ()

    @property
    def rows(self) -> int | None:
        """The number of rows that all sinks were given, else of the segments; None: no sink counted them."""
        if not self.committables:
            return sum(segment.rows for segment in self.segments)
        counted = [items for items in self.committables.values() if all("rows" in item for item in items)]
        return max((sum(item["rows"] for item in items) for items in counted), default=None)


class Outputs:
    """The sinks and channels of one subtask.

    Args:
        sinks: sink uid → the sink.
        writer: writes its channels; None where no task reads it.
    """

    def __init__(
        self, place: SubtaskPlace, sinks: Mapping[str, TwoPhaseSink], writer: SegmentWriter | None, steps: Steps
    ) -> None:
        self._place = place
        self._sinks = sinks
        self._writer = writer
        self._steps = steps
        #: batch → what was prepared for it and may be in its record: the answer to its creation was an error
        self._in_doubt: dict[int, list[Prepared]] = {}

    def prepare(self, df: DataFrame, batch: int) -> Prepared:
        """Evaluate a batch, once, and write its rows wherever they go; if one part fails, take the others back."""
        shared = len(self._sinks) + (self._writer is not None) > 1
        if shared:
            df = df.persist()
        committables: dict[str, list[Committable]] = {}
        try:
            for uid, sink in self._sinks.items():
                committables[uid] = self._prepare_one(uid, sink, df, batch)
            if self._writer is None:
                return Prepared(committables=committables)
            with step(self._steps, "segment.write"), named_where_unwritable(channel_of(self._place.task)):
                written = self._writer.write(df, batch, secrets.token_hex(4))
            return Prepared(committables=committables, segments=written)
        except (Exception, SystemExit):
            self.give_up(Prepared(committables=committables))
            raise
        finally:
            if shared:
                df.unpersist()

    def _prepare_one(self, uid: str, sink: TwoPhaseSink, df: DataFrame, batch: int) -> list[Committable]:
        place = self._place
        of = SinkBatch(
            job=place.owner,
            sink=uid,
            task=place.task,
            subtask=place.subtask,
            lineage=place.lineage,
            batch=batch,
            run=place.run,
            attempt=secrets.token_hex(4),
        )
        with step(self._steps, "sink.prepare"), named_where_unwritable(f"sink {uid!r}"):
            committables = list(sink.prepare(df, of))
        try:
            if msgspec.json.decode(msgspec.json.encode(committables)) != committables:
                raise TypeError("it does not survive being written as JSON")
        except (TypeError, msgspec.MsgspecError) as error:
            raise SinkError("SINK_COMMITTABLE_INVALID", sink=uid, reason=error) from error
        return committables

    def abort(self, prepared: Prepared) -> None:
        """Take back what will never be committed: another driver's record came first."""
        for uid, sink in self._sinks.items():
            with step(self._steps, "sink.abort"):
                sink.abort(prepared.committables[uid])

    def give_up(self, prepared: Prepared) -> None:
        """Take back what was prepared, after a failure and before a record of the batch could name it.

        Raises nothing: the failure is what is reported. What a sink does not take back is removed at the next start.
        """
        for uid, committables in prepared.committables.items():
            self._give_up_one(uid, committables)

    def _give_up_one(self, uid: str, committables: list[Committable]) -> None:
        try:
            with step(self._steps, "sink.abort"):
                self._sinks[uid].abort(committables)
        except (Exception, SystemExit) as error:
            _LOG.warning("What a failed batch has prepared in %s is not removed yet: %s", uid, one_line(error))

    def doubt(self, batch: int, prepared: Prepared) -> None:
        """Keep what a record of the batch may name: creating it has failed, and may have made it all the same."""
        self._in_doubt.setdefault(batch, []).append(prepared)

    def recorded(self, record: BatchRecord) -> None:
        """Take back what was in doubt and is not in the record of the batch."""
        for prepared in self._in_doubt.pop(record.batch, ()):
            if prepared.committables != record.committables:
                self.give_up(prepared)

    def finish(self) -> None:
        """Finish the sinks: no row will come any more.

        Raises:
            SinkError: ``SINK_FINISH_FAILED``.
        """
        for uid, sink in self._sinks.items():
            self._finish_one(uid, sink)

    def _finish_one(self, uid: str, sink: TwoPhaseSink) -> None:
        try:
            with step(self._steps, "sink.finish"):
                sink.finish()
        except Exception as error:
            raise SinkError("SINK_FINISH_FAILED", sink=uid, reason=brief(error)) from error

    def close(self) -> None:
        """Release the sinks: see `close_sinks`."""
        close_sinks(self._sinks)
