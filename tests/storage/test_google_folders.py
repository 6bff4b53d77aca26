"""Objects of a bucket of Google that stand for folders are deleted: by whose credentials, and what may go wrong."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("google.auth")

from rekindle.storage.google import GoogleFolderClient
from tests.servers.fake import Asked, FakeServer, Said, fake_server
from tests.storage.test_identities import service_account

ACCOUNT, MACHINE = "of-an-account", "of-the-machine"


OF_A_MACHINE = (("Metadata-Flavor", "Google"), ("Content-Type", "application/json"))


def answer(asked: Asked) -> Said:
    """A bucket, an issuer of tokens, and what a machine of Google asks who it is."""
    if asked.path == "/token":
        return Said(200, json.dumps({"access_token": ACCOUNT, "expires_in": 3600}))
    if asked.method == "GET":
        who = {"access_token": MACHINE, "expires_in": 3600, "email": "me", "scopes": []}
        return Said(200, json.dumps(who), OF_A_MACHINE)
    return Said(204)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    for name in ("BEARER_TOKEN", "SERVICE_ACCOUNT", "APPLICATION_CREDENTIALS", "SKIP_SIGNATURE", "CLOUD_PROJECT"):
        monkeypatch.delenv(f"GOOGLE_{name}", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "no gcloud"))
    with fake_server(answer) as made:
        monkeypatch.setenv("GOOGLE_BASE_URL", made.url)
        for name in ("HOST", "IP"):
            monkeypatch.setenv(f"GCE_METADATA_{name}", f"127.0.0.1:{made.port}")
        (tmp_path / "account.json").write_text(
            json.dumps({**service_account("me@x")[0], "token_uri": f"{made.url}/token"})
        )
        yield made


def deletes(server: FakeServer) -> list[Asked]:
    return [asked for asked in server.asked if asked.method == "DELETE"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"GOOGLE_SKIP_SIGNATURE": "true", "GOOGLE_BEARER_TOKEN": "given"}, None),
        ({"GOOGLE_BEARER_TOKEN": "given", "GOOGLE_SERVICE_ACCOUNT": "{account}"}, "Bearer given"),
        ({"GOOGLE_SERVICE_ACCOUNT": "{account}", "GOOGLE_APPLICATION_CREDENTIALS": "/gone"}, f"Bearer {ACCOUNT}"),
        ({"GOOGLE_APPLICATION_CREDENTIALS": "{account}"}, f"Bearer {ACCOUNT}"),
        ({}, f"Bearer {MACHINE}"),
    ],
)
def test_the_order_in_which_credentials_are_looked_for_is_that_of_the_bucket(
    given: dict[str, str], expected: str | None, server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value.format(account=tmp_path / "account.json"))
    GoogleFolderClient("box")()(["a b", "of ä%20/below"])
    asked = deletes(server)
    assert [one.path for one in asked] == [
        "/storage/v1/b/box/o/a%20b%2F",
        "/storage/v1/b/box/o/of%20%C3%A4%2520%2Fbelow%2F",
    ]
    assert {one.headers.get("authorization") for one in asked} == {expected}


@pytest.mark.parametrize("status", [403, 412])
def test_where_the_server_refuses_they_stay_and_the_log_says_so_once(
    status: int, server: FakeServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "given")
    server.answer = lambda asked: Said(status)
    delete = GoogleFolderClient("box")()
    with caplog.at_level(logging.WARNING, "rekindle.storage.google"):
        delete(["a"])
        delete(["b"])
    assert [one.path.rpartition("/")[2] for one in deletes(server)] == ["a%2F", "b%2F"]
    assert caplog.messages == ["Objects that stand for folders stay in gs://box: HTTPError"]


def test_a_server_that_is_busy_is_asked_again(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "given")
    server.answer = lambda asked: Said(503 if len(server.asked) < 3 else 204)
    GoogleFolderClient("box")()(["a", "b"])
    assert [one.path.rpartition("/")[2] for one in deletes(server)] == ["a%2F", "a%2F", "a%2F", "b%2F"]
    assert caplog.messages == []


def test_a_server_that_stays_busy_is_left_alone(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "given")
    server.answer = lambda asked: Said(503, "", (("Retry-After", "3600"),))
    with caplog.at_level(logging.WARNING, "rekindle.storage.google"):
        GoogleFolderClient("box")()(["a", "b"])
    assert {one.path.rpartition("/")[2] for one in deletes(server)} == {"a%2F"} and len(deletes(server)) == 4
    assert caplog.messages == ["Objects that stand for folders stay in gs://box: HTTPError"]


def test_one_that_is_not_there_does_not_keep_the_others_from_being_deleted(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "given")
    server.answer = lambda asked: Said(404)
    GoogleFolderClient("box")()(["a", "b"])
    assert len(deletes(server)) == 2
    assert caplog.messages == []


def test_credentials_that_are_not_found_are_not_looked_for_again(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "gone.json"))
    delete = GoogleFolderClient("box")()
    with caplog.at_level(logging.WARNING, "rekindle.storage.google"):
        delete(["a"])
        monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "given")
        delete(["b"])
    assert server.asked == []
    assert caplog.messages == ["Objects that stand for folders stay in gs://box: DefaultCredentialsError"]
