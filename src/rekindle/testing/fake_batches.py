"""The batches of a fake query: planned, prepared, recorded, committed, as real ones are, and replayed like them."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable
from typing import Any, NamedTuple

from rekindle.errors import StorageError
from rekindle.ids import SubtaskId
from rekindle.protocol import events as e
from rekindle.runtime.definition import RunContext
from rekindle.runtime.steps import step
from rekindle.sinks import TwoPhaseSink
from rekindle.sinks.two_phase import SinkBatch
from rekindle.storage import layout
from rekindle.storage.documents.batch import BatchRecord, InputPosition
from rekindle.storage.port import NotFound, Store


class Plan(NamedTuple):
    """The plan of a batch: the positions in the source from and to which it reads and emits."""

    emit_from: int
    emit_until: int
    read_until: int
    flush: bool


class FakeBatches:
    """The batches of one subtask.

    Args:
        source: uid of the input, as positions name it.
        before: called before each batch; may raise, or hang.
        store: the store to write to; raises where the query was interrupted.
    """

    def __init__(
        self, run: RunContext, task: SubtaskId, source: str, *, before: Callable[[], None], store: Callable[[], Store]
    ) -> None:
        self._storage = run.storage
        self._run = run.run
        self._task = task
        self._source = source
        self._sinks = run.definition.sinks
        self._post = run.post
        self._steps = run.steps
        self._folder = run.folder(task)
        self._progress_dir = layout.spark_progress_dir(self._folder)
        self._before = before
        self._store = store

    def settle(self) -> None:
        """Replay what is recorded and not committed; forget what is only planned."""
        self.replay(recorded_only=True)
        for batch in self._numbers("offsets"):
            if batch > self.committed():
                self._storage.store.delete(self._offsets(batch))

    def replay(self, *, recorded_only: bool = False) -> None:
        """Run the batch that is planned and not committed, if there is one."""
        batch = self.committed() + 1
        recorded = self._storage.record(self._folder, batch) is not None
        if recorded or (batch in self._numbers("offsets") and not recorded_only):
            self.run(batch, None)

    def run(self, batch: int, plan: Plan | None) -> None:
        """Run one batch, as `plan` says unless it was planned before."""
        self._before()
        if plan is not None:
            self._store().create(self._offsets(batch), json.dumps(plan).encode())
        try:
            offsets = self._storage.store.read(self._offsets(batch))
        except NotFound:
            raise StorageError("OBJECT_CORRUPT", path=self._offsets(batch), reason="it is gone") from None
        planned, digest = Plan(*json.loads(offsets)), hashlib.sha256(offsets).hexdigest()
        record = self._storage.record(self._folder, batch) or self._write(batch, planned, digest)
        if record.offsets_hash != digest:
            raise StorageError("BATCH_REPLAY_MISMATCH", task=self._task.task, batch=batch)
        self._post(e.BatchRecorded(task=self._task, batch=batch, rows_out=record.rows_out))
        self._steps("spark.commit/before")
        self._store().create(f"{self._progress_dir}/commits/{batch}", b"v1")
        self._steps("spark.commit/after")

    def _write(self, batch: int, plan: Plan, digest: str) -> BatchRecord:
        committables = {uid: self._prepare(uid, sink, batch, plan) for uid, sink in self._sinks.items()}
        position = InputPosition(offset={"read": plan.read_until, "emitted": plan.emit_until})
        made = BatchRecord(
            batch=batch,
            offsets_hash=digest,
            run=self._run.run,
            inputs={self._source: position},
            committables=committables,
            rows_out=plan.emit_until - plan.emit_from,
            flush=plan.flush,
        )
        self._store()
        record = self._storage.adopt(layout.batch(self._folder, batch), made)
        if record != made:
            for uid, sink in self._sinks.items():
                with step(self._steps, "sink.abort"):
                    sink.abort(committables[uid])
        return record

    def _prepare(self, uid: str, sink: TwoPhaseSink, batch: int, plan: Plan) -> list[dict[str, Any]]:
        rows: Any = list(range(plan.emit_from, plan.emit_until))
        of = SinkBatch(
            job=self._storage.job,
            sink=uid,
            task=self._task.task,
            subtask=self._task.subtask,
            lineage=self._run.lineage,
            batch=batch,
            run=self._run.run,
            attempt=secrets.token_hex(4),
        )
        with step(self._steps, "sink.prepare"):
            return list(sink.prepare(rows, of))

    def position(self) -> tuple[int, int]:
        """Return how many rows were read and how many were emitted, as of the last batch record."""
        record = self._storage.last_record(self._folder)
        if record is None:
            return 0, 0
        offset = record.inputs[self._source].offset
        return offset["read"], offset["emitted"]

    def committed(self) -> int:
        """Return the last batch that is committed, -1 for none."""
        return max(self._numbers("commits"), default=-1)

    def _numbers(self, log: str) -> list[int]:
        return sorted(map(int, self._storage.store.names(f"{self._progress_dir}/{log}")))

    def _offsets(self, batch: int) -> str:
        return f"{self._progress_dir}/offsets/{batch}"
