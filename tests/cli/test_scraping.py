"""``rekindle run --metrics-port``: the metrics of one job, from its driver."""

from __future__ import annotations

import json
import socket
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from rekindle.cli import scraping
from rekindle.cli.scraping import Address
from rekindle.cli.verbs import rekindle
from rekindle.errors import ConfigError
from rekindle.monitoring.monitor import Monitor
from rekindle.monitoring.monitors import Monitors
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.local import LocalStore
from rekindle.ui.metrics import exposition
from tests.cli.kit import beat, start
from tests.ui.kit import http


def names(text: str) -> set[str]:
    return {line.split("{")[0].split(" ")[0] for line in text.splitlines() if line and not line.startswith("#")}


def test_a_driver_shows_its_own_job_with_the_metrics_of_the_server(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    host, port = scraping.serve(Address("127.0.0.1", 0), str(tmp_path), "bids")
    address = f"http://{host}:{port}/metrics"
    assert names(http.get(address).text) == {"rekindle_storage_up"}, "its first run has not begun"

    for name in ("bids", "another"):
        job = JobStorage(store, name)
        start(job)
        beat(job)
    monitors = Monitors([store])
    text = http.get(address).text
    assert names(text) == names(exposition(monitors)[0].decode())
    assert 'job_name="bids"' in text
    assert "another" not in text


def test_without_its_extra_a_job_is_not_started_and_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith(("rekindle.ui", "prometheus_client"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    file = tmp_path / "job.py"
    file.write_text("import rekindle as rk\njob = rk.Job('bids')\n")

    result = CliRunner().invoke(
        rekindle, ["run", str(file), "--metrics-port", "0", "--storage", str(tmp_path / "state"), "--json"]
    )

    error = json.loads(result.stdout)["error"]
    assert (result.exit_code, error["code"]) == (1, "METRICS_MISSING"), "as for `ui` without its extra"
    assert error["next_step"].startswith("pip install 'rekindle[metrics]'")


def test_a_port_that_is_taken_is_said_before_anything_is_started(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import rekindle as rk\njob = rk.Job('bids')\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = CliRunner().invoke(
            rekindle,
            ["run", str(tmp_path / "job.py"), "--metrics-port", str(port), "--storage", str(tmp_path / "state")],
        )

    assert said.exit_code == 2
    assert "[METRICS_PORT_TAKEN]" in said.stderr
    assert not (tmp_path / "state").exists() or not list((tmp_path / "state").iterdir())
    with pytest.raises(ConfigError) as caught:
        scraping.serve(Address("192.0.2.1", 80), str(tmp_path), "bids")
    assert caught.value.code == "METRICS_PORT_TAKEN"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9000", ("127.0.0.1", 9000)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("[::1]:80", ("::1", 80)),
        (":1", ("127.0.0.1", 1)),
    ],
)
def test_an_address_may_be_named(text: str, address: tuple[str, int]) -> None:
    assert scraping.parsed(None, None, text) == address


@pytest.mark.parametrize("text", ["", "x", "80:", "host:70000", "-1", "٣"])
def test_what_is_no_port_is_refused(text: str) -> None:
    said = CliRunner().invoke(rekindle, ["run", "job.py", "--metrics-port", text])

    assert said.exit_code == 2
    assert "[ADDRESS:]PORT" in said.stderr


def test_scrapes_do_not_pile_up_where_the_storage_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging, reached = threading.Event(), threading.Semaphore(0)

    def hang(self: Monitor, name: str) -> None:
        reached.release()
        hanging.wait(60)

    monkeypatch.setattr(Monitor, "job", hang)
    host, port = scraping.serve(Address("127.0.0.1", 0), str(tmp_path), "bids")
    waiting = [threading.Thread(target=http.get, args=(f"http://{host}:{port}/metrics",)) for _ in range(4)]
    for thread in waiting:
        thread.start()
        assert reached.acquire(timeout=60)

    assert http.get(f"http://{host}:{port}/metrics").status_code == 503
    hanging.set()
    for thread in waiting:
        thread.join(60)
