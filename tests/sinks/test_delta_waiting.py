"""While delta-rs waits for a server, the other threads of the driver run: one of them says that the job is alive."""

from __future__ import annotations

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("obstore")

from rekindle.sinks import Delta
from rekindle.sinks.owners import Claim
from tests.servers.fake import Asked, Said, fake_server


def an_empty_bucket(asked: Asked) -> Said:
    is_list = "list-type" in asked.query
    return Said(200, "<ListBucketResult><Name>box</Name></ListBucketResult>") if is_list else Said(404)


def test_others_run_while_a_table_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is a thread here, so that it cannot answer while the one who asks lets no other thread run."""
    with fake_server(an_empty_bucket) as server:
        settings = {
            "ENDPOINT_URL": server.url,
            "ACCESS_KEY_ID": "one",
            "SECRET_ACCESS_KEY": "two",
            "REGION": "us-east-1",
        }
        for name, value in settings.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        claim = Claim(owner="job", sink="out", storage="here", now_ms=0)
        assert Delta("s3://box/a table").examine(claim, None) is None
        assert any("_delta_log" in asked.query.get("prefix", "") for asked in server.asked)
