"""What a run removes from its sinks, while a driver that was thought dead may still record what it has staged."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from rekindle.ids import SubtaskId
from rekindle.runtime.leftovers import prepared
from rekindle.runtime.orphans import Orphans
from rekindle.runtime.steps import no_steps
from rekindle.sinks import SinkBatch
from rekindle.storage import layout
from rekindle.storage.documents.batch import BatchRecord
from rekindle.storage.documents.runs import Run
from rekindle.storage.job_storage import JobStorage
from rekindle.testing.fake_sink import FakeSink
from rekindle.testing.memory_store import MemoryStore
from tests.runtime.kit import JOB, NEVER, OFTEN, World
from tests.runtime.kit import TASK as UID

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
        Orphans(storage, run, {"out": sink}, no_steps).clean([TASK], partial(prepared, storage, [TASK], 1, {}))
        assert sink.staged, f"after look {after}"


def _stage(sink: FakeSink, batch: int, lineage: int = 1) -> str:
    """What a killed run has staged and not recorded; returns its name."""
    left = SinkBatch(job=JOB, sink="out", task=UID, subtask=0, lineage=lineage, batch=batch, run=1, attempt="aa")
    sink.staged[left.name] = [-1]
    return left.name


@pytest.mark.parametrize("config", [NEVER, OFTEN], ids=["by the final checkpoint", "by the first that covers it"])
def test_an_orphan_is_removed_once_a_checkpoint_covers_its_batch(tmp_path: Path, config: dict[str, str]) -> None:
    world = World(tmp_path)
    world.rows.available = 20
    orphan, later = _stage(world.sinks["out"], 1), _stage(world.sinks["out"], 1_000)
    driver, _ = world.driver(**config)
    assert orphan in world.sinks["out"].staged, "its driver might only be paused"

    result = driver.run()

    assert result.state == "FINISHED"
    assert [*world.sinks["out"].staged] == [later], "its batch was never recorded"
    assert sorted(world.sinks["out"].rows) == list(range(20))


def test_an_orphan_whose_removal_fails_is_removed_after_a_later_commit(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.rows.available = 20
    _stage(world.sinks["out"], 0)
    driver, _ = world.driver(**OFTEN)
    asked = []

    def refuse_once() -> None:
        asked.append(1)
        if len(asked) == 1:
            raise RuntimeError("the server is away")

    world.sinks["out"].before["clean"] = refuse_once

    assert driver.run().state == "FINISHED"
    assert len(asked) == 2
    assert not world.sinks["out"].staged
