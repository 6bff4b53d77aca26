"""Back-pressure: how much lies in a task's channels, and who waits for it."""

from __future__ import annotations

import threading

from rekindle.channels.backlog import Backlog
from rekindle.ids import SubtaskId

FAST, SLOW, READER, ENDED = (SubtaskId(uid, 0) for uid in ("fast", "slow", "reader", "ended"))


def test_the_slowest_reader_counts() -> None:
    backlog = Backlog(100, {FAST: 0, SLOW: 0}, {})
    backlog.wrote(0, 30)
    backlog.wrote(1, 40)
    assert backlog.bytes == 70
    backlog.read(FAST, 2)
    assert backlog.bytes == 70
    backlog.read(SLOW, 1)
    assert backlog.bytes == 40


def test_what_each_reader_has_before_it_is_known_by_its_slowest_subtask() -> None:
    backlog = Backlog(100, {FAST: 0, SLOW: 0, SubtaskId("slow", 1): 0}, {})
    backlog.wrote(0, 30)
    backlog.wrote(1, 40)
    backlog.read(FAST, 2)
    backlog.read(SubtaskId("slow", 1), 2)
    assert backlog.unread() == {"fast": 0, "slow": 70}
    backlog.read(SLOW, 1)
    assert backlog.unread() == {"fast": 0, "slow": 40}


def test_what_lay_there_when_the_driver_started_counts() -> None:
    backlog = Backlog(100, {READER: 3}, {2: 500, 3: 20, 4: 30})
    assert backlog.bytes == 50


def test_readers_that_have_ended_hold_no_producer_back() -> None:
    backlog = Backlog(0, {}, {0: 10})
    backlog.wait(lambda: False)
    backlog.read(ENDED, 1)
    assert backlog.bytes == 0


def test_a_word_that_comes_late_takes_nothing_back() -> None:
    backlog = Backlog(100, {READER: 0}, {0: 10, 1: 10})
    backlog.read(READER, 2)
    backlog.read(READER, 1)
    assert backlog.bytes == 0


def test_a_writer_waits_until_there_is_room() -> None:
    backlog = Backlog(10, {READER: 0}, {0: 11})
    through = threading.Event()
    writer = threading.Thread(target=lambda: (backlog.wait(lambda: False), through.set()), daemon=True)
    writer.start()
    assert not through.wait(0.1)
    backlog.read(READER, 1)
    assert through.wait(10)


def test_a_wait_can_be_given_up() -> None:
    backlog = Backlog(0, {READER: 0}, {0: 1})
    backlog.wait(lambda: True)
    assert backlog.bytes == 1
