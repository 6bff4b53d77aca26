"""The verb `ui`: what it says where it cannot serve, and a server of its own process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner

from rekindle.cli.verbs import rekindle
from tests.ui.kit import http
from tests.ui.world import World


def _refused(*arguments: str, env: dict | None = None) -> tuple[int, dict]:
    result = CliRunner().invoke(rekindle, ["ui", *arguments, "--json"], env=env)
    return result.exit_code, json.loads(result.stdout)["error"]


@pytest.mark.parametrize("module", ["starlette", "uvicorn", "prometheus_client"])
def test_without_its_extra_it_says_what_to_install(monkeypatch, module: str) -> None:
    for name in [name for name in sys.modules if name.startswith(("rekindle.ui", module))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)

    code, error = _refused()

    assert (code, error["code"], error["parameters"]["module"]) == (1, "UI_MISSING", module)
    assert error["next_step"] == "pip install 'rekindle[ui]'"


def test_other_machines_are_not_served_without_a_token(tmp_path) -> None:
    code, error = _refused("--host", "0.0.0.0", "--storage", str(tmp_path), env={"REKINDLE_UI_TOKEN": ""})

    assert (code, error["code"]) == (2, "UI_TOKEN_MISSING")


def test_an_empty_token_file_is_refused_wherever_the_server_listens(tmp_path) -> None:
    """A secret that was not mounted: the server made a token of its own, and who had the right one was refused."""
    (tmp_path / "token").write_text(" \n")

    for options in (["--host", "0.0.0.0"], ["--allow-actions"]):
        code, error = _refused(*options, "--token-file", str(tmp_path / "token"))

        assert (code, error["code"]) == (2, "COMMAND_LINE_INVALID")
        assert "token is empty" in error["message"]


def test_a_port_that_is_taken_is_said(tmp_path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, error = _refused("--storage", str(tmp_path), "--port", str(taken.getsockname()[1]))

    assert (code, error["code"]) == (1, "UI_PORT_TAKEN")


def test_a_token_that_is_no_text_is_refused(tmp_path) -> None:
    """Random bytes are a likely token, and none that a browser can send."""
    (tmp_path / "token").write_bytes(b"\x8f\xff")
    from_file = _refused("--token-file", str(tmp_path / "token"))
    from_variable = _refused("--allow-actions", env={"REKINDLE_UI_TOKEN": os.fsdecode(b"\x8f\xff")})
    for code, error in (from_file, from_variable):
        assert (code, error["code"]) == (2, "COMMAND_LINE_INVALID")
        assert "not text in UTF-8" in error["message"]


def test_it_serves_until_it_is_interrupted_and_has_made_a_token_for_actions(tmp_path) -> None:
    world = World(str(tmp_path))
    world.failed("job")
    command = [sys.executable, "-m", "rekindle.cli", "ui", "--storage", str(tmp_path), "--port", "0"]
    with subprocess.Popen([*command, "--allow-actions", "--json"], stdout=subprocess.PIPE, text=True) as process:
        try:
            said = json.loads("".join(process.stdout.readline() for _ in range(4)))
            address, bearer = said["address"], {"Authorization": f"Bearer {said['token']}"}
            states = [job["state"] for job in http.get(f"{address}api/v1/jobs").json()]
            refused = http.post(f"{address}api/v1/jobs/job/stop").status_code
            heard = http.post(f"{address}api/v1/jobs/job/stop", headers=bearer).status_code
        finally:
            process.send_signal(signal.SIGINT)
        code = process.wait(60)

    assert (states, refused, heard) == (["FAILED"], 401, 409)
    assert code in (0, 130)
