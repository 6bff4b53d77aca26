"""Which rows of one job the other must have by now, decided from their checkpoints alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rekindle.shadowing.standing import JobStanding, covered, covers, in_one_line, is_at_least, once
from rekindle.storage.documents.batch import End, InputPosition
from rekindle.storage.documents.checkpoint import Manifest, SubtaskSnapshot, Transaction

ENDED = End(batch=3, run=1, drained=False)


def manifest(checkpoint: int = 1, lineage: int = 1, **changes: Any) -> Manifest:
    made: dict[str, Any] = {
        "job": "j", "kind": "periodic", "run": 1, "triggered_ms": 0, "completed_ms": 0, "graph": {}, "tasks": {},
    }  # fmt: skip
    return Manifest(checkpoint=checkpoint, lineage=lineage, **{**made, **changes})


def at(offset: Any = None, *, watermark: int | None = 0, end: End | None = None, **changes: Any) -> JobStanding:
    """A job with one task `t` that reads the stream `s`."""
    position = InputPosition(offset=offset, sources=(0,))
    snapshot = SubtaskSnapshot(
        batch=1,
        inputs={"s": position} if offset is not None else {},
        watermark_ms=watermark,
        end=end,
        in_flight=changes.pop("in_flight", {}),
    )
    logs: Mapping[tuple[str, int], Mapping[str, int]] = changes.pop("logs", {})
    return JobStanding(manifest=manifest(tasks={"t": {0: snapshot}}, **changes), logs=logs)


KAFKA = {"topic": {"0": 5, "1": 7}}


@pytest.mark.parametrize(
    ("end", "before", "so"),
    [
        (KAFKA, KAFKA, True),
        ({"topic": {"0": 6, "1": 7}}, KAFKA, True),
        ({"topic": {"0": 6, "1": 6}}, KAFKA, False),
        ({"topic": {"0": 6}}, KAFKA, False),
        ({"topic": {"0": 5, "1": 7, "2": 0}}, KAFKA, True),
        ({"other": {}}, KAFKA, False),
        (7, 6, True),
        (6, 7, False),
        ([1, 2], [1, 2], True),
        ([1, 3], [1, 2], True),
        ([1], [1, 2], False),
        ("0009", "0010", False),
        ("same", "same", True),
        (True, False, False),
        (7, None, True),
        (None, 7, False),
    ],
)
def test_an_offset_is_only_called_later_where_that_is_certain(end: Any, before: Any, so: bool) -> None:
    assert is_at_least(end, before) is so


def test_a_checkpoint_is_covered_once_its_positions_and_its_watermark_are_reached() -> None:
    assert covers(at(5, watermark=10), at(5, watermark=10))
    assert covers(at(6, watermark=11), at(5, watermark=10))
    assert not covers(at(6, watermark=9), at(5, watermark=10)), "its windows are not out yet"
    assert not covers(at(4, watermark=10), at(5, watermark=10))
    assert covers(at(5, watermark=0), at(5, watermark=0)), "a query without event times has 0"
    assert not covers(at(5, watermark=None), at(5, watermark=10)), "it has not run a batch yet"
    assert not covers(at(watermark=10), at(5, watermark=10)), "it has read nothing yet"
    assert covers(at(5), at())


def test_what_has_ended_is_covered_only_by_what_has_ended() -> None:
    assert not covers(at(5, watermark=99), at(5, end=ENDED))
    assert covers(at(5, end=ENDED), at(5, end=ENDED))
    assert covers(at(5, end=ENDED), at(5, watermark=99))


def test_rows_in_flight_are_not_out_yet() -> None:
    on_the_way = {"other": {0: (3, 4)}}
    assert not covers(at(5, in_flight=on_the_way), at(5))
    assert covers(at(5, in_flight={"other": {0: (3, 3)}}), at(5))
    assert covers(at(5), at(5, in_flight=on_the_way))


def test_jobs_without_a_common_task_cover_nothing() -> None:
    other = JobStanding(manifest=manifest(tasks={"u": {0: SubtaskSnapshot(batch=1)}}))
    assert not covers(other, at(5)) and not covers(at(5), other)


def test_a_stream_of_files_is_compared_by_its_files_and_not_by_its_numbers() -> None:
    """Each query counts its own batches: one has read three files in three, the other in one."""
    ours = {("t", 0): {"a": 0, "b": 1, "c": 2}}
    theirs = {("t", 0): {"a": 0, "b": 0, "c": 1}}
    assert covers(at({"logOffset": 0}, logs=theirs), at({"logOffset": 1}, logs=ours))
    assert not covers(at({"logOffset": 0}, logs=theirs), at({"logOffset": 2}, logs=ours))
    assert not covers(at({"logOffset": 1}, logs=ours), at({"logOffset": 1}, logs=theirs))
    assert not covers(at({"logOffset": 9}), at({"logOffset": 1}, logs=ours)), "a log that is gone says nothing"
    assert not covers(at({"logOffset": 9}, logs=ours), at({"logOffset": 1}))


def test_a_source_that_is_read_several_times_has_come_as_far_as_each_of_its_readers() -> None:
    def twice(*offsets: int) -> JobStanding:
        position = InputPosition(offset=[*offsets], sources=(0, 1))
        return JobStanding(manifest=manifest(tasks={"t": {0: SubtaskSnapshot(batch=1, inputs={"s": position})}}))

    assert covers(twice(2, 2), twice(1, 2))
    assert not covers(twice(2, 1), twice(1, 2))
    old = JobStanding(
        manifest=manifest(tasks={"t": {0: SubtaskSnapshot(batch=1, inputs={"s": InputPosition(offset=2)})}})
    )
    assert covers(old, old), "an older version did not note the numbers of sources"
    assert not covers(twice(2, 2), at(1)), "it is read once by the one, and twice by the other"


def test_of_a_bounded_source_no_file_may_be_unread_that_was_read() -> None:
    def left(*ranges: tuple[int, int]) -> JobStanding:
        return at(unread={"t": {"history": ranges}})

    assert covers(left((5, 9)), left((3, 9)))
    assert covers(left(), left((3, 9)))
    assert not covers(left((3, 9)), left((5, 9)))
    assert not covers(left((1, 2), (5, 9)), left((4, 9)))


def test_positions_of_a_users_class_are_only_compared_for_being_the_same() -> None:
    one, other = {"t": {"mine": {"a": 1}}}, {"t": {"mine": {"a": 2}}}
    kinds = {"mine": "SplitSource"}
    assert covers(at(operator_state=one, source_kinds=kinds), at(operator_state=one, source_kinds=kinds))
    assert not covers(at(operator_state=other, source_kinds=kinds), at(operator_state=one, source_kinds=kinds))


def reads(position: Any, *, ended: tuple[str, ...] = (), waits: bool = False) -> dict[str, Any]:
    """The operator state of a source with one split."""
    entries = [] if ended else [{"id": "one", "position": position}]
    subtasks = {"0": {"splits": {"kind": "list", "entries": [] if waits else entries}}}
    coordinator = {"discovered": True, "ended": [*ended], "waiting": entries if waits else []}
    return {"parallelism": 1, "subtasks": subtasks, "coordinator": coordinator}


def after(value: str, kind: str = "number") -> dict[str, Any]:
    return {"after": {"value": value, "type": kind}}


FINISHED = {"parallelism": 1, "fully_finished": True}


@pytest.mark.parametrize(
    ("kind", "end", "before", "so"),
    [
        ("Kafka", reads({"t": {"0": 5, "1": 2}}), reads({"t": {"0": 5, "1": 1}}), True),
        ("Kafka", reads({"t": {"0": 5, "1": 2}}), reads({"t": {"0": 4, "1": 3}}), False),
        ("Kafka", reads({"t": {"0": 5}}), reads({"t": {"0": 5, "1": 0}}), False),
        ("Kafka", reads({"t": {"0": 5}}), reads({"t": {"0": 5}}, waits=True), True),
        ("Kafka", reads({"t": {"0": 5}}, waits=True), reads({"t": {"0": 6}}), False),
        ("Kafka", reads(None), reads({"t": {"0": 5}}), False),
        ("Kafka", reads({"t": {"0": 5}}), reads(None), True),
        ("SplitSource", reads(6), reads(5), False),
        ("SplitSource", reads(5), reads(5), True),
        (None, reads(6), reads(5), False),
        ("Jdbc", reads(after("10")), reads(after("9.5")), True),
        ("Jdbc", reads(after("9")), reads(after("10")), False),
        ("Jdbc", reads(None), reads(after("10")), False),
        ("Jdbc", reads(after("b", "text")), reads(after("a", "text")), False),
        ("Jdbc", reads(after("10", "text")), reads(after("9")), False),
        ("Jdbc", reads(None, ended=('"one"',)), reads(after("10")), True),
        ("Jdbc", reads(after("10")), reads(None, ended=('"one"',)), False),
        ("Jdbc", FINISHED, reads(after("10")), True),
        ("Jdbc", reads(after("10")), FINISHED, False),
    ],
)
def test_positions_of_topics_and_of_numbers_are_compared(kind: str | None, end: Any, before: Any, so: bool) -> None:
    kinds = {} if kind is None else {"mine": kind}
    now, then = ({"operator_state": {"t": {"mine": one}}, "source_kinds": kinds} for one in (end, before))
    assert covers(at(**now), at(**then)) is so


def test_the_newest_of_one_decides_how_many_of_the_other_are_covered() -> None:
    ours = [at(number) for number in (1, 3, 5)]
    assert covered(ours, [at(2), at(4)]) == 2
    assert covered(ours, [at(5)]) == 3
    assert covered(ours, [at(0)]) == 0
    assert covered(ours, []) == covered([], ours) == 0


def committed(checkpoint: int, lineage: int = 1) -> Manifest:
    transaction = Transaction(task="t", subtask=0, batch=checkpoint, committables=[{}])
    return manifest(checkpoint, lineage, transactions={"out": [transaction]})


def test_a_job_that_resumes_or_starts_again_from_where_it_stood_stays_comparable() -> None:
    since = manifest(10)
    same = [committed(11), committed(12)]
    assert in_one_line(same, since=since, restored={1: None}, rewound=()) == same
    changed = [committed(11), committed(12, 2)]
    assert in_one_line(changed, since=since, restored={1: None, 2: 11}, rewound=()) == changed
    at_once = [committed(11, 2)]
    assert in_one_line(at_once, since=since, restored={2: 10}, rewound=()) == at_once


def test_a_job_that_went_back_without_its_sinks_is_not_comparable() -> None:
    since = manifest(10)
    back = [committed(11), committed(12), committed(13, 2)]
    assert in_one_line(back, since=since, restored={2: 11}, rewound=()) == 13
    assert in_one_line(back, since=since, restored={2: 9}, rewound=(11, 12)) == 13, "before the cut"
    assert in_one_line(back, since=since, restored={2: None}, rewound=()) == 13, "from elsewhere"
    assert in_one_line(back, since=since, restored={2: 11}, rewound=(12,)) == [back[0], back[2]]
    empty = [committed(11), manifest(12), committed(13, 2)]
    assert in_one_line(empty, since=since, restored={2: 11}, rewound=()) == [empty[0], empty[2]]


def test_a_checkpoint_that_failed_although_its_manifest_arrived_is_counted_once() -> None:
    def naming(checkpoint: int, *batches: int, lineage: int = 1) -> Manifest:
        of_sink = [Transaction(task="t", subtask=0, batch=batch, committables=[{}]) for batch in batches]
        return manifest(checkpoint, lineage, transactions={"out": of_sink} if batches else {})

    good, failed, failed_again, last = naming(1, 0, 1), naming(2, 2), naming(3, 2, 3), naming(4, 2, 3, 4)
    assert once([good, failed, failed_again, last]) == [good, last]
    assert once([good, failed]) == [good, failed], "what follows decides"
    assert once([naming(1), naming(2), naming(3, 0)]) == [naming(1), naming(2), naming(3, 0)], "nothing to commit"
    in_another = naming(2, 0, 1, lineage=2)
    assert once([good, in_another]) == [good, in_another], "a lineage counts its batches for itself"
    assert once([]) == []
