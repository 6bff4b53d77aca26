"""A manifest is read as one of the job whose tasks have other uids."""

from __future__ import annotations

from rekindle.storage.documents.batch import BatchRecord, ChannelPosition, InputPosition, Segment
from rekindle.storage.documents.checkpoint import Manifest, SubtaskSnapshot
from rekindle.storage.renaming import renamed_chains, renamed_manifest, renamed_record

NAMES = {"gather": "parse", "count": "out"}


def test_every_place_where_a_task_is_named_has_the_new_name() -> None:
    position = InputPosition(channels={0: ChannelPosition(batches=3)})
    manifest = Manifest(
        checkpoint=1, job="job", kind="stop", run=1, lineage=1, triggered_ms=0, completed_ms=0,
        graph={"gather": ["live"], "count": ["gather"], "last": ["count", "live"]},
        tasks={
            "gather": {0: SubtaskSnapshot(batch=4)},
            "count": {0: SubtaskSnapshot(batch=2, inputs={"gather": position}, in_flight={"gather": {0: (3, 5)}})},
        },
        unread={"gather": {"history": ((0, 3),)}},
        operator_state={"gather": {"service": {}}},
        finished_tasks=("gather", "last"),
        chains={"gather": ["gather/live", "gather"], "count": ["count", "out"]},
    )  # fmt: skip
    made = renamed_manifest(manifest, NAMES)
    assert made.graph == {"parse": ["live"], "out": ["parse"], "last": ["out", "live"]}
    assert set(made.tasks) == {"parse", "out"}
    assert made.tasks["out"][0].inputs == {"parse": position}
    assert made.tasks["out"][0].in_flight == {"parse": {0: (3, 5)}}
    assert made.unread == {"parse": {"history": ((0, 3),)}}
    assert made.finished_tasks == ("parse", "last")
    assert made.chains == {"parse": ["parse/live", "parse"], "out": ["out", "sink:out"]}
    assert "gather" not in str(made)


def test_a_sink_is_spelled_as_it_is_among_tasks_of_these_names() -> None:
    chains = {"count": ["count/live", "count", "sink:count2", "plain"], "count2": ["count2"]}
    assert renamed_chains(chains, {"count2": "other"}) == {
        "count": ["count/live", "count", "count2", "plain"],
        "other": ["other"],
    }


def test_a_record_names_its_inputs_and_its_readers() -> None:
    segment = Segment(path="a", size=1, rows=1, readers=("count", "last"))
    record = BatchRecord(batch=1, offsets_hash="", run=1, inputs={"gather": InputPosition()}, segments=(segment,))
    made = renamed_record(record, NAMES)
    assert (list(made.inputs), made.segments[0].readers) == (["parse"], ("out", "last"))
