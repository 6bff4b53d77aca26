"""Back-pressure: how much lies in a task's channels, and who waits for it."""

from __future__ import annotations

import threading

from rekindle.channels.backlog import Backlog


def test_the_slowest_reader_counts() -> None:
    backlog = Backlog(100, {"fast": 0, "slow": 0}, {})
    backlog.wrote(0, 30)
    backlog.wrote(1, 40)
    assert backlog.bytes == 70
    backlog.read("fast", 2)
    assert backlog.bytes == 70
    backlog.read("slow", 1)
    assert backlog.bytes == 40


def test_what_lay_there_when_the_driver_started_counts() -> None:
    backlog = Backlog(100, {"reader": 3}, {2: 500, 3: 20, 4: 30})
    assert backlog.bytes == 50


def test_readers_that_have_ended_hold_nobody_back() -> None:
    backlog = Backlog(0, {}, {0: 10})
    backlog.wait(lambda: False)
    backlog.read("ended", 1)
    assert backlog.bytes == 0


def test_a_word_that_comes_late_takes_nothing_back() -> None:
    backlog = Backlog(100, {"reader": 0}, {0: 10, 1: 10})
    backlog.read("reader", 2)
    backlog.read("reader", 1)
    assert backlog.bytes == 0


def test_a_writer_waits_until_there_is_room() -> None:
    backlog = Backlog(10, {"reader": 0}, {0: 11})
    through = threading.Event()
    writer = threading.Thread(target=lambda: (backlog.wait(lambda: False), through.set()), daemon=True)
    writer.start()
    assert not through.wait(0.1)
    backlog.read("reader", 1)
    assert through.wait(10)


def test_a_wait_can_be_given_up() -> None:
    backlog = Backlog(0, {"reader": 0}, {0: 1})
    backlog.wait(lambda: True)
    assert backlog.bytes == 1
