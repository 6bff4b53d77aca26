"""Hand on the reads of custom sources: the query is given each read, the driver hears of failures and of the end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rekindle.channels.split_feed import SplitFeed
from rekindle.protocol import events as e
from rekindle.spark.inputs.intake import Intake
from rekindle.spark.streaming.blame import Blame
from rekindle.spark.streaming.parts import SubtaskParts
from rekindle.storage.documents.sources import SplitRead


def listen_to_readings(
    parts: SubtaskParts, intake: Intake, blame: Blame, *, wake: Callable[[], None], post: Callable[[e.Event], None]
) -> None:
    """Let what reads the custom sources of a subtask be heard; it calls from threads of its own."""

    def moved(feed: SplitFeed, number: int, document: SplitRead) -> None:
        ended = intake.staged(feed, number, document)
        wake()
        if ended:
            post(e.SourcesEnded(task=blame.subtask))

    def nudge() -> None:
        intake.nudge()
        wake()

    parts.catching_up.reached = intake.reached
    if parts.backlog is not None:
        parts.catching_up.nudge = nudge
    for item in parts.inputs:
        if item.reading is not None:
            item.reading.moved = partial(moved, item.reading.of.feed)
            item.reading.rested = partial(parts.catching_up.rested, item.uid)
            item.reading.failed = lambda error: post(blame.failed(error))
