"""Reading a custom source: a thread of one subtask that reads a split, stages the rows, and waits for room.

One read is staged ahead while a batch works on the one before. Which read comes next follows from what is written
down (`channels.split_feed`), so nothing is lost with the thread, and two threads that read the same end in one read:
one that still hangs in the user's function when it is not wanted any more may come back at any time.
"""

from __future__ import annotations

import copy
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from rekindle.channels.custom_splits import CustomSplits
from rekindle.channels.split_feed import SplitFeed
from rekindle.errors import InputError, RekindleError
from rekindle.protocol.custom_splits import Split, key_of
from rekindle.runtime.steps import Steps, step
from rekindle.sinks.writing import write_parquet
from rekindle.sources.split_source import SplitSource
from rekindle.spark.failures import brief
from rekindle.spark.inputs.watermark_rows import quoted
from rekindle.storage import layout
from rekindle.storage.documents.sources import SplitRead, StagedFile
from rekindle.storage.job_storage import JobStorage


@dataclass(eq=False, kw_only=True)
class SplitReading:
    """The reads of one custom source by one subtask."""

    uid: str
    subtask: int
    spec: SplitSource
    spark: SparkSession
    storage: JobStorage
    #: `layout.reads`
    folder: str
    run: int
    steps: Steps
    splits: CustomSplits
    feed: SplitFeed
    #: what the source's rows have
    columns: T.StructType
    #: set by who opens it: called with what was staged
    moved: Callable[[SplitRead], None] = lambda _: None
    #: set by who opens it: called with what a read has failed of
    failed: Callable[[BaseException], None] = lambda _: None
    _news: threading.Condition = field(init=False)
    #: held while the source is asked: one that is asked for another attempt waits
    _one: threading.Lock = field(init=False)
    #: the attempt in force; None: none is
    _current: object | None = field(init=False, default=None)
    #: whether that begins further reads, and whether it is at one
    _goes_on: bool = field(init=False, default=False)
    _reads: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self._news = threading.Condition()
        self._one = threading.Lock()

    def open(self) -> None:
        """Begin to read, from the newest read that is durable."""
        with self._news:
            self._current = attempt = object()
            self._goes_on, self._reads = not self.feed.exhausted, False
        if self.feed.exhausted:
            return
        threading.Thread(target=self._run, args=(attempt,), name=f"read-{self.uid}/{self.subtask}", daemon=True).start()

    def close(self) -> None:
        """Begin no further read; what the one under way gives is staged."""
        with self._news:
            self._goes_on = False
            self._news.notify_all()

    def abandon(self) -> None:
        """Begin no further read, and make no use of the one under way."""
        with self._news:
            self._current, self._goes_on, self._reads = None, False, False
            self._news.notify_all()

    def wait(self) -> None:
        """Wait until the read that is under way is staged, has failed, or is abandoned."""
        with self._news:
            while self._reads:
                self._news.wait(1.0)

    def consumed(self) -> None:
        """A batch record covers more."""
        with self._news:
            self._news.notify_all()

    # -- the thread -----------------------------------------------------------------------------------------------

    def _run(self, attempt: object) -> None:
        try:
            reader = _Attempt(self)
            while self._begin(attempt) and not self._read_once(attempt, reader):
                if reader.rests and not self.feed.is_over(reader.state):
                    self._rest()
                    reader.wake()
        except BaseException as error:
            if self._end(attempt):
                self.failed(error)

    def _begin(self, attempt: object) -> bool:
        """Wait for room; False where nothing more is to be read."""
        with self._news:
            while self._goes_on and self._current is attempt and not self.feed.has_room:
                self._news.wait(1.0)
            if not self._goes_on or self._current is not attempt:
                return False
            self._reads = True
            return True

    def _read_once(self, attempt: object, reader: _Attempt) -> bool:
        """Return True if nothing more comes."""
        with self._one:
            if self._current is not attempt:
                return True
            staged = reader.next()
        with self._news:
            if self._current is not attempt:
                return True  # what is durable the attempt in force finds
        if staged is not None:
            self.moved(staged)
        self._end(attempt)
        return self.feed.exhausted

    def _end(self, attempt: object) -> bool:
        """The read is over; return True if it was of the attempt in force."""
        with self._news:
            if self._current is not attempt:
                return False
            self._reads = False
            self._news.notify_all()
            return True

    def _rest(self) -> None:
        until_s = time.monotonic() + self.spec.poll_ms / 1000
        with self._news:
            while self._goes_on and (left_s := until_s - time.monotonic()) > 0:
                self._news.wait(left_s)


class _Attempt:
    """One attempt to read on from the newest read that is durable, until it ends or fails."""

    def __init__(self, of: SplitReading) -> None:
        self._of = of
        self._source = copy.copy(of.spec)
        #: where it stands, by what it has read
        self.state = of.feed.state
        #: keys of splits that had nothing since the last pause
        self._resting: set[str] = set()
        if of.spec.state:
            kept = of.feed.own
            self._source.initialize_state({name: list(kept.get(name, ())) for name in of.spec.state})

    @property
    def rests(self) -> bool:
        """Whether all open splits had nothing."""
        return all(key_of(one.id) in self._resting for one in self.state.open)

    def wake(self) -> None:
        """Ask them again."""
        self._resting.clear()

    def next(self) -> SplitRead | None:
        """Read the split whose turn it is; None where that gave no rows."""
        of = self._of
        of.splits.discover(self._discovered, time.monotonic(), of.spec.poll_ms / 1000)
        of.storage.fence.check(of.run)
        # A driver that was taken for dead may have read on; what it has written down stands.
        number, state = of.feed.frontier()
        self.state = state or self.state
        known = of.feed.document(number)
        if known is not None:
            self.state = known.state
            return known
        self.state = self.state.with_given(of.splits.given_to(of.subtask))
        if of.feed.is_over(self.state):
            return self._written(number, SplitRead(split=None, state=self.state, files=(), rows=0, run=of.run))
        split = next((one for one in self.state.open if key_of(one.id) not in self._resting), None)
        return None if split is None else self._read(split, number)

    def _discovered(self) -> list[Any]:
        with self._blamed("splits()"):
            return [_as_json(one) for one in self._source.splits()]

    def _read(self, split: Split, number: int) -> SplitRead | None:
        of = self._of
        with self._blamed(f"read() of split {key_of(split.id)}"):
            frame, position, ended = _parted(self._source.read(of.spark, split.id, split.position))
            files, rows = self._staged(frame, number)
            kept = dict(_as_json(dict(self._source.snapshot_state()))) if of.spec.state and rows else {}
        after = self.state.after_read(split, position, ended=ended)
        if not rows:
            self.state = after
            self._resting.add(key_of(split.id))
            return None
        return self._written(number, SplitRead(split=split, state=after, files=files, rows=rows, run=of.run, own=kept))

    def _written(self, number: int, made: SplitRead) -> SplitRead:
        """Let a read be durable; return the one that is, which may be another driver's."""
        self._of.storage.fence.check(self._of.run)
        read = self._of.storage.adopt(layout.split_read(self._of.folder, number), made)
        self.state = read.state
        return read

    def _staged(self, frame: DataFrame | None, number: int) -> tuple[tuple[StagedFile, ...], int]:
        """Write the rows into a folder of their own; return the files that have some, and how many they are."""
        if frame is None:
            return (), 0
        of = self._of
        folder = layout.staged_rows(of.folder, number, f"{of.run:06d}-{secrets.token_hex(4)}")
        with step(of.steps, "segments.write"):
            written = write_parquet(_as_declared(frame, of.columns), of.storage.store, folder)
        below = folder.removeprefix(f"{of.folder}/")
        files = tuple(StagedFile(path=f"{below}/{file.path}", size=file.bytes) for file in written)
        return files, sum(file.rows for file in written)

    @contextmanager
    def _blamed(self, what: str) -> Iterator[None]:
        """Say of which source it was, and whether trying again may help."""
        try:
            yield
        except RekindleError:
            raise
        except _InvalidError as error:
            raise InputError("SPLIT_READ_INVALID", source=self._of.uid, what=what, reason=error) from error
        except Exception as error:
            raise InputError("SPLIT_READ_FAILED", source=self._of.uid, what=what, reason=brief(error)) from error


class _InvalidError(Exception):
    """What a source returned cannot be used; it would return the same again."""


def _parted(returned: Any) -> tuple[DataFrame | None, Any, bool]:
    if not isinstance(returned, tuple) or len(returned) != 3:
        raise _InvalidError(f"{type(returned).__name__}, not a tuple of three")
    frame, position, ended = returned
    if not isinstance(ended, bool):
        raise _InvalidError(f"ended is {type(ended).__name__}, not True or False")
    return frame, _as_json(position), ended


def _as_declared(frame: DataFrame, columns: T.StructType) -> DataFrame:
    """Return the columns in the order of the source's schema.

    Raises:
        _InvalidError: it has others, or of other types.
    """
    if not isinstance(frame, DataFrame):
        raise _InvalidError(f"{type(frame).__name__}, not a DataFrame")
    if frame.isStreaming:
        raise _InvalidError("a streaming DataFrame")
    found = {field.name: field.dataType.simpleString() for field in frame.schema}
    expected = {field.name: field.dataType.simpleString() for field in columns}
    if found != expected:
        raise _InvalidError(f"its columns are {found}, and schema says {expected}")
    return frame.select(*[frame[quoted(name)] for name in columns.fieldNames()])


def _as_json(value: Any) -> Any:
    """Return a value as it comes back from the storage.

    Raises:
        _InvalidError: it is no JSON.
    """
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise _InvalidError(f"a value that is no JSON: {error}") from error
