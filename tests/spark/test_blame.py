"""What a drain says of a query that could not read what there was."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from rekindle.ids import SubtaskId
from rekindle.spark.streaming.blame import Blame
from rekindle.storage.documents.batch import BatchRecord

COUNTED = SubtaskId("counted", 0)


def record(batch: int) -> BatchRecord:
    return BatchRecord(batch=batch, offsets_hash="", run=1, inputs={}, committables={})


def test_a_query_that_failed_after_its_last_batch_may_have_left_rows_unread() -> None:
    protocol = SimpleNamespace(last=3, flush_from=None)
    blame = Blame(COUNTED, None, [], cast("Any", protocol))
    assert blame.left_out(record(3)) == () and not blame.has_failed_after(3)

    blame.failed(RuntimeError("the server is away"))

    assert blame.has_failed_after(3)
    (note,) = blame.left_out(record(3))
    assert note.startswith("counted: it failed after batch 3 (") and "the server is away" in note
    protocol.last = 4
    assert blame.left_out(record(4)) == () and not blame.has_failed_after(4), "the batch has succeeded"


def test_a_flush_that_fails_leaves_no_rows_unread() -> None:
    protocol = SimpleNamespace(last=3, flush_from=4)
    blame = Blame(COUNTED, None, [], cast("Any", protocol))

    blame.failed(RuntimeError("the server is away"))

    assert blame.left_out(record(3)) == ()


def test_a_query_that_failed_in_its_first_batch_says_so() -> None:
    blame = Blame(COUNTED, None, [], cast("Any", SimpleNamespace(last=-1, flush_from=None)))
    blame.failed(None)

    assert blame.left_out(None) == ("counted: it failed in its first batch, and rows that had arrived may be unread",)
