"""The inputs of a prelude: the files of a history, and a copy of what the live streams have when the job starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from rekindle.channels.feed import FileFeed
from rekindle.channels.inbox import Inbox
from rekindle.errors import JobError
from rekindle.graph.job_graph import Task
from rekindle.progress.copies import replace_log
from rekindle.progress.directory import last_committed, read_offsets
from rekindle.progress.file_streams import read_file_stream
from rekindle.progress.plain import kind_of
from rekindle.runtime.definition import RunContext
from rekindle.session.failures import brief, spellings
from rekindle.session.links import chain
from rekindle.session.servers import of_source
from rekindle.sinks.session_settings import for_old_times
from rekindle.sinks.staging import TIMESTAMP_TYPE
from rekindle.sources import Files, Stream
from rekindle.sources.globs import is_glob
from rekindle.spark.inputs.input import Input
from rekindle.spark.inputs.reading import made_by, read_inbox
from rekindle.spark.inputs.watermark_rows import quoted, timely
from rekindle.spark.output.outputs import SubtaskPlace
from rekindle.spark.plans.plan import build_batch_task
from rekindle.spark.prelude.closing import closed, first_open_us
from rekindle.spark.prelude.keeping import Kept
from rekindle.spark.prelude.windows import NotClosedError, Windows
from rekindle.spark.query.alive import stop_beside
from rekindle.spark.query.optimizer import started_with
from rekindle.storage import layout, read_layout
from rekindle.storage.documents.batch import PreludeDocument
from rekindle.storage.documents.sources import FrozenFile

_LOOKS_BACK = (16, 256)
"""Distances before a watermark, in gaps, within which open sessions are looked for before all rows are read."""


@dataclass(frozen=True, slots=True)
class History:
    """A bounded source, as the batch query reads it."""

    item: Input
    files: Sequence[FrozenFile]
    #: the same as a batch query, by which to look for files; None: it does not tell of which file a row is
    frame: DataFrame | None

    def open_files(self, after_us: int | None) -> list[int]:
        """Return the numbers of the files that may have a row after some time, or without a time; None: not known."""
        if self.frame is None or after_us is None:
            return list(range(len(self.files)))
        rows = _open_rows(self.frame, str(self.item.event_time), after_us)
        found = {spelled for row in rows.distinct().collect() for spelled in spellings(row[0])}
        return [number for number, file in enumerate(self.files) if spellings(file.path) & found]


@dataclass(frozen=True, slots=True)
class Computed:
    """The batch query of a prelude."""

    rows: DataFrame
    #: returns the same without a watermark, of the rows after a time (microseconds), or of all for None
    whole: Callable[[int | None], DataFrame]
    #: the histories that it reads
    histories: Sequence[History]


class PreludeReading:
    """The inputs of the prelude of one subtask.

    Args:
        inputs: those of its query.
        kept: what that keeps.
        first_reads: its first batch reads what it keeps of the histories.
    """

    def __init__(
        self,
        run: RunContext,
        spark: SparkSession,
        task: Task,
        place: SubtaskPlace,
        inputs: Sequence[Input],
        kept: Kept,
        *,
        first_reads: bool,
    ) -> None:
        self._run = run
        self._spark = spark
        self._task = task
        self._place = place
        self._store = run.storage.store
        self._inputs = inputs
        self._kept = kept
        self.first_reads = first_reads
        #: makes a copy
        self._copying: StreamingQuery | None = None
        self._interrupted = False

    def copy(self, attempt: str) -> int:
        """Copy what the live streams have; return the watermark after it, 0 where one of them has no time.

        Raises:
            NotClosedError: a copy may have rows twice.
        """
        return min((self._copy(item, attempt) for item in self._inputs if not item.bounded), default=0)

    def closed(self, found: PreludeDocument) -> Computed:
        """Return the batch query of the rows that are out by the watermark.

        Raises:
            NotClosedError: it cannot be made.
        """
        frames, histories = [], []
        for item in self._inputs:
            if item.bounded:
                frame, history = self._history(item)
                histories.append(history)
            else:
                frame = self._timely(item, self._copied(item, found.attempt))
            frames.append(frame)

        def whole(after_us: int | None) -> DataFrame:
            function = self._run.definition.functions[self._task.uid]
            pairs = zip(self._inputs, frames, strict=True)
            read = frames if after_us is None else [_rows_after(frame, item, after_us) for item, frame in pairs]
            return build_batch_task(self._task, function, read)

        windows = self._kept.windows
        rows = whole(None) if windows is None else closed(whole(None), windows, found.watermark_ms)
        return Computed(rows, whole, histories)

    def open_files(self, computed: Computed, watermark_ms: int) -> dict[str, list[int]]:
        """Return, for each history, the numbers of the files that may have a row which the state keeps."""
        windows, reach_us = self._kept.windows, self._kept.reach_us
        after_us = None if reach_us is None else watermark_ms * 1000 - reach_us
        if windows is not None and windows.are_sessions:
            first_us = _first_open_us(computed, windows, watermark_ms)
            after_us = watermark_ms * 1000 if first_us is None else first_us - 1
        return {history.item.uid: history.open_files(after_us) for history in computed.histories}

    @property
    def has_admitted(self) -> bool:
        """True if files of a history were admitted that no batch has been recorded of."""
        return any(item.feed is not None and item.feed.waiting for item in self._inputs if item.bounded)

    def admit(self, first: Mapping[str, Sequence[int]]) -> None:
        """Admit, for the first batch, files of the histories by their numbers."""
        for item in self._inputs:
            if item.uid in first:
                assert isinstance(item.feed, FileFeed), "a history is made of files"
                item.feed.admit_first(first[item.uid])

    def begin_as_copied(self, attempt: str, progress_dir: str) -> dict[int, str | None]:
        """Let the sources of a query begin where the copies of the live streams have begun.

        Return where they end in its first batch: where the copies do, if it has to read just what was copied.

        Args:
            progress_dir: that of the query, which gets the logs of the copies' sources too.
        """
        ends: dict[int, str | None] = {}
        for item in self._inputs:
            if not item.bounded:
                folder = read_layout.prelude_progress(self._place.folder, attempt, item.uid)
                read = read_offsets(self._store, folder, last_committed(self._store, folder)).sources
                for number, (source, end) in enumerate(zip(item.spark_sources, read, strict=True)):
                    # Kafka's log is the start in the topic, and retention may have moved that since.
                    if self.first_reads or kind_of(end) == "kafka":
                        replace_log(self._store, f"{folder}/sources/{number}", f"{progress_dir}/sources/{source}")
                    if self.first_reads:
                        ends[source] = end
        return ends

    @property
    def sources_of_histories(self) -> Sequence[int]:
        """The numbers that Spark gives to the sources of the query that read a history."""
        return [source for item in self._inputs if item.bounded for source in item.spark_sources]

    def interrupt(self) -> None:
        """Give up copying; wait for nothing."""
        self._interrupted = True
        if (copying := self._copying) is not None:
            stop_beside(copying)

    def _copy(self, item: Input, attempt: str) -> int:
        folder = self._place.folder
        live = self._live(item)
        writer = (
            live.writeStream.format("parquet")
            .option("path", self._store.spark_path(read_layout.prelude_copy(folder, attempt, item.uid)))
            .option(
                "checkpointLocation", self._store.spark_path(read_layout.prelude_progress(folder, attempt, item.uid))
            )
            .trigger(availableNow=True)
        )
        with started_with(live.sparkSession, {TIMESTAMP_TYPE: "TIMESTAMP_MICROS", **for_old_times(live.sparkSession)}):
            query = writer.start()
        self._copying = query
        try:
            if self._interrupted:
                query.stop()
            query.awaitTermination()
        except PySparkException as error:
            died = JobError("QUERY_DIED", task=self._task.uid, reason=brief(error))
            raise of_source(chain(error), item.uid) or died from error
        finally:
            self._copying = None
        if self._interrupted:
            raise JobError("QUERY_DIED", task=self._task.uid, reason="its run is over")
        self._refuse_patterns(item, attempt)
        assert item.event_time is not None, "an input of a prelude has an event time"
        assert item.delay_ms is not None, "a live stream has a watermark of its own"
        last = self._copied(item, attempt).agg(F.expr(f"unix_micros(max({quoted(item.event_time)}))")).first()
        return 0 if last is None or last[0] is None else int(last[0]) // 1000 - item.delay_ms

    def _refuse_patterns(self, item: Input, attempt: str) -> None:
        """Refuse a copy for which Spark may have read files twice, beside one whose name is a pattern."""
        folder = read_layout.prelude_progress(self._place.folder, attempt, item.uid)
        for source in self._store.names(f"{folder}/sources"):
            found = read_file_stream(self._store, f"{folder}/sources/{source}") or {}
            sizes = Counter(found.values())
            for path in map(unquote, (path for path, batch in found.items() if sizes[batch] > 1)):
                if is_glob(path):
                    raise NotClosedError(f"Spark takes {path} for a pattern, and may read other files twice")

    def _live(self, item: Input) -> DataFrame:
        spec = self._run.definition.sources[item.uid].spec
        assert isinstance(spec, Stream), "nothing else that never ends is read twice"
        return made_by(item.uid, spec.read, self._spark)

    def _copied(self, item: Input, attempt: str) -> DataFrame:
        path = read_layout.prelude_copy(self._place.folder, attempt, item.uid)
        return self._spark.read.schema(self._live(item).schema).parquet(self._store.spark_path(path))

    def _history(self, item: Input) -> tuple[DataFrame, History]:
        store, frozen = self._store, self._run.frozen[item.uid]
        spec = self._run.definition.sources[item.uid].spec
        assert isinstance(item.feed, FileFeed), "a history is made of files"
        assert frozen is not None, "a history is made of files"
        files = item.feed.splits.given_to(self._place.subtask)[item.position.files :]
        folder = layout.inbox(read_layout.prelude_folder(self._place.folder), item.uid)
        inbox = Inbox(store, folder, item.index)
        inbox.open()
        if files:
            inbox.admit(0, files)
        transformed = isinstance(spec, Files) and spec.transform is not None
        frame = read_inbox(self._spark.read, store, folder, spec, frozen)
        hidden = any(name.lower() == "_metadata" for name in frame.columns)
        return self._timely(item, frame), History(item, files, None if transformed or hidden else frame)

    def _timely(self, item: Input, frame: DataFrame) -> DataFrame:
        spec = self._run.definition.sources[item.uid]
        return timely(frame, item.uid, str(item.event_time), late=spec.late)


def _first_open_us(computed: Computed, windows: Windows, watermark_ms: int) -> int | None:
    """Return the begin of the first session that a watermark leaves open, from as few of the last rows as may be.

    Of the rows after a time, a session that has begun a gap later or more has no earlier row. And none is open that has
    no row in the last gap before the watermark.
    """
    gap_us = windows.length_us
    for gaps in _LOOKS_BACK if gap_us else ():
        assert gap_us is not None
        after_us = watermark_ms * 1000 - gaps * gap_us
        first_us = first_open_us(computed.whole(after_us), windows, watermark_ms)
        if first_us is None or first_us >= after_us + gap_us:
            return first_us
    return first_open_us(computed.whole(None), windows, watermark_ms)


def _rows_after(frame: DataFrame, item: Input, after_us: int) -> DataFrame:
    return frame.where(f"{quoted(str(item.event_time))} > timestamp_micros({after_us})")


def _open_rows(frame: DataFrame, event_time: str, closed_us: int) -> DataFrame:
    """Return the files of the rows that the state may keep: later than `closed_us`, or at no time.

    Spark passes over the files, or parts of them, whose statistics tell that there are none.
    """
    time = quoted(event_time)
    return frame.where(f"{time} > timestamp_micros({closed_us}) OR {time} IS NULL").select("_metadata.file_path")
