"""Reading a custom source: a thread of one subtask that reads a split, stages the rows, and waits for room.

One read is staged ahead while a batch works on the one before. Which read comes next follows from what is written
down (`channels.split_feed`), so nothing is lost with the thread, and two threads that read the same end in one read:
one that still hangs in the user's function when it is not wanted any more may come back at any time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rekindle.spark.inputs.split_reader import Reads, SplitReader
from rekindle.storage.documents.sources import SplitRead

_LOG = logging.getLogger(__name__)


@dataclass(eq=False)
class SplitReading:
    """The reads of one custom source by one subtask."""

    of: Reads
    #: set before it is opened: called with the number of a read, and what it has staged. Of two threads that read the
    #: same, both may call it
    moved: Callable[[int, SplitRead], None] = lambda *_: None
    #: set before it is opened: called with the error of a read that failed
    failed: Callable[[BaseException], None] = lambda _: None
    #: set before it is opened: called when none of the open splits has anything of what
    #: is there
    rested: Callable[[], None] = lambda: None
    _news: threading.Condition = field(init=False)
    #: held while the source is asked: one that is asked for another attempt waits
    _one: threading.Lock = field(init=False)
    #: the attempt in force; None: none is
    _current: object | None = field(init=False, default=None)
    #: True while that attempt begins further reads; and while one is under way
    _goes_on: bool = field(init=False, default=False)
    _reads: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        # Looked up here, not as a field's factory: the simulator puts its own in their place.
        self._news = threading.Condition()
        self._one = threading.Lock()

    def open(self) -> None:
        """Begin to read, from the newest read that is durable."""
        with self._news:
            self._current = attempt = object()
            self._goes_on, self._reads = not self.of.feed.exhausted, False
        if self.of.feed.exhausted:
            return
        threading.Thread(
            target=self._run, args=(attempt,), name=f"read-{self.of.uid}/{self.of.subtask}", daemon=True
        ).start()

    def close(self, *, abandon: bool) -> None:
        """Begin no further read.

        Args:
            abandon: make no use of the one under way; else what that gives is staged.
        """
        with self._news:
            self._goes_on = False
            if abandon:
                self._current, self._reads = None, False
            self._news.notify_all()

    def wait(self, at_most_s: float | None = None) -> None:
        """Wait until the read that is under way is staged, has failed, or is abandoned.

        Args:
            at_most_s: abandon it then; the next run reads the same again.
        """
        with self._news:
            if self._news.wait_for(lambda: not self._reads, at_most_s):
                return
        _LOG.warning("Source %s: a read has lasted for %g s of the stop, and is given up.", self.of.uid, at_most_s)
        self.close(abandon=True)

    def consumed(self) -> None:
        """Wake the thread: a batch record covers more, so there may be room."""
        with self._news:
            self._news.notify_all()

    # -- the thread -----------------------------------------------------------------------------------------------

    def _run(self, attempt: object) -> None:
        try:
            with self._one:
                reader = SplitReader(self.of)
                reader.prepare()
            while self._begin(attempt) and not self._read_once(attempt, reader):
                if reader.rests and not self.of.feed.is_over(reader.state):
                    if reader.has_caught_up:
                        self.rested()
                    self._rest()
                    reader.wake()
        except BaseException as error:
            if self._end(attempt):
                self.failed(error)

    def _begin(self, attempt: object) -> bool:
        """Wait for room; False where nothing more is to be read."""
        with self._news:
            while self._goes_on and self._current is attempt and not self.of.feed.has_room:
                self._news.wait(1.0)
            if not self._goes_on or self._current is not attempt:
                return False
            self._reads = True
            return True

    def _read_once(self, attempt: object, reader: SplitReader) -> bool:
        """Return True if nothing more comes."""
        with self._one:
            if self._current is not attempt:
                return True
            staged = reader.next()
        with self._news:
            if self._current is not attempt:
                return True  # what is durable the attempt in force finds
        if staged is not None:
            self.moved(*staged)
        self._end(attempt)
        return self.of.feed.exhausted

    def _end(self, attempt: object) -> bool:
        """End a read; return True if it was of the attempt in force."""
        with self._news:
            if self._current is not attempt:
                return False
            self._reads = False
            self._news.notify_all()
            return True

    def _rest(self) -> None:
        until_s = time.monotonic() + self.of.spec.poll_ms / 1000
        with self._news:
            while self._goes_on and (left_s := until_s - time.monotonic()) > 0:
                self._news.wait(left_s)
