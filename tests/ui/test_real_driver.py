"""What a real driver writes, as every interface shows it: while it runs, and after a stop that a page has asked for."""

from __future__ import annotations

from rekindle.storage.local import LocalStore
from tests.runtime.kit import OFTEN, World, until
from tests.ui.kit import http

TOKEN = "correct horse"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def test_a_driver_is_seen_and_stopped_through_the_server(tmp_path, serve) -> None:
    world = World(tmp_path)
    world.rows.available, world.rows.ended = 60, False
    handle = world.start(**OFTEN)
    address = serve([LocalStore(world.location)], allow_actions=True, token=TOKEN)
    (job,) = [line["id"] for line in http.get(f"{address}/api/v1/jobs").json()]
    place = f"{address}/api/v1/jobs/{job}"

    def completed() -> int:
        return http.get(f"{place}/checkpoints").json()["counts"]["completed"]

    until(lambda: completed() >= 2)
    running = http.get(place).json()
    graph = http.get(f"{place}/graph").json()
    answer = http.post(f"{place}/stop", headers=BEARER).json()
    handle.wait()
    until(lambda: http.get(place).json()["overview"]["state"] == "STOPPED")
    until(lambda: completed() >= answer["checkpoint"])  # an answer may be a second old
    history = http.get(f"{place}/checkpoints").json()["history"]
    kinds = [row["event"]["kind"] for row in http.get(f"{place}/events").json()]
    (run,) = http.get(f"{place}/runs").json()
    flink = http.get(f"{address}/v1/jobs/overview").json()["jobs"]

    assert (running["overview"]["state"], running["overview"]["run"]) == ("RUNNING", 1)
    assert [vertex["id"] for vertex in graph["vertices"]] == [
        "source:numbers", "task:task", "sink:out", "sink:second",
    ]  # fmt: skip
    assert (answer["done"], answer["state"]) == (True, "STOPPED")
    assert (history[0]["kind"], history[0]["id"]) == ("stop", answer["checkpoint"])
    assert (run["state"], run["checkpoint"]) == ("STOPPED", answer["checkpoint"])
    assert (kinds[0], kinds[-1]) == ("run_started", "run_ended")
    assert "stop_requested" in kinds
    assert [job["state"] for job in flink] == ["FINISHED"]
