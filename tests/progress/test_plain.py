"""What the numbers and lines in a plain query's directory mean, without Spark and without files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rekindle.errors import RestoreError
from rekindle.progress.plain import SourceReader, Standing, folders_of, kind_of, lines_of, standing

FILES, KAFKA = '{"logOffset":3}', '{"bids":{"0":12,"1":7}}'


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(RestoreError) as raised:
        call()
    return f"{raised.value.code}: {raised.value.parameters.get('reason', '')}"


@pytest.mark.parametrize(
    ("offsets", "commits", "expected"),
    [
        ([0], [0], Standing(0)),
        ([0, 1, 2], [0, 1, 2], Standing(2)),
        ([0, 1, 2], [0, 1], Standing(1, 2)),
        ([7, 8, 9], [7, 8], Standing(8, 9)),
        ([0, 1], [0], Standing(0, 1)),
    ],
)
def test_a_query_stopped_between_two_batches_or_in_one(offsets: Any, commits: Any, expected: Standing) -> None:
    assert standing("/c", offsets, commits) == expected


@pytest.mark.parametrize(
    ("offsets", "commits", "expected"),
    [
        ([], [], "SPARK_CHECKPOINT_MISSING: "),
        ([0], [], "SPARK_CHECKPOINT_EMPTY: "),
        ([0, 1, 2], [0], "SPARK_CHECKPOINT_GAP: it has planned batch 2 and committed batch 0"),
        ([0], [0, 1], "SPARK_CHECKPOINT_GAP: it has planned batch 0 and committed batch 1"),
        ([3], [3], "SPARK_CHECKPOINT_GAP: it lacks offsets/2, commits/2"),
        ([2, 4], [2, 3], "SPARK_CHECKPOINT_GAP: it lacks offsets/3"),
    ],
)
def test_any_other_picture_is_refused(offsets: Any, commits: Any, expected: str) -> None:
    assert refusal(lambda: standing("/c", offsets, commits)) == expected


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (None, None),
        (FILES, "files"),
        (KAFKA, "kafka"),
        ("17", "other"),
        ("{}", "other"),
        ("{", "other"),
        ('{"logOffset":3,"more":1}', "other"),
        ('{"reservoirId":"x","index":1}', "other"),
        ('{"bids":{"0":"12"}}', "other"),
    ],
)
def test_an_offset_tells_the_kind_of_its_source(end: str | None, expected: str | None) -> None:
    assert kind_of(end) == expected


def test_sources_are_matched_by_their_places_and_new_ones_have_no_line() -> None:
    readers = [
        SourceReader("rate"),
        None,
        SourceReader("files"),
        SourceReader("kafka", topics=frozenset({"bids", "asks"})),
        None,
    ]
    assert lines_of("/c", (), ("17", None, KAFKA), readers) == (0, None, 1, 2, None)
    assert lines_of("/c", ("0", "1", "2"), ("17", None, KAFKA), readers) == (0, None, 1, 2, None)


def test_sources_with_names_are_matched_by_these() -> None:
    readers = [SourceReader("files", name="live"), None, SourceReader("kafka", name="bids")]
    assert lines_of("/c", ("bids", "live"), (KAFKA, FILES), readers) == (1, None, 0)


@pytest.mark.parametrize(
    ("names", "ends", "readers", "reason"),
    [
        ((), (FILES,), [SourceReader("files")] * 2, "it has offsets of 1 sources, and the query reads 2"),
        ((), (FILES,), [SourceReader("kafka")], "its source 0 is of kind files, that of the query kafka"),
        (
            (),
            ("17", KAFKA),
            [SourceReader("rate"), SourceReader("files")],
            "its source 1 is of kind kafka, that of the query files",
        ),
        ((), ("17",), [SourceReader("files")], "its source 0 is of kind other, that of the query files"),
        (
            (),
            (KAFKA,),
            [SourceReader("kafka", topics=frozenset({"asks"}))],
            "its source 0 has read the topics bids, and the query reads asks",
        ),
        (
            ("live",),
            (FILES,),
            [SourceReader("files", name="late")],
            "its sources are called live, those of the query late",
        ),
        (("live",), (FILES,), [SourceReader("files")], "its sources are called live, those of the query None"),
    ],
)
def test_offsets_of_other_sources_are_refused(names: Any, ends: Any, readers: Any, reason: str) -> None:
    assert refusal(lambda: lines_of("/c", names, ends, readers)) == f"SPARK_CHECKPOINT_DIFFERS: {reason}"


@pytest.mark.parametrize(
    ("names", "ends", "present", "expected"),
    [
        ((), (FILES, KAFKA), ["0", "1"], ("0", "1")),
        ((), (FILES, "17"), ["0"], ("0", "1")),
        ((), (FILES, None), ["0"], ("0", "1")),
        ((), (FILES, FILES), ["0", "1"], ("0", "1")),
        ((), (FILES, FILES), ["0"], ("0", "0")),
        (("live", "base"), (FILES, FILES), ["base", "live"], ("live", "base")),
    ],
)
def test_each_line_has_its_folder_unless_all_are_of_one_source(
    names: Any, ends: Any, present: Any, expected: Any
) -> None:
    assert folders_of("/c", names, ends, present) == expected


def test_folders_that_cannot_be_distinguished_are_refused() -> None:
    for ends, present in (((FILES, FILES, KAFKA), ["0", "1"]), ((FILES, '{"logOffset":4}'), ["0"])):
        assert "is not known" in refusal(lambda ends=ends, present=present: folders_of("/c", (), ends, present))


def test_kinds_that_spark_spells_in_its_own_way_are_left_to_spark() -> None:
    assert lines_of("/c", (), ("17",), [SourceReader("rate-micro-batch")]) == (0,)
    assert lines_of("/c", (), (KAFKA,), [SourceReader("kafka")]) == (0,), "a pattern of topics says nothing of each"
