"""The documents of a job that several threads of a server read at the same time."""

from __future__ import annotations

import sys
import threading

from rekindle.monitoring.facts import JobFacts, ReadAgain
from rekindle.storage import layout
from rekindle.storage.documents.runs import Run
from rekindle.testing.memory_store import MemoryStore

RUNS, ROUNDS = 100, 400


def test_what_one_thread_finds_gone_another_may_be_looking_up() -> None:
    store = MemoryStore()
    storage = ReadAgain(store, "job")
    facts = JobFacts(storage, "id", lambda: 0, lambda: 0)
    failures: list[BaseException] = []
    over = threading.Event()

    def look() -> None:
        try:
            while not over.is_set():
                facts.runs()
        except KeyError as error:
            failures.append(error)

    threads = [threading.Thread(target=look) for _ in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for _ in range(ROUNDS):
            for number in range(RUNS):
                storage.create(layout.run("job", number), Run(run=number, started_ms=0, lineage=1, host="", pid=1))
            store.delete_tree(layout.runs("job"))
    finally:
        sys.setswitchinterval(interval)
        over.set()
        for thread in threads:
            thread.join()
    assert failures == []
