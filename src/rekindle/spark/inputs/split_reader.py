"""Read splits of a custom source one after the other: ask the user's class, and keep what it returns."""

from __future__ import annotations

import copy
import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from rekindle.channels.custom_splits import CustomSplits
from rekindle.channels.split_feed import SplitFeed
from rekindle.errors import InputError, RekindleError, StorageError
from rekindle.protocol.custom_splits import Split, key_of
from rekindle.runtime.steps import Steps, step
from rekindle.session.failures import brief
from rekindle.sinks.writing import WrittenFile, write_parquet
from rekindle.sources.split_source import SplitSource
from rekindle.spark.inputs.watermark_rows import quoted
from rekindle.storage import read_layout
from rekindle.storage.documents.sources import SplitRead, StagedFile
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.port import Store


class _InvalidError(Exception):
    """Raised for what a source returned and cannot be used; it would return the same again."""


def write_as_declared(frame: DataFrame, columns: T.StructType, store: Store, folder: str) -> list[WrittenFile]:
    """Write rows into a folder, their columns in the order of the source's schema.

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
    return write_parquet(frame.select(*[frame[quoted(name)] for name in columns.fieldNames()]), store, folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """A custom source of one subtask, and where what is read of it goes."""

    uid: str
    subtask: int
    spec: SplitSource
    spark: SparkSession
    storage: JobStorage
    #: `read_layout.reads`
    folder: str
    #: that of the driver
    run: int
    steps: Steps
    #: True if that run reads what is available now
    available_now: bool = False
    splits: CustomSplits
    feed: SplitFeed
    #: columns of the source's rows
    columns: T.StructType
    #: returns seconds since any moment
    clock: Callable[[], float] = time.monotonic
    write: Callable[[DataFrame, T.StructType, Store, str], list[WrittenFile]] = write_as_declared


class SplitReader:
    """One attempt to read on from the newest read that is durable, until it ends or fails."""

    def __init__(self, of: Reads) -> None:
        self._of = of
        self._source = copy.copy(of.spec)
        #: open splits and their positions, after what it has read
        self.state = of.feed.state
        #: key of a split that had nothing → when it may be asked again, in seconds
        self._resting: dict[str, float] = {}
        #: keys of splits that had nothing when they were last asked, since the last pause
        self._had_nothing: set[str] = set()
        #: keys of those of them that will have more of what is there, as the source says
        self._has_more: set[str] = set()
        self._initialize(of.feed.own)

    def prepare(self) -> None:
        """Let the source remember where it stands, in a run that reads what is available now."""
        if self._of.available_now:
            with self._blamed("prepare_for_available_now()"):
                self._source.prepare_for_available_now(self._of.spark)

    def _initialize(self, own: Mapping[str, Sequence[Any]]) -> None:
        kept = {name: list(own.get(name, ())) for name in self._of.spec.state}
        if kept:
            self._source.initialize_state(kept)

    @property
    def rests(self) -> bool:
        """True if every open split had nothing when it was last asked, since the last pause."""
        return all(key_of(one.id) in self._had_nothing for one in self.state.open)

    @property
    def has_caught_up(self) -> bool:
        """True if no open split has more of what is there, as far as each was asked."""
        return not self._has_more

    def _is_resting(self, split: Split) -> bool:
        return self._of.clock() < self._resting.get(key_of(split.id), 0.0)

    def wake(self) -> None:
        """Let all open splits be asked again."""
        self._resting.clear()
        self._had_nothing.clear()

    def next(self) -> tuple[int, SplitRead] | None:
        """Read the split whose turn it is; return the read and its number, or None where that gave no rows."""
        of = self._of
        self.discover()
        of.storage.fence.check(of.run)
        # A driver that was taken for dead may have read on; what it has written down stands.
        number, state = of.feed.frontier()
        self.state = state or self.state
        known = of.feed.document(number)
        if known is not None:
            self.state = known.state
            self._initialize(known.own)
            return number, known
        self.state = self.state.with_given(of.splits.given_to(of.subtask))
        if of.feed.is_over(self.state):
            return self._written(number, SplitRead(split=None, state=self.state, files=(), rows=0, run=of.run))
        # One whose time is up is asked while others have rows all the time, too: its own would come late.
        split = next((one for one in self.state.open if not self._is_resting(one)), None)
        return None if split is None else self._read(split, number)

    def discover(self) -> None:
        """Ask for splits that are new, where it is time for that."""
        self._of.splits.discover(self._discovered, self._begin_at, self._of.clock(), self._of.spec.poll_ms / 1000)

    def _discovered(self) -> list[Any]:
        with self._blamed("splits()"):
            return [_as_json(one) for one in self._source.splits()]

    def _begin_at(self, split: Any) -> Any:
        with self._blamed(f"begin_at() of split {key_of(split)}"):
            return _as_json(self._source.begin_at(self._of.spark, split))

    def _read(self, split: Split, number: int) -> tuple[int, SplitRead] | None:
        of = self._of
        folder = read_layout.staged_rows(of.folder, number, f"{of.run:06d}-{secrets.token_hex(4)}")
        with self._blamed(f"read() of split {key_of(split.id)}"), self._taken_back(folder):
            frame, position, ended = _parted(self._source.read(of.spark, split.id, split.position))
            files, rows = self._staged(frame, folder)
            kept = dict(_as_json(dict(self._source.snapshot_state()))) if of.spec.state and rows else {}
        self._has_more.discard(key_of(split.id))
        after = self.state.after_read(split, position, ended=ended)
        if not rows:
            self.state = after
            self._resting[key_of(split.id)] = of.clock() + of.spec.poll_ms / 1000
            self._had_nothing.add(key_of(split.id))
            if of.available_now and not ended:
                self._ask_for_more(split.id, position)
            return None
        self._had_nothing.discard(key_of(split.id))
        return self._written(number, SplitRead(split=split, state=after, files=files, rows=rows, run=of.run, own=kept))

    def _ask_for_more(self, split: Any, position: Any) -> None:
        with self._blamed(f"has_caught_up() of split {key_of(split)}"):
            if not self._source.has_caught_up(split, position):
                self._has_more.add(key_of(split))

    def _written(self, number: int, made: SplitRead) -> tuple[int, SplitRead]:
        """Let a read be durable; return its number and the one that is, which may be another driver's."""
        self._of.storage.fence.check(self._of.run)
        read = self._of.storage.adopt(read_layout.split_read(self._of.folder, number), made)
        self.state = read.state
        return number, read

    @contextmanager
    def _taken_back(self, folder: str) -> Iterator[None]:
        """Delete the rows of a read that fails before its document: it is tried again, and stages them again."""
        try:
            yield
        except BaseException:
            with suppress(StorageError):
                self._of.storage.store.delete_tree(folder)
            raise

    def _staged(self, frame: DataFrame | None, folder: str) -> tuple[tuple[StagedFile, ...], int]:
        """Write the rows into a folder of their own; return the files that have some, and how many they are.

        A folder without rows is deleted at once: no document names it, and a source that is polled has many of them
        before the next read has rows.
        """
        if frame is None:
            return (), 0
        of = self._of
        with step(of.steps, "segments.write"):
            written = of.write(frame, of.columns, of.storage.store, folder)
        if not written:
            of.storage.store.delete_tree(folder)
        below = folder.removeprefix(f"{of.folder}/")
        files = tuple(StagedFile(path=f"{below}/{file.path}", size=file.bytes) for file in written)
        return files, sum(file.rows for file in written)

    @contextmanager
    def _blamed(self, what: str) -> Iterator[None]:
        """Let an error raised inside say of which source it is, and whether trying again may help."""
        try:
            yield
        except RekindleError:
            raise
        except _InvalidError as error:
            raise InputError("SPLIT_READ_INVALID", source=self._of.uid, what=what, reason=error) from error
        except Exception as error:
            raise InputError("SPLIT_READ_FAILED", source=self._of.uid, what=what, reason=brief(error)) from error


def _parted(returned: Any) -> tuple[DataFrame | None, Any, bool]:
    if not isinstance(returned, tuple) or len(returned) != 3:
        raise _InvalidError(f"{type(returned).__name__}, not a tuple of three")
    frame, position, ended = returned
    if not isinstance(ended, bool):
        raise _InvalidError(f"ended is {type(ended).__name__}, not True or False")
    return frame, _as_json(position), ended


def _as_json(value: Any) -> Any:
    """Return a value as it comes back from the storage.

    Raises:
        _InvalidError: it is no JSON, or a text in it is no Unicode (the name of a file may be such).
    """
    try:
        return json.loads(json.dumps(value, allow_nan=False, ensure_ascii=False).encode())
    except (TypeError, ValueError) as error:
        raise _InvalidError(f"a value that is no JSON: {error}") from error
