"""Structured Streaming as far as Rekindle rests on it, without Spark: its file source, its batches, its watermark.

What it keeps, it keeps in Spark's own files, in Spark's own order, so that Rekindle reads, plants, cuts and deletes
them as it does Spark's. The file source reads a folder's log by the rules that the docstring of `channels.inbox`
states, and breaks (`AssertionError`) where they are broken. A *row* is ``(source, number, time in ms)``.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from rekindle.channels.inbox import CARRIED_OVER, unstamp
from rekindle.storage.port import Store
from tests.simulation.cooperative import Process, Scheduler

Row = tuple[str, int, int]

_DAY_MS = 86_400_000
_LOG = re.compile(r"(\d+)(?:\.compact)?")
_IDLE_S = 0.1

CONF = {"spark.sql.shuffle.partitions": "1"}


@lru_cache(maxsize=1_000)
def _entry_of(line: str) -> dict[str, Any]:
    """An entry of a log, which is read at each look and never changes."""
    return json.loads(line)


def path_of(uri: str) -> str:
    """The path in the store of what `MemoryStore.uri` named."""
    return uri.removeprefix("memory:///")


class SparkLog:
    """A log of Spark's, ``_spark_metadata`` or ``sources/<i>``, with a compaction now and then, by default at every
    tenth entry. Who opens one goes by the compactions that it finds.
    """

    def __init__(self, store: Store, folder: str) -> None:
        self._store, self._folder = store, folder
        found = sorted((n for n, name in self._numbers().items() if name.endswith(".compact")), reverse=True)
        #: the distance of the last two compactions; of one alone, the least divisor of its count from ten on
        self.interval = 10
        if len(found) > 1:
            self.interval = found[0] - found[1]
        elif found:
            count = found[0] + 1
            self.interval = next((n for n in range(10, count // 2 + 1) if count // 2 > 10 and count % n == 0), count)

    def newest(self) -> int:
        """Number of the newest entry, -1 for none."""
        return max(self._numbers(), default=-1)

    def _numbers(self) -> dict[int, str]:
        names = self._store.names(self._folder)
        return {int(match[1]): name for name in names if (match := _LOG.fullmatch(name))}

    def _is_compaction(self, number: int) -> bool:
        return (number + 1) % self.interval == 0

    def entries(self, newest: int) -> list[dict[str, Any]]:
        """All that the log names up to an entry, from the last compaction on."""
        last = (newest + 1) // self.interval * self.interval - 1
        return [entry for number in range(max(last, 0), newest + 1) for entry in self._read(number)]

    def _read(self, number: int) -> list[dict[str, Any]]:
        name = f"{number}.compact" if self._is_compaction(number) else f"{number}"
        version, *lines = self._store.read(f"{self._folder}/{name}").decode().split("\n")
        assert version == "v1"
        return [_entry_of(line) for line in lines]

    def at(self, number: int) -> list[dict[str, Any]]:
        """What one entry added."""
        return [entry for entry in self._read(number) if entry["batchId"] == number]

    def add(self, number: int, entries: list[dict[str, Any]]) -> None:
        """Write an entry; a compaction holds all that the log still names."""
        name = f"{number}"
        if self._is_compaction(number):
            name, entries = f"{number}.compact", [*(self.entries(number - 1) if number else ()), *entries]
        text = "\n".join(["v1", *(json.dumps(entry, separators=(",", ":")) for entry in entries)])
        if not self._store.create(f"{self._folder}/{name}", text.encode()):
            raise ConcurrentUpdateError(f"{self._folder}/{name}")


class FileSource:
    """Spark's file source over an inbox.

    Args:
        shown: where the log of the inbox is read, and `inbox`, its folder there.
        log: folder of its own log, ``sources/<i>``.
    """

    def __init__(self, scheduler: Scheduler, store: Store, shown: Store, inbox: str, log: str) -> None:
        self._scheduler, self._shown = scheduler, shown
        self._folder = inbox
        self._log = SparkLog(store, log)
        self._seen: dict[str, int] = {}
        self._latest = self._forgotten = 0
        #: the names in the log when it last had nothing new: what it names does not change without them
        self._known: list[str] | None = None
        self.offset = self._log.newest()
        for entry in self._log.entries(self.offset) if self.offset >= 0 else ():
            self._see(entry["path"], entry["timestamp"])
        self._purge()

    def fetch(self) -> int:
        """Look for new files; the offset that is reached with them."""
        folder = f"{self._folder}/_spark_metadata"
        names = self._shown.names(folder)
        if names == self._known:
            self._scheduler.pause()
            return self.offset
        log = SparkLog(self._shown, folder)
        assert log.interval == 10, f"in {self._folder} Spark would look for compactions at every {log.interval}"
        newest = log.newest()
        self._scheduler.pause()  # others go on between the listing of a log and its reading
        listed = log.entries(newest) if newest >= 0 else []
        new = [one for one in listed if one["modificationTime"] >= self._forgotten and one["path"] not in self._seen]
        if not new:
            self._known = names
            return self.offset
        admissions = {unstamp(one["modificationTime"])[1] for one in new}  # type: ignore[index]
        assert admissions == {self.offset + 1}, f"{self._folder}: admissions {admissions} behind {self.offset}"
        self.offset += 1
        entries = [{"path": one["path"], "timestamp": one["modificationTime"], "batchId": self.offset} for one in new]
        self._scheduler.step("spark.source/before")
        self._log.add(self.offset, entries)
        self._scheduler.step("spark.source/after")
        for one in new:
            self._see(one["path"], one["modificationTime"])
        self._purge()
        return self.offset

    def files(self, after: int, upto: int) -> list[str]:
        """Paths of the files of a batch."""
        return [entry["path"] for offset in range(after + 1, upto + 1) for entry in self._log.at(offset)]

    def _see(self, path: str, time_ms: int) -> None:
        self._seen[path] = time_ms
        self._latest = max(self._latest, time_ms)

    def _purge(self) -> None:
        self._forgotten = self._latest - 7 * _DAY_MS
        self._seen = {path: time_ms for path, time_ms in self._seen.items() if time_ms >= self._forgotten}


class LiveSource:
    """A source of Spark's own that never ends: so many rows a second, each a second later than the one before."""

    def __init__(self, scheduler: Scheduler, uid: str, rows_per_s: float) -> None:
        self._scheduler, self.uid, self._rows_per_s = scheduler, uid, rows_per_s
        self._until = float("inf")

    def fetch(self) -> int:
        """See `FileSource`."""
        return int(min(self._scheduler.now_s - 1_000, self._until) * self._rows_per_s) - 1

    def bind(self) -> None:
        """See ``prepareForTriggerAvailableNow``."""
        self._until = self._scheduler.now_s - 1_000

    def rows(self, after: int, upto: int) -> list[Row]:
        """The rows behind an offset, up to another."""
        return [live_row(self.uid, number) for number in range(after + 1, upto + 1)]


def live_row(uid: str, number: int) -> Row:
    """A row of a live source: out of order by less than three seconds."""
    return (uid, number, 10_000_000 + 1_000 * number - number * 7919 % 3_000)


class Leaf(NamedTuple):
    """A source of a plan."""

    #: folder of an inbox; None for a live source
    inbox: str | None
    live: tuple[str, float] | None = None
    #: number of the watermark that it is under, None for none
    input: int | None = None
    is_marks: bool = False


@dataclass(frozen=True)
class Frame:
    """A streaming DataFrame: what it reads, and the delay of the watermark of each input, ms."""

    leaves: tuple[Leaf, ...] = ()
    delays_ms: tuple[int, ...] = ()
    #: rows are held back until the watermark is beyond them, as in a window
    windowed: bool = False
    isStreaming = True  # noqa: N815
    columns = ()
    sparkSession = SimpleNamespace(conf={"spark.sql.caseSensitive": "false"})  # noqa: N815
    schema: Any = None

    @property
    def writeStream(self) -> Writer:  # noqa: N802
        """See Spark."""
        return Writer(self)


@dataclass
class Writer:
    """``frame.writeStream``, ``df.write``, ``spark.readStream``: options, and then an act."""

    frame: Any = None
    callback: Any = None
    options: dict[str, str] = field(default_factory=dict)

    def foreachBatch(self, callback: Any) -> Writer:  # noqa: N802
        """See Spark."""
        self.callback = callback
        return self

    def option(self, key: str, value: str) -> Writer:
        """See Spark."""
        self.options[key] = value
        return self

    def mode(self, _: str) -> Writer:
        """See Spark."""
        return self

    outputMode = format = schema = mode  # noqa: N815

    def trigger(self, **_: str) -> Writer:
        """See Spark; what is not there cannot be woken, and polls."""
        return self

    def start(self) -> Any:
        """See Spark."""
        return ENGINE[0].start(self)

    def save(self) -> None:
        """See Spark: the noop sink."""
        self.frame.evaluate()

    def parquet(self, path: str) -> Any:
        """See Spark: of a streaming reader, or of a batch's writer."""
        if self.frame is None:
            return Frame((Leaf(path_of(path)),))
        self.frame.write_to(path_of(path))
        return None


ENGINE: list[Any] = []
"""The Spark of this process: there is one at a time."""


@dataclass
class BatchFrame:
    """The DataFrame that a batch is given. Its state is written when it is evaluated, which must be once."""

    query: StreamingQuery
    compute: Callable[[], list[Row]]
    evaluations: int = 0
    kept: list[Row] | None = None
    keep: bool = False

    def evaluate(self) -> list[Row]:
        """The rows."""
        if self.kept is not None:
            return self.kept
        self.evaluations += 1
        assert self.evaluations == 1, "the state store commits with each evaluation"
        rows = self.compute()
        if self.keep:
            self.kept = rows
        return rows

    def repartition(self, _: int) -> BatchFrame:
        """See Spark."""
        return self

    def persist(self) -> BatchFrame:
        """See Spark."""
        self.keep = True
        return self

    def unpersist(self) -> None:
        """See Spark."""
        self.keep, self.kept = False, None

    @property
    def write(self) -> Writer:
        """See Spark."""
        return Writer(self)

    def write_to(self, folder: str) -> None:
        """Parquet files of at most three rows, and one without."""
        rows, query = self.evaluate(), self.query
        for number, part in enumerate([*(rows[at : at + 3] for at in range(0, len(rows), 3)), []]):
            query.engine.scheduler.step("spark.segment/before")
            query.engine.store.replace(f"{folder}/part-{number:05d}.parquet", json.dumps(part).encode())


@dataclass
class Engine:
    """Spark, in one process.

    Args:
        rows_of: a source's file, by its path → its rows.
        seconds: how long a batch of so many rows of a task takes.
    """

    scheduler: Scheduler
    store: Store
    rows_of: Callable[[str], Sequence[Row]]
    seconds: Callable[[str, int], float]
    #: rows that were dropped, by drivers that were never taken for dead
    late: list[Row] = field(default_factory=list)
    _met: dict[Process, dict[str, list[Row]]] = field(default_factory=dict)
    #: what a query that is started has ``minBatchesToRetain`` at
    keeps: int = 100
    #: how long a query that has failed says that it runs, while Spark cleans up after it
    cleans_up_s: float = 0

    #: False: its live sources know nothing of ``prepareForTriggerAvailableNow``
    binds: bool = True

    #: where the drivers copy the logs of inboxes to, by the name that their paths begin with
    disks: dict[str, Store] = field(default_factory=dict)

    def shown(self, inbox: str) -> tuple[Store, str]:
        """Return where a log is read, and its folder there."""
        disk, _, folder = inbox.partition("/")
        return (self.disks[disk], folder) if disk in self.disks else (self.store, inbox)

    @property
    def met(self) -> dict[str, list[Row]]:
        """Live source → what the last batch of this process had of it."""
        return self._met.setdefault(self.scheduler.process, {})

    def start(self, writer: Writer) -> StreamingQuery:
        """Start a query."""
        query = StreamingQuery(self, writer.frame, writer.callback, path_of(writer.options["checkpointLocation"]))
        query.begin()
        return query

    def read(self, path: str) -> Sequence[Row]:
        """The rows of a file: a source's or a segment's."""
        assert path != CARRIED_OVER, "what stands for all before is never read"
        if path.startswith("source://"):
            return self.rows_of(path)
        return [tuple(row) for row in json.loads(self.store.read(path_of(path)))]


_STREAMED: ContextVar[Any] = ContextVar("streamed")
"""The query whose stream thread it is."""


def queries() -> Any:
    """Return ``session.streams()`` of the JVM, as far as a batch asks there for what its own query runs."""
    wrapper = SimpleNamespace(streamingQuery=lambda: _Execution(_STREAMED.get()))
    return SimpleNamespace(get=lambda _: wrapper)


def bind(_: Any, numbers: Iterable[int]) -> tuple[int, ...]:
    """Bind live sources of the query whose batch is on this thread; return those that cannot be bound."""
    query = _STREAMED.get()
    if not query.engine.binds:
        return tuple(numbers)
    for number in numbers:
        query.bind(number)
    return ()


class _Execution:
    """The JVM's side of a query: its plan of the batch under way, in memory."""

    def __init__(self, query: StreamingQuery) -> None:
        self._metadata, self._ends = query.running

    def lastExecution(self) -> _Execution:  # noqa: N802
        """See Spark."""
        return self

    offsetSeqMetadata = availableOffsets = values = lastExecution  # noqa: N815

    def json(self) -> str:
        """See Spark: of the metadata of the batch."""
        return self._metadata

    def iterator(self) -> Any:
        """See Scala."""
        left = [SimpleNamespace(json=lambda end=end: end) for end in self._ends if end != "-"]
        return SimpleNamespace(hasNext=lambda: bool(left), next=left.pop)


class InterruptedQueryError(Exception):
    """``stop()`` was called."""


class ConcurrentUpdateError(Exception):
    """Another query has written the next entry of a log: Spark's query dies of that."""


class StreamingQuery:
    """A query and its stream thread."""

    def __init__(self, engine: Engine, frame: Frame, callback: Callable[[Any, int], None], folder: str) -> None:
        self.engine, self._frame, self._callback, self._folder = engine, frame, callback, folder
        self.runId = uuid.uuid4()
        self._keeps = engine.keeps
        self.isActive = True
        self.lastProgress: dict[str, Any] | None = None
        self._stopped = False
        #: it has looked and found nothing
        self._looked = False
        self._died_of: BaseException | None = None
        #: metadata and ends of the batch under way, as they are written
        self.running: tuple[str, list[str]] = ("", [])

    def begin(self) -> None:
        """Let its stream thread run."""
        self.engine.store.create(f"{self._folder}/metadata", b"{}")
        self.engine.scheduler.spawn(self._run, f"stream {self._folder}")

    def stop(self) -> None:
        """See Spark: whatever it does is interrupted."""
        self._stopped = True
        while self.isActive:
            self.engine.scheduler.pause(1, lambda: not self.isActive)

    def awaitTermination(self) -> None:  # noqa: N802
        """See Spark."""
        while self.isActive:
            self.engine.scheduler.pause(60, lambda: not self.isActive)
        if self._died_of is not None:
            raise OSError(str(self._died_of))

    def bind(self, number: int) -> None:
        """Bind a live source to what is there."""
        self._sources[number].bind()

    def exception(self) -> OSError | None:
        """See Spark: what it died of, which PySpark puts in words of its own."""
        return None if self._died_of is None else OSError(str(self._died_of))

    @property
    def _jsq(self) -> SimpleNamespace:
        """What is reached of Spark's own objects: the tracker of the watermark; of what it died of, nothing."""
        found = SimpleNamespace(currentWatermark=lambda: self._next_ms, setWatermark=self._set_watermark)
        looked = {"noNewData_$eq": self._set_looked, "noNewData": lambda: self._looked}
        execution = SimpleNamespace(watermarkTracker=lambda: found, **looked)
        only_text = SimpleNamespace(get=lambda: None)
        return SimpleNamespace(
            streamingQuery=lambda: execution, exception=lambda: only_text, awaitTermination=self._await_termination
        )

    def _await_termination(self, at_most_ms: int) -> bool:
        self.engine.scheduler.pause(at_most_ms / 1000, lambda: not self.isActive)
        return not self.isActive

    def _set_watermark(self, watermark_ms: int) -> None:
        self._next_ms = watermark_ms

    def _set_looked(self, looked: bool) -> None:
        self._looked = looked

    def die(self, reason: str) -> None:
        """Something kills it."""
        self._stopped, self._died_of = True, OSError(reason)

    def _run(self) -> None:
        _STREAMED.set(self)
        try:
            self._stream()
        except InterruptedQueryError:
            pass
        except Exception as error:
            if self.engine.cleans_up_s:
                self.engine.scheduler.pause(self.engine.cleans_up_s)
            self._died_of = error
        finally:
            self.isActive = False

    def _wait(self, seconds: float) -> None:
        self.engine.scheduler.pause(seconds, lambda: self._stopped)
        self._check()

    def _check(self) -> None:
        if self._stopped:
            raise InterruptedQueryError

    # -- the stream thread --------------------------------------------------------------------------------------------

    def _stream(self) -> None:
        engine, store = self.engine, self.engine.store
        self._sources = [self._open(number, leaf) for number, leaf in enumerate(self._frame.leaves)]
        planned, committed = (max(self._numbers(log), default=-1) for log in ("offsets", "commits"))
        assert planned in (committed, committed + 1), f"planned {planned}, committed {committed}"
        self._next = planned + 1
        self._seen_ms: dict[int, int] = {}
        self._ends = self._offsets(committed)[1] if committed >= 0 else [-1] * len(self._sources)
        self._next_ms = self._read_commit(committed) if committed >= 0 else 0
        # Spark starts with what it finds planned; its watermark is that of the plan, should that be higher.
        if planned > committed:
            self._batch(planned)
        elif committed >= 0:
            self._next_ms = max(self._next_ms, self._offsets(committed)[0])
        ran_with_ms = self._next_ms
        while True:
            self._check()
            ends = [source.fetch() for source in self._sources]
            self._check()
            moved = self._frame.windowed and self._next > 0 and self._next_ms > ran_with_ms
            self._looked = ends == self._ends and not moved
            if self._looked:
                self._wait(_IDLE_S)
                continue
            ran_with_ms = self._next_ms
            engine.scheduler.step("spark.offsets/before")
            metadata = {"batchWatermarkMs": self._next_ms, "batchTimestampMs": 0, "conf": CONF}
            lines = [json.dumps({"logOffset": end}) if end >= 0 else "-" for end in ends]
            text = "\n".join(["v1", json.dumps(metadata, separators=(",", ":")), *lines])
            if not store.create(f"{self._folder}/offsets/{self._next}", text.encode()):
                raise ConcurrentUpdateError(f"offsets/{self._next}")
            engine.scheduler.step("spark.offsets/after")
            self._clear_up(self._next)
            self._batch(self._next)
            self._next += 1

    def _clear_up(self, planned: int) -> None:
        """Delete what is beyond the batches to keep: state at any time, logs when a batch is planned."""
        store = self.engine.store
        for log in ("offsets", "commits"):
            old = [number for number in self._numbers(log) if number < planned - self._keeps]
            store.delete_many([f"{self._folder}/{log}/{number}" for number in old])
        state = f"{self._folder}/state/0/0"
        versions = sorted(int(name.removesuffix(".snapshot")) for name in store.names(state))
        least = max((one for one in versions if one <= versions[-1] - self._keeps + 1), default=0)
        store.delete_many([f"{state}/{version}.snapshot" for version in versions if version < least])

    def _open(self, number: int, leaf: Leaf) -> Any:
        engine = self.engine
        if leaf.live is not None:
            return LiveSource(engine.scheduler, *leaf.live)
        log = f"{self._folder}/sources/{number}"
        return FileSource(engine.scheduler, engine.store, *engine.shown(str(leaf.inbox)), log)

    def _batch(self, batch: int) -> None:
        engine, store = self.engine, self.engine.store
        watermark_ms, ends = self._offsets(batch)
        _, metadata, *written = store.read(f"{self._folder}/offsets/{batch}").decode().split("\n")
        self.running = metadata, written
        data: list[Row] = []
        for leaf, source, before, end in zip(self._frame.leaves, self._sources, self._ends, ends, strict=True):
            if leaf.live is not None:
                rows = engine.met[source.uid] = source.rows(before, end)
            elif leaf.is_marks:
                rows = [("", 0, self._mark_ms(path)) for path in source.files(before, end)]
            else:
                rows = [row for path in source.files(before, end) for row in engine.read(path)]
            if leaf.input is not None and rows:
                newest = max(time_ms for _, _, time_ms in rows) - self._frame.delays_ms[leaf.input]
                self._seen_ms[leaf.input] = max(newest, self._seen_ms.get(leaf.input, 0))
            data += () if leaf.is_marks else rows
        self._wait(engine.seconds(self._folder, len(data)))
        due: list[Row] = []
        left: list[Row] = []

        def compute() -> list[Row]:
            """What executors do: nobody asks them who is in force, and their state replaces what is there."""
            if not self._frame.windowed:
                return data
            held = self._state(batch)
            if not engine.scheduler.process.was_frozen:
                engine.late += [row for row in data if row[2] <= watermark_ms]
            due.extend(row for row in (*held, *data) if row[2] <= watermark_ms)
            left.extend(row for row in (*held, *data) if row[2] > watermark_ms)
            engine.scheduler.step("spark.state/before")
            store.replace(f"{self._folder}/state/0/0/{batch + 1}.snapshot", json.dumps(left).encode())
            return due

        frame = BatchFrame(self, compute)
        self._callback(frame, batch)
        assert frame.evaluations == 1, "Spark commits state only for what was evaluated"
        self._next_ms = max(self._next_ms, watermark_ms, self._watermark_ms())
        engine.scheduler.step("spark.commits/before")
        commit = "v1\n" + json.dumps({"nextBatchWatermarkMs": self._next_ms}, separators=(",", ":"))
        if not store.create(f"{self._folder}/commits/{batch}", commit.encode()):
            raise ConcurrentUpdateError(f"commits/{batch}")
        engine.scheduler.step("spark.commits/after")
        self._ends = ends
        changed = {"numRowsTotal": len(left), "numRowsUpdated": 0, "numRowsRemoved": len(due)}
        operators = [{"operatorName": "stateStoreSave", **changed}] if self._frame.windowed else []
        self.lastProgress = {
            "batchId": batch,
            "durationMs": {"addBatch": 1},
            "stateOperators": operators,
            "sources": [],
        }

    def _watermark_ms(self) -> int:
        """Least of the inputs': one that nothing was seen of since the start counts as 1970."""
        return min((self._seen_ms.get(number, 0) for number in range(len(self._frame.delays_ms))), default=0)

    def _mark_ms(self, path: str) -> int:
        file = pq.ParquetFile(pa.BufferReader(self.engine.store.read(path_of(path))))
        table = file.read(use_threads=False)  # of a file like this, all else costs ten times as much
        return int(table.column(0).cast(pa.int64())[0].as_py()) // 1_000

    def _state(self, batch: int) -> list[Row]:
        if not self._frame.windowed or batch == 0:
            return []
        return [tuple(row) for row in json.loads(self.engine.store.read(f"{self._folder}/state/0/0/{batch}.snapshot"))]

    def _numbers(self, log: str) -> Iterable[int]:
        return map(int, self.engine.store.names(f"{self._folder}/{log}"))

    def _offsets(self, batch: int) -> tuple[int, list[int]]:
        _, metadata, *ends = self.engine.store.read(f"{self._folder}/offsets/{batch}").decode().split("\n")
        offsets = [-1 if end == "-" else int(json.loads(end)["logOffset"]) for end in ends]
        return int(json.loads(metadata)["batchWatermarkMs"]), offsets

    def _read_commit(self, batch: int) -> int:
        text = self.engine.store.read(f"{self._folder}/commits/{batch}").decode().partition("\n")[2]
        return int(json.loads(text)["nextBatchWatermarkMs"])
