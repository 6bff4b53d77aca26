"""The JSON documents of a job's storage, as frozen dataclasses. `docs/storage.md` describes them for people.

Every document carries ``format``; a newer one is refused (``FORMAT_NEWER``), a damaged one is ``OBJECT_CORRUPT``. They
hold no secrets and, in a savepoint, no absolute path of this job. Times are milliseconds since the epoch, UTC.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rekindle.ids import SubtaskId
from rekindle.protocol.enumerator import Runs
from rekindle.storage.layout import FORMAT_VERSION

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """``job.json``: which job lives in this folder."""

    job: str
    created_ms: int
    #: random; tells this job from one of the same name in another storage, whose sinks may share a target
    id: str = ""
    format: int = FORMAT_VERSION

    @property
    def owner(self) -> str:
        """What sinks know the job by: no other job has it, whatever its name."""
        return f"{self.job}-{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """``runs/<run>.json``: a driver started. The next number fences it."""

    run: int
    started_ms: int
    host: str
    pid: int
    #: lineage it continues, or opens
    lineage: int
    #: checkpoint or savepoint folder it was told to start from, absolute; None: resume or first start
    restore_from: str | None = None
    #: whether it goes on from before the flush of a drained job
    undo_drain: bool = False
    #: tells two processes apart that race for one run number
    token: str = ""
    #: tells the process from a later one with the same pid, see `storage.liveness`
    process_started: str = ""
    #: streaming | batch
    mode: str = "streaming"
    #: first of the runs of this process whose unanswered requests it hears; None: it has no predecessor there
    since: int | None = None
    format: int = FORMAT_VERSION

    def answers(self, run: int) -> bool:
        """Whether a request to that run is for this one."""
        return (self.since or self.run) <= run <= self.run


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """``runs/<run>.result.json``: how a run ended."""

    run: int
    state: str
    ended_ms: int
    #: last completed checkpoint's id
    checkpoint: int | None = None
    #: savepoint made by the stop, absolute
    savepoint: str | None = None
    #: what a drain left unread or unflushed, in words
    notes: tuple[str, ...] = ()
    error: Json | None = None
    #: False: what the run found under its claim forbade it, or left it nothing to do; the one before it counts
    began: bool = True
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """``lineages/<n>.json``: from here on the tasks' folders of this lineage are whole and in force."""

    lineage: int
    run: int
    created_ms: int
    #: checkpoint or savepoint folder it was restored from, absolute; None for a first start
    restored_from: str | None = None
    #: id of that checkpoint, where it belongs to this very job
    restored_checkpoint: int | None = None
    #: task uid → uids of its inputs, in order: what a resume checks the job against
    graph: dict[str, list[str]] = field(default_factory=dict)
    #: task uid → its operators: sources, the task itself, sinks; empty where an older version wrote it
    chains: dict[str, list[str]] = field(default_factory=dict)
    #: task uid → how many subtasks it has, where that is not 1
    parallelism: dict[str, int] = field(default_factory=dict)
    #: task uid → bounded source → the part of its frozen list to read in this lineage; all of it where not named
    unread: dict[str, dict[str, Runs]] = field(default_factory=dict)
    #: streaming | batch: every run of the lineage has the same
    mode: str = "streaming"
    format: int = FORMAT_VERSION

    def subtasks(self) -> list[SubtaskId]:
        """Every subtask of it, task by task."""
        return [SubtaskId(uid, index) for uid in self.graph for index in range(self.parallelism.get(uid, 1))]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenFile:
    """A file of a bounded source."""

    #: absolute URI, percent-encoded, as Spark's logs hold it
    path: str
    size: int
    #: least event time in it, ms, where the list is in the order of that; None: no row has one
    first_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenFiles:
    """``files.json``: what a bounded source consists of, fixed when the job first starts."""

    source: str
    files: tuple[FrozenFile, ...]
    #: columns read from the files (Spark's JSON schema), partition columns of a Hive layout included
    schema: Json
    #: names of columns that come from ``key=value`` folders
    partition_columns: tuple[str, ...] = ()
    #: folder below which key=value parts are looked for, absolute URI
    base: str = ""
    #: the files are in the order of their least event times
    by_time: bool = False
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitAssignment:
    """``splits/…/<k>.json``: the next run of a source's splits has a reader; see `rekindle.protocol.enumerator`."""

    subtask: int
    #: how many of the splits are handed out behind it
    until: int
    run: int
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelPosition:
    """How far a subtask has read what one producer puts into a channel."""

    #: how many of its batches were read whole
    batches: int = 0
    #: how many segments of the batch after those were read
    segment: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPosition:
    """How far a subtask has read one input, after a batch."""

    #: last admission to the data inbox that a batch has consumed, -1 for none
    admission: int = -1
    #: files consumed in this lineage, of those that the subtask was given
    files: int = 0
    #: bytes of them
    bytes: int = 0
    #: last admission to the marker inbox consumed, -1 for none
    mark: int = -1
    #: Spark's own end offset, for inputs that Spark tracks
    offset: Any = None
    #: of a channel: the producer's subtask → how far that was read
    channels: dict[int, ChannelPosition] = field(default_factory=dict)
    #: which of the offsets in Spark's ``offsets/<N>`` are of its data and of its watermark rows; () where an older
    #: version wrote it, or where Spark has no such file
    sources: tuple[int, ...] = ()
    mark_sources: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A Parquet file that a batch puts into the channels of its task."""

    #: below the folder of the subtask that wrote it
    path: str
    size: int
    rows: int
    #: tasks that had still to read it when it was carried over from another lineage; empty: all that read the channel
    readers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSchema:
    """``schema.json``: the columns of what a task puts into its channels, as those that read it were planned."""

    #: Spark's JSON schema
    columns: Json
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """The windows of a query, as its state goes by them."""

    #: version of Spark that described them, e.g. "4.3"
    spark: str
    #: for each aggregate with windows the numbers of their definition: microseconds, or what sessions say
    aggregates: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """``batches/<N>.json``: the outputs of batch N are prepared and never change again (the pre-commit)."""

    batch: int
    #: SHA-256 of Spark's offsets/<N>; empty in a batch run, and where a restored task had finished
    offsets_hash: str
    #: run that wrote it
    run: int
    #: Spark's offsets/<N> itself, so that it can be put back; empty where a restore wrote the record, or in a batch run
    offsets: str = ""
    inputs: dict[str, InputPosition] = field(default_factory=dict)
    #: sink uid → what commit() will be given, as prepare() returned it
    committables: dict[str, list[Json]] = field(default_factory=dict)
    #: what it puts into the channels of its task, in order
    segments: tuple[Segment, ...] = ()
    #: rows out, where a sink knows them
    rows_out: int | None = None
    #: the query's watermark this batch ran with, ms
    watermark_ms: int | None = None
    #: this batch was planted to flush the state
    flush: bool = False
    #: None where an older version wrote it, or in a batch run
    windows: Windows | None = None
    #: milliseconds spent in rekindle's own part and in writing the outputs
    timings_ms: dict[str, int] = field(default_factory=dict)
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """``end.json``: the subtask has flushed and called finish(); nothing comes after `batch` (EndOfData)."""

    batch: int
    run: int
    #: ended by a drain rather than by the end of its inputs
    drained: bool
    #: watermark before the flush, put back when a drained job is resumed
    watermark_before_flush_ms: int | None = None
    #: last batch before the flush
    batch_before_flush: int = -1
    #: None where an older version wrote it
    ended_ms: int | None = None
    notes: tuple[str, ...] = ()
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """``drain.json``: a drain has begun here and is carried through, after a crash too (its flush cannot be undone)."""

    run: int
    begun_ms: int
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskSnapshot:
    """A subtask's share of a checkpoint."""

    #: last batch that belongs to the checkpoint, -1 for none
    batch: int
    inputs: dict[str, InputPosition] = field(default_factory=dict)
    watermark_ms: int | None = None
    #: set once the subtask has finished its operator logic
    end: End | None = None
    #: producing task → its subtask → batches [from, to) of that which lie in the channel between what was read and the
    #: barrier (FLIP-76)
    in_flight: dict[str, dict[int, tuple[int, int]]] = field(default_factory=dict)
    #: None where an older version wrote it, or in a batch run
    windows: Windows | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """What one batch prepared for one sink."""

    task: str
    subtask: int
    batch: int
    committables: list[Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """``manifest.json``: the commit point of a checkpoint, or a savepoint's table of contents."""

    checkpoint: int
    job: str
    #: periodic | manual | final | stop | savepoint
    kind: str
    run: int
    lineage: int
    triggered_ms: int
    completed_ms: int
    #: task uid → its uids of inputs, in order: what a restore checks the job against
    graph: dict[str, list[str]]
    #: task uid → subtask index → snapshot
    tasks: dict[str, dict[int, SubtaskSnapshot]]
    #: task uid → bounded source → what no subtask had read of its frozen list: the enumerators' state
    unread: dict[str, dict[str, Runs]] = field(default_factory=dict)
    #: task uids all of whose subtasks have finished (FLIP-147: "fully finished", not started on restore)
    finished_tasks: tuple[str, ...] = ()
    #: task uid → its operators: sources, the task itself, sinks; empty where an older version wrote it
    chains: dict[str, list[str]] = field(default_factory=dict)
    #: sink uid → transactions to commit now that this manifest exists; empty in a savepoint
    transactions: dict[str, list[Transaction]] = field(default_factory=dict)
    in_flight_bytes: int = 0
    #: bytes of a savepoint's files; 0 for a checkpoint, which only names what lies in place
    size_bytes: int = 0
    #: whether it is a self-contained copy
    savepoint: bool = False
    #: the job was drained: windows were emitted before their time
    drained: bool = False
    #: id of the job (`Identity.id`) that took it: checkpoint numbers of different jobs cannot be compared
    job_id: str = ""
    #: sink uid → the newest checkpoint of that job, up to this one, that gave the sink something to commit
    last_commits: dict[str, int] = field(default_factory=dict)
    #: of the run that took it: streaming | batch
    mode: str = "streaming"
    format: int = FORMAT_VERSION

    def needs_no_state(self, task: str) -> bool:
        """Whether nothing starts a task again: all of it has finished, and no drain ended it, which can be undone."""
        subtasks = self.tasks[task].values()
        return all(one.end is not None and not one.end.drained for one in subtasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Void:
    """``manifest.json`` of a number that no checkpoint has: whoever was about to use it comes too late."""

    checkpoint: int
    #: that used it up
    run: int
    void: bool = True
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """``committed.json``: all transactions of a checkpoint are committed, so recovery need not repeat that."""

    checkpoint: int
    run: int
    committed_ms: int
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """``<id>.request.json``: what a verb asks of a running driver."""

    id: str
    #: run it is meant for; a later one refuses it (REQUEST_STALE)
    run: int
    #: checkpoint | savepoint | stop | cancel
    verb: str
    created_ms: int
    drain: bool = False
    #: directory for the savepoint, absolute; None: none asked for
    savepoint: str | None = None
    #: the savepoint, or the stop, may name in-flight data; without channels it has none, so that both are the same
    unaligned: bool = False
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``<id>.answer.json``: durable before anything reports it."""

    id: str
    job: str
    state: str
    answered_ms: int
    checkpoint: int | None = None
    savepoint: str | None = None
    notes: tuple[str, ...] = ()
    error: Json | None = None
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStats:
    """A line of ``rekindle checkpoints``; those in progress and failed live in the status only."""

    id: int
    kind: str
    status: str
    triggered_at: int
    duration_ms: int | None = None
    acknowledged: tuple[int, int] = (0, 0)
    in_flight_bytes: int = 0
    size_bytes: int = 0
    path: str | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputStatus:
    """An input as ``rekindle status`` shows it."""

    ended: bool = False
    position: Any = None
    #: share of a bounded input that has been read, 0 to 1
    share: float | None = None
    #: it has had no data for so long that it holds nothing back
    idle: bool = False
    rows_per_second: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What went wrong last, with a task or with anything of the job: an error, as `errors` has it."""

    code: str
    message: str
    next_step: str
    failed_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatusDocument:
    """A subtask as ``rekindle status`` shows it."""

    uid: str
    subtask: int
    status: str
    batch: int
    watermark: int | None = None
    inputs: dict[str, InputStatus] = field(default_factory=dict)
    rows_per_second: float | None = None
    batch_duration_ms: int | None = None
    #: the last one of this run; None: there was none, or an older version wrote it
    failure: Failure | None = None
    #: how often this run has started it again, or is about to
    restarts: int = 0
    #: when it is started again; None: it does not wait for that
    next_attempt_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """``status.json``: the heartbeat of a driver."""

    job: str
    state: str
    run: int
    host: str
    pid: int
    #: counts up with each write: a reader on another machine compares two reads, never clocks
    beat: int
    written_ms: int
    tasks: tuple[TaskStatusDocument, ...] = ()
    checkpoints_completed: int = 0
    checkpoints_failed: int = 0
    latest_checkpoint: int | None = None
    latest_checkpoint_ms: int | None = None
    #: newest first; in progress and failed ones among them
    history: tuple[CheckpointStats, ...] = ()
    #: tells the process from a later one with the same pid, see `storage.liveness`
    process_started: str = ""
    #: streaming | batch
    mode: str = "streaming"
    error: Json | None = None
    #: the last one in this process, whatever has failed; None: there was none, or an older version wrote it
    failure: Failure | None = None
    #: how often this process has started a task, all of them, or Spark again, or is about to
    restarts: int = 0
    #: when something of it is tried again, the next one; None: nothing waits for that
    next_attempt_ms: int | None = None
    format: int = FORMAT_VERSION
