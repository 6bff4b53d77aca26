"""What was in flight in a checkpoint: for whom, how much of it, and what a savepoint takes along."""

from __future__ import annotations

from collections.abc import Mapping

from rekindle.channels.outputs import copy_outputs, in_flight, readings_of, topology_of, with_bytes_in_flight
from rekindle.channels.producer import Producer, Reader
from rekindle.graph.job_graph import Task
from rekindle.graph.topology import Edge, EdgeKind
from rekindle.ids import SubtaskId
from rekindle.storage import layout
from rekindle.storage.documents.batch import BatchRecord, ChannelPosition, End, InputPosition, Segment
from rekindle.storage.documents.checkpoint import Manifest, SubtaskSnapshot
from rekindle.storage.documents.runs import Run
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.run_ends import RunEnds
from rekindle.testing.memory_store import MemoryStore

FOLDER = layout.subtask("job", "read", 0, 1)


def segments(batch: int, count: int) -> tuple[Segment, ...]:
    return tuple(Segment(path=f"segments/{batch}/{number}", size=10, rows=1) for number in range(count))


def record(batch: int, count: int) -> BatchRecord:
    return BatchRecord(batch=batch, offsets_hash="00", run=1, segments=segments(batch, count), watermark_ms=7)


RECORDS = {batch: record(batch, 3) for batch in range(3)}


def reader(position: tuple[int, int] | None, end: End | None = None) -> SubtaskSnapshot:
    """How far a subtask has read ``read/0``; None: it has no record yet."""
    if position is None:
        return SubtaskSnapshot(batch=-1, end=end)
    channels = {0: ChannelPosition(batches=position[0], segment=position[1])}
    return SubtaskSnapshot(batch=5, inputs={"read": InputPosition(channels=channels)}, end=end)


def manifest(**readers: Mapping[int, SubtaskSnapshot]) -> Manifest:
    """A checkpoint after batch 2 of ``read/0``."""
    return Manifest(
        checkpoint=1,
        job="job",
        kind="periodic",
        run=1,
        lineage=1,
        triggered_ms=0,
        completed_ms=0,
        graph={"read": ["history"], **{uid: ["read"] for uid in readers}},
        tasks={"read": {0: SubtaskSnapshot(batch=2)}, **{uid: dict(each) for uid, each in readers.items()}},
    )


def paths(of: Manifest) -> list[tuple[str, tuple[str, ...]]]:
    return [
        (one.path.removeprefix("segments/"), one.readers) for one in in_flight(of, SubtaskId("read", 0), RECORDS.get)
    ]


def test_what_is_behind_the_cursor_is_not_in_flight() -> None:
    assert paths(manifest(sums={0: reader((1, 2))})) == [
        ("1/2", ("sums",)), ("2/0", ("sums",)), ("2/1", ("sums",)), ("2/2", ("sums",)),
    ]  # fmt: skip


def test_a_reader_without_a_record_has_read_nothing() -> None:
    assert len(paths(manifest(sums={0: reader(None)}))) == 9


def test_each_segment_names_the_tasks_that_had_still_to_read_it() -> None:
    assert paths(manifest(fast={0: reader((3, 0))}, slow={0: reader((2, 1))})) == [
        ("2/1", ("slow",)),
        ("2/2", ("slow",)),
    ]
    both = paths(manifest(fast={0: reader((2, 2))}, slow={0: reader((2, 1))}))
    assert both == [("2/1", ("slow",)), ("2/2", ("fast", "slow"))]


def test_a_checkpoint_says_how_much_each_subtask_had_still_to_read_and_how_much_lay_there() -> None:
    taken = manifest(
        fast={0: reader((2, 2))}, slow={0: reader((2, 1))}, done={0: reader(None, End(batch=5, run=1, drained=False))}
    )
    none: dict[int, BatchRecord] = {}
    shown = with_bytes_in_flight(taken, lambda producer: (RECORDS if producer.task == "read" else none).get)

    assert {uid: one[0].in_flight_bytes for uid, one in shown.tasks.items()} == {
        "read": 0, "fast": 10, "slow": 20, "done": 0,
    }  # fmt: skip
    assert shown.in_flight_bytes == 20, "what both had still to read lies there once"


def test_a_task_that_has_finished_has_read_everything() -> None:
    end = End(batch=5, run=1, drained=False)
    assert paths(manifest(sums={0: reader((1, 0), end)})) == []
    assert list(readings_of(manifest(sums={0: reader((1, 0), end)}), SubtaskId("read", 0))) == []


def test_of_what_several_share_each_one_s_part_counts_from_its_own_cursor() -> None:
    # Of batch b, segment n is for subtask (b + n) mod 2.
    shared = manifest(work={0: reader((2, 1)), 1: reader((1, 0))})
    assert paths(shared) == [("1/0", ("work",)), ("1/2", ("work",)), ("2/1", ("work",)), ("2/2", ("work",))]


def test_segments_that_were_carried_over_are_for_those_they_name() -> None:
    kept = [
        Segment(path=str(number), size=1, rows=1, readers=readers)
        for number, readers in enumerate([("a",), (), ("b",)])
    ]
    assert [one.path for one in Reader(task="a").share(0, kept)] == ["0", "1"]
    assert [one.path for one in Reader(task="b").share(0, kept)] == ["1", "2"]


def test_the_parts_of_those_that_share_are_all_of_it_and_change_with_the_batch() -> None:
    for batch in range(4):
        parts = [Reader(task="a", rank=rank, sharing=3).share(batch, segments(batch, 1)) for rank in range(3)]
        assert [len(part) for part in parts] == [int(batch % 3 == rank) for rank in range(3)]


def test_the_topology_is_that_of_the_job_as_it_was() -> None:
    topology = topology_of(manifest(work={0: reader(None), 1: reader(None)}))
    assert topology.vertex("work").parallelism == 2
    assert topology.edges == (Edge("read", "work", EdgeKind.ALL_TO_ALL),)


def test_a_savepoint_takes_what_a_reader_had_still_to_read() -> None:
    store, target = MemoryStore(), MemoryStore()
    job = JobStorage(store, "job")
    for batch, one in RECORDS.items():
        job.create(layout.batch(FOLDER, batch), one)
        for segment in one.segments:
            store.create(f"{FOLDER}/{segment.path}", b"x" * 10)
    copy = layout.savepoint_subtask("save", "read", 0)
    size = copy_outputs(store, FOLDER, target, copy, manifest(sums={0: reader((2, 1))}), SubtaskId("read", 0))
    assert size == sum(entry.size_bytes for entry in target.walk("save")) > 30
    assert JobStorage(target, "job").records(copy) == [2]
    assert paths(manifest(sums={0: reader((2, 1))}))[0][0] == "2/1"
    assert copy_outputs(store, FOLDER, target, "elsewhere", manifest(), SubtaskId("read", 0)) == 0


def test_a_producer_tells_its_segments_its_time_and_its_end() -> None:
    store = MemoryStore()
    job = JobStorage(store, "job")
    job.create(layout.batch(FOLDER, 0), record(0, 2))
    task = Task(uid="read", inputs=("history",), event_time="ts", watermark="2 ms")
    ends = RunEnds(job, Run(run=1, started_ms=0, host="here", pid=1, lineage=1), [SubtaskId("read", 0)])
    producer = Producer(storage=job, folder=FOLDER, task=task, reader=Reader(task="sums", rank=1, sharing=2), ends=ends)
    assert [one.path for one in producer.segments(0)] == [f"{producer.address}segments/0/1"]
    assert producer.segments(1) == []
    assert (producer.watermark_ms(-1), producer.watermark_ms(0), producer.watermark_ms(1)) == (None, 5, None)
    assert not producer.ended_by(1)
    ends.record(FOLDER, End(batch=0, run=1, drained=False))
    assert (producer.ended_by(0), producer.ended_by(1)) == (False, True)
