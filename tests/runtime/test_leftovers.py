"""What a start removes from its sinks, while a driver that was thought dead may still record what it has staged."""

from __future__ import annotations

from rekindle.ids import SubtaskId
from rekindle.runtime.leftovers import clean, prepared
from rekindle.runtime.steps import no_steps
from rekindle.sinks import SinkBatch
from rekindle.storage import layout
from rekindle.storage.documents.batch import BatchRecord
from rekindle.storage.documents.runs import Run
from rekindle.storage.job_storage import JobStorage
from rekindle.testing.fake_sink import FakeSink
from rekindle.testing.memory_store import MemoryStore

TASK = SubtaskId("t", 0)


class Late(MemoryStore):
    """A storage into which a record comes after a look at `batches` number `after`, counted from 1."""

    def __init__(self, after: int, path: str, record: BatchRecord) -> None:
        super().__init__()
        self._after, self._path, self._record = after, path, record

    def names(self, folder: str) -> list[str]:
        found = super().names(folder)
        if folder == self._path.rpartition("/")[0]:
            self._after -= 1
            if self._after == 0:
                JobStorage(self, "job").create(self._path, self._record)
        return found


def test_what_a_late_record_names_is_kept_whichever_look_it_comes_after() -> None:
    batch = SinkBatch(job="job", sink="out", task="t", subtask=0, lineage=1, batch=0, run=1, attempt="aa")
    for after in range(1, 5):
        sink = FakeSink()
        sink.open("job", "out")
        made = list(sink.prepare([1, 2], batch))
        record = BatchRecord(batch=0, offsets_hash="", run=1, committables={"out": made})
        storage = JobStorage(Late(after, layout.batch(layout.subtask("job", *TASK, 1), 0), record), "job")
        run = Run(run=2, started_ms=0, host="", pid=0, lineage=1)
        assert storage.fence.claim(run)
        clean(storage, [TASK], run, {"out": sink}, lambda storage=storage: prepared(storage, [TASK], 1, {}), no_steps)
        assert sink.staged, f"after look {after}"
