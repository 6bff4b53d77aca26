"""One order after the other, and no process that waits for one that hangs."""

from __future__ import annotations

import subprocess
import sys
import threading

from rekindle.runtime.worker import Worker, join_all


def test_orders_are_carried_out_one_after_the_other_in_the_order_given() -> None:
    worker, done, over = Worker("test"), [], threading.Event()
    for number in range(100):
        worker.submit(lambda number=number: done.append((number, threading.current_thread().name)))
    worker.submit(over.set)
    assert over.wait(10)
    assert done == [(number, "test") for number in range(100)]


def test_closing_waits_for_nothing_and_what_was_ordered_before_is_still_done() -> None:
    worker, gate, over = Worker("test"), threading.Event(), threading.Event()
    worker.submit(lambda: gate.wait(10) and None)
    worker.submit(over.set)
    worker.close()
    assert not over.is_set()
    gate.set()
    assert over.wait(10)


class Hanging:
    """A thread that does not end."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def join(self, wait_s: float) -> None:
        self.waits.append(wait_s)
        threading.Event().wait(wait_s)


def test_several_that_hang_are_waited_for_together() -> None:
    threads = [Hanging() for _ in range(10)]

    join_all(threads, 0.05)

    waits = [wait_s for thread in threads for wait_s in thread.waits]
    assert len(waits) == 10 and sum(waits[1:]) < waits[0]


def test_a_process_ends_while_an_order_hangs() -> None:
    program = "import threading; from rekindle.runtime.worker import Worker; Worker('w').submit(threading.Event().wait)"
    subprocess.run([sys.executable, "-c", program], timeout=30, check=True)
