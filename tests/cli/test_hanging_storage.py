"""A storage that hangs for longer than a driver may be silent: the driver hangs with it, and is not dead."""

from __future__ import annotations

import time

import pytest

from rekindle.errors import ControlError
from rekindle.runtime import client
from rekindle.runtime.client import ControlRequest
from rekindle.runtime.pauses import Pauses
from rekindle.storage import layout
from rekindle.storage.documents.control import Request
from rekindle.storage.forwarding import ForwardingStore
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.liveness import silence_ms
from rekindle.storage.second_look import gives_a_sign
from rekindle.testing.memory_store import MemoryStore
from tests.cli.kit import beat, start
from tests.waiting import until


class HangingStore(ForwardingStore):
    """A store that hangs in one read of a path; the driver elsewhere writes its next heartbeat after that.

    Args:
        hangs_at: number of that read.
    """

    def __init__(self, path: str, hangs_at: int) -> None:
        super().__init__(MemoryStore())
        self.job = JobStorage(self.within, "bids")
        self.path, self.hangs_at, self.reads = path, hangs_at, 0
        start(self.job, host="elsewhere")
        beat(self.job, host="elsewhere")

    def read(self, path: str) -> bytes:
        if path != self.path:
            return super().read(path)
        self.reads += 1
        if self.reads == self.hangs_at:
            over_s = time.monotonic() + 2 * silence_ms(self) / 1_000
            until(lambda: time.monotonic() > over_s)
        elif self.reads > self.hangs_at:
            beat(self.job, host="elsewhere", beat=self.reads)
        return super().read(path)


@pytest.mark.usefixtures("impatient")
def test_a_driver_is_not_taken_for_silent_where_the_storage_has_hung() -> None:
    store = HangingStore(layout.status("bids"), hangs_at=2)
    job = JobStorage(store, "bids")
    driver = job.driver()
    assert driver is not None

    assert gives_a_sign(job, driver)


@pytest.mark.usefixtures("impatient")
def test_a_request_is_waited_for_where_the_storage_has_hung() -> None:
    store = HangingStore("", hangs_at=1)
    wanted = ControlRequest(verb="checkpoint")
    request = client.send(store.job, wanted)
    assert isinstance(request, Request)
    store.path = layout.answer("bids", request.id)
    pauses = Pauses(answer_s=(0.002, 0.01), driver_s=0.02)

    with pytest.raises(ControlError) as caught:
        client.wait(client.looks(JobStorage(store, "bids"), wanted, request, timeout_s=0.5, pauses=pauses))

    assert caught.value.code == "REQUEST_TIMED_OUT"  # it stands: the driver may still answer
