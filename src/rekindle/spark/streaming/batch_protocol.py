"""The work on each batch (docs/architecture.md#a-batch): the function given to ``foreachBatch``.

1. A batch after the hold raises. Returning would let Spark commit a batch whose outputs were not written. So does one
   of a driver that a newer run has fenced: its plan may have been replaced, and its rows must not be recorded under
   another. So does one that is planned in the storage otherwise than the query runs it.
2. A batch that is recorded already is a replay: its outputs are durable. It is evaluated for its state only,
   and only from the files that it had.
3. Otherwise every sink prepares it, from one evaluation, unless ``finish()`` has been called. What Spark would silently
   leave out or mistake is looked for: files that have vanished or changed, rows of bounded inputs that came late, and
   rows that no sink has read, without which the state is not whole. A failure up to here takes back what was prepared;
4. the batch record is created: from here on its outputs never change. A driver that loses that race adopts what is
   there. Where creating it fails, it may be there all the same: what was prepared stays until the record is known;
5. then the inputs may continue. Spark writes its own commit when this returns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession

from rekindle.channels.backlog import Backlog
from rekindle.channels.feed import FileFeed
from rekindle.channels.split_feed import SplitFeed
from rekindle.errors import InputError, StorageError
from rekindle.progress.directory import Offsets, read_offsets
from rekindle.protocol.life import Call, OperatorLife
from rekindle.runtime.definition import RunContext
from rekindle.runtime.occupation import BUSY, HELD
from rekindle.sources.listing import check_present, check_unchanged
from rekindle.spark.inputs.event_times import EventTimeStats, refuse_late_rows, seen
from rekindle.spark.inputs.input import Input
from rekindle.spark.plans.static_tables import list_again
from rekindle.spark.query.batches import Batches, BatchHeldError
from rekindle.spark.query.flush import END_OF_TIME_MS
from rekindle.spark.streaming.parts import SubtaskParts
from rekindle.spark.streaming.running_plan import (
    RunningPlan,
    gone_among_files,
    pattern_among_files,
    plan_of,
    refuse_partly_read,
    running_plan,
)
from rekindle.storage import layout
from rekindle.storage.documents.batch import BatchRecord, InputPosition
from rekindle.storage.documents.sources import FrozenFile


class BatchProtocol(Batches):
    """The ``foreachBatch`` function of one subtask.

    Args:
        recorded: called after a batch record exists (also on a replay), with it, the batch's duration in ms, and what
            was seen of event times, by input (nothing on a replay).
        running: what the query runs whose batch is on this thread.
    """

    def __init__(
        self,
        run: RunContext,
        spark: SparkSession,
        parts: SubtaskParts,
        recorded: Callable[[BatchRecord, int, Mapping[str, EventTimeStats]], None],
        running: Callable[[SparkSession], RunningPlan] = running_plan,
    ) -> None:
        super().__init__(last=parts.last)
        self._running, self._catching_up = running, parts.catching_up
        self._spark = spark
        self._storage = run.storage
        self._steps = run.steps
        self._place = parts.place
        self._inputs = parts.inputs
        self._outputs = parts.outputs
        self._backlog = parts.backlog
        self._described = parts.described
        self._prelude, self._lists_files = parts.prelude, parts.lists_files
        self._frame = parts.frame
        #: set once the query has failed: files of tables beside its streams may be others now
        self.lists_again = False
        self._recorded = recorded
        self.begin_attempt()

    def begin(self, hold_after: int | None) -> None:
        """See `Batches`."""
        if self.lists_again and self._frame is not None:
            list_again(self._frame)
        self.lists_again = False
        self._catching_up.begin()
        super().begin(hold_after)

    def begin_attempt(self) -> None:
        """Begin to try the subtask (again) from its last batch record: what was finished before is not any more."""
        #: True while a batch waits for room in its channels; True once none is to wait any longer
        self._waiting = self._impatient = False
        #: batches from this one on are flushes; none that has another watermark is carried out
        self.flush_from: int | None = None
        #: of this attempt's query and its sinks: after ``finish()`` nothing is written
        self.life = OperatorLife(f"{self._place.task}/{self._place.subtask}", (item.uid for item in self._inputs))

    def give_up_waiting(self) -> bool:
        """Hold the batches of a task with channels from now on; return True if one waits for room there.

        One that reads a custom source is not held, and needs no room: what was read of such a source comes before an
        end, and that is in two batches at most.
        """
        self._impatient = True
        return self._waiting

    def _wait_for_room(self, backlog: Backlog, batch: int) -> None:
        def given_up() -> bool:
            return self._impatient or self.is_held(batch)

        self._waiting = True
        self.occupation.enter(HELD)
        try:
            backlog.wait(given_up)
        finally:
            self.occupation.enter(BUSY)
            self._waiting = False
        reads = any(isinstance(item.feed, SplitFeed) and item.feed.waiting for item in self._inputs)
        if self.is_held(batch) or (self._impatient and not reads):
            raise BatchHeldError(f"batch {batch} is held")

    def _carry_out(self, df: DataFrame, batch: int) -> None:
        started = time.monotonic()
        folder = self._place.folder
        offsets = read_offsets(self._storage.store, layout.spark_progress_dir(folder), batch)
        if offsets.names:
            # A source's number says which input it is of.
            reason = "its sources have names: spark.sql.streaming.offsetLog.formatVersion is 2"
            raise StorageError("PROGRESS_FORMAT_UNKNOWN", path=f"{folder}/spark/offsets/{batch}", reason=reason)
        # Only the run in force changes plans. If none has taken over by now, no successor has changed the plan read
        # before; a predecessor that was paused may have written over it.
        self._storage.fence.check(self._place.run)
        if self._running(self._spark) != plan_of(offsets):
            raise StorageError("BATCH_PLAN_OVERWRITTEN", task=self._place.task, batch=batch)
        if self._lists_files and (path := gone_among_files(self._spark)) is not None:
            streams = ", ".join(item.uid for item in self._inputs if item.feed is None)
            raise InputError("FILE_VANISHED", source=streams, path=path)
        self._catching_up.batch()
        record, met = self._storage.record(folder, batch), dict[str, EventTimeStats]()
        if record is not None:
            self._check_replay(record, offsets)
            df.write.format("noop").mode("overwrite").save()
            for item in self._inputs:
                if isinstance(item.feed, FileFeed):
                    _check_files(item, item.feed.recorded_last())
        else:
            if self._backlog is not None and self.flush_from is None:
                self._wait_for_room(self._backlog, batch)
                started = time.monotonic()
            self._refuse_gap(batch)
            is_flush = offsets.batch_watermark_ms >= END_OF_TIME_MS
            if self._follows_all_data(batch) and not is_flush:
                # Were it committed now, Spark would note the end of time as the next batch's, before that is planned.
                raise BatchHeldError(f"batch {batch} is held")
            if self._lists_files and (path := pattern_among_files(self._spark)) is not None:
                raise InputError("FILES_READ_TWICE", task=self._place.task, path=path, batch=batch)
            record = self._write(df, batch, offsets)
            met |= seen(self._spark, self._inputs)
        self._take_in(record, _ms_since(started), met)
        self._steps("spark.commit/before")

    def _take_in(self, record: BatchRecord, duration_ms: int, met: Mapping[str, EventTimeStats]) -> None:
        if self._backlog is not None:
            self._backlog.wrote(record.batch, sum(segment.size for segment in record.segments))
        self.last = record.batch
        self._outputs.recorded(record)
        self._prelude.recorded(record.batch)
        self._recorded(record, duration_ms, met)
        self._catching_up.recorded(record)

    def catch_up(self) -> None:
        """Take in the batches that a driver which was thought dead has recorded since this run looked.

        Its query may have committed them too; Spark then continues with the next one, whose positions follow theirs.
        """
        for number in sorted(self._storage.records(self._place.folder)):
            record = self._storage.record(self._place.folder, number) if number > self.last else None
            if record is not None and not record.flush:
                self._take_in(record, 0, {})

    def _refuse_gap(self, batch: int) -> None:
        """Refuse a batch if the last one is not known, from whose record its reading is counted; see `catch_up`."""
        # In a new lineage the first batch follows one that is not recorded there.
        if batch > self.last + 1 and self._storage.record(self._place.folder, batch - 1) is not None:
            raise StorageError("BATCH_RECORDED_MEANWHILE", task=self._place.task, batch=batch - 1)

    def _check_replay(self, record: BatchRecord, offsets: Offsets) -> None:
        """Refuse a replay if the batch record is of another plan: a driver that was thought dead was quicker. The
        next attempt puts that plan back and runs it.
        """
        if record.offsets_hash == offsets.hash:
            return
        if record.batch > self.last:
            self._take_in(record, 0, {})
        code = "BATCH_PLAN_REPLACED" if record.offsets else "BATCH_REPLAY_MISMATCH"
        raise StorageError(code, task=self._place.task, batch=record.batch)

    def _write(self, df: DataFrame, batch: int, offsets: Offsets) -> BatchRecord:
        started = time.monotonic()
        self.life.call(Call.PREPARE)
        positions = self._positions(offsets)
        prelude = self._prelude.compute(df, batch, offsets.batch_watermark_ms)
        if prelude is not None:
            df = prelude.rows
            for uid, files in prelude.read.items():
                positions[uid] = replace(positions[uid], files=len(files), bytes=sum(file.size for file in files))
        prepared = self._outputs.prepare(df, batch)
        prepared_ms = _ms_since(started)
        try:
            self._refuse_losses(offsets, batch)
        except Exception:
            self._outputs.give_up(prepared)
            raise
        made = BatchRecord(
            batch=batch,
            offsets_hash=offsets.hash,
            offsets=offsets.text,
            run=self._place.run,
            inputs=positions,
            committables=prepared.committables,
            segments=prepared.segments,
            rows_out=prepared.rows,
            watermark_ms=offsets.batch_watermark_ms,
            flush=self._follows_all_data(batch) and offsets.batch_watermark_ms >= END_OF_TIME_MS,
            windows=self._described,
            timings_ms={"prepare": prepared_ms},
        )
        try:
            record = self._storage.adopt(layout.batch(self._place.folder, batch), made)
        except Exception:
            self._outputs.doubt(batch, prepared)
            raise
        if record != made:
            self._outputs.abort(prepared)
            self._check_replay(record, offsets)
        return record

    def _follows_all_data(self, batch: int) -> bool:
        return self.flush_from is not None and batch >= self.flush_from

    def _refuse_losses(self, offsets: Offsets, batch: int) -> None:
        """Refuse a batch if files have gone or changed, or rows were late or left out; called once it has been read."""
        for item in self._inputs:
            if item.feed is not None:
                _check_files(item, item.feed.outstanding)
        self._prelude.refuse_changed_files()
        if self._frame is not None:
            refuse_partly_read(self._spark)
        if offsets.batch_watermark_ms > 0 and any(item.finite for item in self._inputs):
            refuse_late_rows(self._spark, self._place.task, self._inputs, offsets.batch_watermark_ms, batch)

    def _positions(self, offsets: Offsets) -> dict[str, InputPosition]:
        """Return how far each input is read once this batch is: Spark's offsets, in terms of our admissions."""
        positions = {}
        for item in self._inputs:
            ends = [offsets.sources[source] for source in item.spark_sources]
            if item.feed is None:
                position = replace(item.position, offset=offset_of(ends))
            else:
                position = item.feed.after(_admission(ends, item.position.admission))
            marks = [offsets.sources[source] for source in item.mark_sources]
            positions[item.uid] = replace(
                position,
                mark=_admission(marks, position.mark),
                sources=item.spark_sources,
                mark_sources=item.mark_sources,
            )
        return positions


def _check_files(item: Input, files: Sequence[FrozenFile]) -> None:
    (check_unchanged if item.same_files else check_present)(item.uid, files)


def _admission(ends: Sequence[str | None], before: int) -> int:
    """Return how far an inbox is read. What a task uses twice may be read twice: what both have read counts."""
    read = [int(msgspec.json.decode(end)["logOffset"]) for end in ends if end is not None]
    return min(read) if read and len(read) == len(ends) else before


def offset_of(ends: Sequence[str | None]) -> Any:
    """Return where Spark stands in a stream; a list where the stream is made of several."""
    decoded = [None if end is None else msgspec.json.decode(end) for end in ends]
    return decoded[0] if len(decoded) == 1 else decoded or None


def _ms_since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
