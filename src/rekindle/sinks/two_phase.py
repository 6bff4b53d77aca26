"""The contract of a two-phase-commit sink, and what a batch hands to it.

A sink *prepares* each batch: it writes its rows where no reader sees them, and returns *committables*, JSON that
says what to do to make them seen. They are kept in the batch record (the pre-commit). When a checkpoint that covers
the batch is complete, `commit` gets them back, with the permit that only the protocol hands out. A crash may fall
anywhere:

- between the rows and the batch record: the attempt is an orphan, `clean` removes it, the batch is prepared again;
- between the batch record and the manifest: the committables are kept and committed by a later checkpoint;
- between the manifest and the end of `commit`: `commit` is called again, so it is idempotent.

FLIP-147 puts `finish` before the last checkpoint. It must not write rows: nothing would commit them. It may raise.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar

from rekindle.errors import SinkError
from rekindle.protocol.commit import CommitPermit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from rekindle.sinks.owners import Claim
    from rekindle.storage.port import Store

Committable = dict[str, Any]
"""JSON: strings, numbers, booleans, null, lists and dicts of them. No secrets: it is stored."""

Commits = Mapping[int, Sequence[Committable]]
"""Checkpoint → what `commit` was given for it."""


_NAME = re.compile(r"(\d+)-(.+)-(\d+)-(\d+)-(\d+)-([^-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkBatch:
    """The attempt at a batch that is prepared. Together, the fields name one attempt and no other."""

    #: name and id of the job, as `open` is given it: a job of the same name in another storage is another
    job: str
    sink: str
    task: str
    subtask: int
    lineage: int
    batch: int
    #: number of the driver's run
    run: int
    #: random, different for each try at the same batch
    attempt: str

    @property
    def name(self) -> str:
        """A name for what this attempt stages, which no other attempt at the job's sink has."""
        place = f"{self.task}-{self.subtask}-{self.lineage:06d}-{self.batch:09d}"
        return f"{self.run:06d}-{place}-{self.attempt}"

    @property
    def key(self) -> str:
        """A name for the batch, the same in each attempt at it, that no other batch of any job has."""
        return f"{self.job}/{self.sink}/{self.task}-{self.subtask}-{self.lineage:06d}-{self.batch:09d}"

    @classmethod
    def named(cls, name: str, *, job: str, sink: str) -> SinkBatch | None:
        """Return the attempt with this `name`; None where it is no attempt's name."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        run, task, subtask, lineage, batch, attempt = match.groups()
        return cls(
            job=job,
            sink=sink,
            task=task,
            subtask=int(subtask),
            lineage=int(lineage),
            batch=int(batch),
            run=int(run),
            attempt=attempt,
        )


_Commit = Callable[["TwoPhaseSink", Sequence[Committable], CommitPermit], None]


def _with_permit(commit: _Commit) -> _Commit:
    @wraps(commit)
    def checked(sink: TwoPhaseSink, committables: Sequence[Committable], permit: CommitPermit) -> None:
        if not isinstance(permit, CommitPermit):
            raise SinkError("PERMIT_REQUIRED", sink=sink.kind)
        commit(sink, committables, permit)

    return checked


class TwoPhaseSink(ABC):
    """Base class of sinks. One instance serves one ``job.sink``, all the subtasks of its task.

    Each subtask prepares its batches on a thread of its own, so `prepare` and `abort` may be called for several batches
    at a time, and while `commit` or `clean` runs. All other calls come one at a time.
    """

    #: name of this kind of sink, for people
    kind: ClassVar[str] = "sink"
    #: Spark output modes it can take
    output_modes: tuple[str, ...] = ("append",)
    #: True: a reader of the target sees all of what one `commit` is given, or nothing of it
    atomic_commit: bool = False

    def __init_subclass__(cls, **options: Any) -> None:
        """Let `commit` of every sink refuse to run without a permit."""
        super().__init_subclass__(**options)
        if "commit" in vars(cls):
            cls.commit = _with_permit(cls.commit)  # type: ignore[assignment, method-assign]

    @property
    def addresses(self) -> tuple[str, ...]:
        """The places that Spark itself writes to, as their user names them; Spark is first checked to reach them."""
        return ()

    @property
    def dataset(self) -> tuple[str, str] | None:
        """The namespace and the name of the target, as OpenLineage names things; None: its address names it."""
        return None

    @property
    def cannot_examine(self) -> str | None:
        """The reason why only a start finds out about the target, for a person; None: `examine` does too."""
        if type(self).examine is TwoPhaseSink.examine:
            return "such a sink is looked at by the start alone"
        return None

    def examine(self, claim: Claim, columns: StructType | None) -> int | None:
        """Raise what a start would end with, or its first batch; return what `newest_committed` would.

        It reads, and changes nothing: the job may be at work. Called on a copy of the sink, which is used for nothing
        else. What only a write shows, such as some rights, is left to the start.

        Args:
            claim: the wish with which the job would take the target; it has the names that `open` is given.
            columns: of the rows; None: they are not known.

        Raises:
            SinkError: ``SINK_TARGET_INVALID``, ``TARGET_TAKEN``, ``SINK_SCHEMA_MISMATCH``, ``ROWS_UNWRITABLE``.
        """
        raise NotImplementedError

    def stage_in(self, store: Store, folder: str) -> None:
        """Receive a folder in the job's storage, this sink's own, for what cannot be staged in the target.

        Called before `open`. Nothing else writes or cleans there.
        """

    def open(self, job: str, sink: str) -> None:
        """Check that the target can be written, before anything runs.

        Raises:
            SinkError: ``SINK_TARGET_INVALID``.
        """

    def claim(self, claim: Claim) -> None:
        """Let the job take the target (`Claim.make`), where it has a place to note the jobs that write to it.

        Called after `open`, before anything is prepared.

        Raises:
            SinkError: ``TARGET_TAKEN``.
        """

    def newest_committed(self) -> int | None:
        """Return the newest checkpoint that the target says it has of this job and sink; None: it says of none.

        Called after `open`. For sinks whose `commit` goes by the number: in an older copy of the job's storage a number
        comes again, with other rows, and `commit` would take these for committed.
        """
        return None

    @abstractmethod
    def prepare(self, df: DataFrame, batch: SinkBatch) -> Sequence[Committable]:
        """Write the rows of `df` durably and invisibly, in one evaluation of it; return what `commit` needs.

        Called once for each attempt at a batch. A committable may carry ``rows`` and ``bytes``, which are shown.
        """

    @abstractmethod
    def commit(self, committables: Sequence[Committable], permit: CommitPermit) -> None:
        """Make prepared rows visible. Idempotent: it may be called again for what is committed already.

        What is no permit is refused before this is called (``PERMIT_REQUIRED``).

        A call for a checkpoint names all that this sink commits with it, the same each time, from any driver however
        late. Checkpoints come in ascending order, except repeated ones, and each names what no other does.
        """

    @abstractmethod
    def abort(self, committables: Sequence[Committable]) -> None:
        """Remove prepared rows that will never be committed. Idempotent."""

    @property
    def cannot_rewind(self) -> str | None:
        """The reason why what is committed cannot be taken back, for a person; None: `rewind` takes it back."""
        if type(self).rewind is TwoPhaseSink.rewind:
            return "what such a sink has written cannot be taken back"
        return None

    def rewind(self, to: int, commits: Commits) -> None:
        """Take back what these checkpoints have made visible, or were about to. Idempotent, after a crash too.

        Where `commit` is atomic, so is this. A commit of one of them that comes later, from a driver that was taken for
        dead, changes nothing any more.

        Args:
            to: the checkpoint that the sink goes back to.
            commits: checkpoint → what `commit` was given, or would have been, for each after that one.

        Raises:
            SinkError: ``SINK_REWIND_FAILED``: nothing was taken back.
        """
        raise NotImplementedError

    @property
    def cannot_read_back(self) -> str | None:
        """The reason why what is committed cannot be read back, for a person; None: `read_back` reads it."""
        if type(self).read_back is TwoPhaseSink.read_back:
            return "what such a sink has written cannot be read back"
        return None

    def read_back(self, spark: SparkSession, commits: Commits, *, job: str, sink: str) -> DataFrame:
        """Return the rows that these checkpoints have committed, and no others, as they were prepared.

        Called without `open`, for rows that another driver has committed: it reads, and changes nothing. There is at
        least one committable. Where a type was lost on the way, a column of texts says so in its metadata
        (`rekindle.sinks.reading.AS_TEXT`).

        Args:
            commits: checkpoint → what `commit` was given.
            job: what `open` of that driver was given, and `sink` too.
        """
        raise NotImplementedError

    def as_read_back(self, rows: DataFrame) -> DataFrame:
        """Return rows that were not committed as `read_back` returns those that were.

        To be overridden where a target holds less of a row than it is given, or as something else.
        """
        return rows

    def clean(self, named: Sequence[Committable], may_remove: Callable[[SinkBatch], bool]) -> None:
        """Remove what attempts have left that no batch record names (`named` holds all that do as a run begins).

        Ask `may_remove` before each removal. It says no where a driver that was thought dead may still record the
        attempt, and where a newer driver has taken over. Called once more after a checkpoint, if an earlier run has
        left something: then `named` is empty, and `may_remove` alone decides.
        """

    def finish(self) -> None:
        """Take note that no row comes any more, from any subtask (FLIP-147, ``finish()``). An exception fails the task.

        Called by the last subtask; once more where the run fails after it.

        Do not remember having finished: after a restore more rows may come.
        """

    def close(self) -> None:
        """Release resources, at the end of each attempt of the task; writes nothing.

        An attempt ends with the job, with a stop or a cancel, or with a failure; then the next one follows. `open` is
        called once, before all of them: what comes after `close` (another batch, a commit) takes up again what it
        needs. Never called while `commit` is under way. One that raises is logged and fails nothing, since nothing
        that was prepared or committed depends on it; one that takes longer than half a minute, or than 5 seconds where
        a run ends by a cancel or a failure, is not waited for any longer.
        """
