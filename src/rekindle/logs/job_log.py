"""The log of a job that runs in this process: hears the loggers ``rekindle.*`` and keeps what they say in the storage.

To log is to leave a line in a queue of bounded size. A thread of its own writes it into the storage, now and then, and
nothing waits for that but, for a moment, the end of the job. What goes wrong there fails and slows nothing.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import msgspec

from rekindle.config import Config
from rekindle.errors import one_line
from rekindle.logs import pieces
from rekindle.logs.lines import LineMaker, LogLine
from rekindle.logs.spark_lines import SparkLines, SparkLog
from rekindle.redaction import Redaction, hide, secret_values
from rekindle.storage.documents.runs import Run
from rekindle.storage.run_documents import RunDocuments

LOGGER = "rekindle"
_LONGEST_PAUSE_S = 300.0

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimits:
    """The bounds of a job's log, in time and in size."""

    #: between two writes, on a store of pace 1
    pause_s: float = 2.0
    #: time that the end of a job waits for its last lines
    leave_s: float = 3.0
    #: bytes that may wait to be written; of more the oldest lines are dropped, and counted
    waiting_bytes: int = 1 << 20
    piece_bytes: int = 256 << 10
    #: number of pieces that are kept: so a job keeps at most 10 MiB
    pieces: int = 40


USUAL = LogLimits()


class JobLog(logging.Handler):
    """The log of one job.

    Records that name a job, as those about its tasks do, are in the log of that one; all others in the log of each job
    that runs in this process.

    Args:
        spark: where Spark logs.
    """

    def __init__(
        self,
        storage: RunDocuments,
        level: int,
        redact: Callable[[str], str],
        spark: Callable[[], SparkLog | None] = lambda: None,
        limits: LogLimits = USUAL,
    ) -> None:
        super().__init__(level)
        self._storage = storage
        self._maker = LineMaker(redact)
        #: the number of the run in force; None while there is none
        self._run: Callable[[], int | None] = lambda: None
        self._spark = SparkLines(spark, LineMaker(redact))
        self._limits = limits
        self._pause_s = limits.pause_s * storage.store.pace
        #: each with the run in force when it was logged
        self._waiting: deque[tuple[int | None, bytes]] = deque()
        self._waiting_bytes = 0
        self._dropped = 0
        self._queue = threading.Lock()
        self._look = threading.Event()
        self._over = False
        #: the piece that is being filled
        self._piece = pieces.Piece(0, 0)
        self._lines: list[bytes] = []
        #: it has lines that the storage has not
        self._changed = False
        #: the run whose piece it is, as it was claimed
        self._claimed: Run | None = None
        #: the job is being started: an error is raised to those who start it, and they show it
        self.starting = True
        self._thread = threading.Thread(target=self._work, name=f"log-{storage.job}", daemon=True)

    # -- hearing ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Hear from now on."""
        logging.getLogger(LOGGER).addHandler(self)
        self._thread.start()

    def begin(self, run: Callable[[], int]) -> None:
        """Write from now on, for the run in force: its number is known."""
        self._run = run
        self._look.set()

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record. It never raises and never waits for a storage."""
        if record.thread == self._thread.ident or getattr(record, "job", self._storage.job) != self._storage.job:
            return
        with suppress(Exception):
            line = self._maker.of_record(record)
            self._add(line)
            is_shown = getattr(record, "is_shown", False)
            if not is_shown and (hasattr(record, "job") or self is _first()):
                _say_where_no_one_listens(record, line.message)

    def close(self) -> None:
        """Hear no more; write what waits, if that can be done in a moment."""
        logging.getLogger(LOGGER).removeHandler(self)
        self._over = True
        self._look.set()
        if self._thread.is_alive():
            self._thread.join(self._limits.leave_s)
        super().close()

    def _add(self, line: LogLine) -> None:
        data = _encoded(line)
        with self._queue:
            self._waiting.append((self._run(), data))
            self._waiting_bytes += len(data)
            while self._waiting_bytes > self._limits.waiting_bytes:
                self._waiting_bytes -= len(self._waiting.popleft()[1])
                self._dropped += 1

    # -- writing ------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        pause_s = self._pause_s
        while not self._over:
            self._look.wait(pause_s)
            self._look.clear()
            # A storage that is full or away is asked less and less often.
            pause_s = self._pause_s if self._round() else min(2 * pause_s, max(_LONGEST_PAUSE_S, self._pause_s))
        self._round(last=True)
        self._spark.close()

    def _round(self, last: bool = False) -> bool:
        """Write what has come; return True unless the storage has refused it."""
        try:
            for line in self._spark.new(all_of_it=last):
                if getattr(logging, line.level, logging.INFO) >= self.level:
                    self._add(line)
            self._write()
        except Exception:
            return False
        return True

    def _write(self) -> None:
        number = self._run()
        if number is None or not (self._waiting or self._dropped or self._changed):
            return
        while True:
            run = (self._waiting[0][0] if self._waiting else None) or number
            if self._claimed is None or (self._piece.run != run and not self._changed):
                self._claimed = self._storage.run(run)
                self._piece, self._lines = pieces.Piece(run, 1), []
                pieces.make_room(self._storage, self._limits.pieces)
            if self._claimed is None or self._storage.fence.is_deleted(self._claimed):
                return  # what is written now would be found by no one, or in another job
            self._fill()
            if self._changed:
                pieces.write(self._storage, self._piece, self._lines)
                self._changed = False
            if not self._waiting:
                return
            if self._waiting[0][0] in (None, self._piece.run):
                self._piece, self._lines = pieces.Piece(self._piece.run, self._piece.number + 1), []
                pieces.make_room(self._storage, self._limits.pieces)

    def _fill(self) -> None:
        """Take into the piece what waits and fits."""
        size = sum(map(len, self._lines))
        with self._queue:
            if self._dropped:
                now_ms = time.time_ns() // 1_000_000
                text = f"{self._dropped} lines were dropped: the storage did not take them in time"
                data = _encoded(self._maker.line(now_ms, "WARNING", __name__, text))
                self._waiting.appendleft((self._piece.run, data))
                self._waiting_bytes += len(data)
                self._dropped = 0
            while self._waiting and self._waiting[0][0] in (None, self._piece.run):
                data = self._waiting[0][1]
                if self._lines and size + len(data) > self._limits.piece_bytes:
                    break
                self._waiting.popleft()
                size += len(data)
                self._waiting_bytes -= len(data)
                self._lines.append(data)
                self._changed = True


def _encoded(line: LogLine) -> bytes:
    return msgspec.json.encode(line) + b"\n"


def _first() -> JobLog:
    """Return one of the logs that hear the same."""
    return next(one for one in logging.getLogger(LOGGER).handlers if isinstance(one, JobLog))


def _say_where_no_one_listens(record: logging.LogRecord, message: str) -> None:
    """Print a warning as `logging` does where no handler is there: ours is none that anyone sees."""
    heard_by: list[logging.Handler] = [*logging.getLogger(LOGGER).handlers, *logging.getLogger().handlers]
    if all(isinstance(one, JobLog) for one in heard_by) and logging.lastResort is not None:
        said = logging.LogRecord(record.name, record.levelno, record.pathname, record.lineno, message, (), None)
        if said.levelno >= logging.lastResort.level:
            logging.lastResort.handle(said)


def redaction(spark_config: Mapping[str, str]) -> Redaction:
    """Return what hides the secrets of this process and of its settings of Spark; errors hide them from now on."""
    values = secret_values(os.environ) | secret_values(spark_config)
    hide.learn(values)
    return Redaction(values)


@contextmanager
def job_log(
    storage: RunDocuments, config: Config, spark_config: Mapping[str, str], spark: Callable[[], SparkLog | None]
) -> Iterator[JobLog]:
    """Keep the log of a job inside; where an error ends its driver, that is the last line."""
    log = JobLog(storage, getattr(logging, config.log_level.upper()), redaction(spark_config), spark)
    log.start()
    try:
        yield log
    except KeyboardInterrupt:
        _LOG.info("The start was interrupted.", extra={"job": storage.job})
        raise
    except BaseException as error:
        about = {"job": storage.job, "is_shown": log.starting}
        _LOG.error("The driver has ended: %s", one_line(error), exc_info=error, extra=about)
        raise
    finally:
        log.close()
