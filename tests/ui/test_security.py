"""Who is refused what: names of other sites, pages of other sites, requests without the token."""

from __future__ import annotations

import pytest

from tests.ui.kit import http
from tests.ui.world import World

TOKEN = "correct horse"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
STOP = "/api/v1/jobs/healthy/stop"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:8321", "", "10.0.0.7"])
@pytest.mark.parametrize("path", ["/api/v1/jobs", "/metrics", "/v1/jobs/overview", "/healthz", "/"])
def test_a_host_of_another_name_is_refused(address: str, host: str, path: str) -> None:
    answer = http.get(address + path, headers={"Host": host})

    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "HOST_REFUSED"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8321", "[::1]:8321"])
def test_its_own_names_are_good(address: str, host: str) -> None:
    assert http.get(f"{address}/api/v1/jobs", headers={"Host": host}).status_code == 200


def test_another_name_may_be_allowed(world: World, serve) -> None:
    address = serve([world.store], allowed_hosts=("Jobs.example",))

    assert http.get(f"{address}/api/v1/jobs", headers={"Host": "jobs.Example"}).status_code == 200


def test_nothing_is_done_without_the_permission_for_it(address: str) -> None:
    answer = http.post(address + STOP, headers=BEARER)

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "ACTIONS_OFF")


@pytest.mark.parametrize("path", [STOP, "/v1/jobs/0/stop", "/v1/jobs/0/savepoints"])
@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer"}, {"Authorization": "Basic !"}]
)
def test_an_action_needs_the_token(world: World, serve, path: str, headers: dict) -> None:
    address = serve([world.store], allow_actions=True, token=TOKEN)

    answer = http.post(address + path, headers=headers)

    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "TOKEN_WRONG")


def test_the_token_of_a_page_is_in_a_header_of_its_own_and_no_browser_asks_for_it(world: World, serve) -> None:
    address = serve([world.store], host="0.0.0.0", allow_actions=True, token=TOKEN)
    place = f"{address}/api/v1/jobs"
    of_the_proxy = ("ann", "the password of the proxy")

    assert http.get(place, headers={"X-Rekindle-Token": TOKEN}, auth=of_the_proxy).status_code == 200
    for token in ("", "wrong"):
        refused = http.get(place, headers={"X-Rekindle-Token": token}, auth=("any", TOKEN))
        assert refused.status_code == 401, "it alone counts: a page that has no token asks for it"
        assert "www-authenticate" not in refused.headers


def test_no_token_is_no_token_that_fits(world: World, serve) -> None:
    address = serve([world.store], allow_actions=True, token=None)

    assert http.post(address + STOP, headers={"Authorization": "Bearer"}).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_site_can_ask_for_nothing(world: World, serve, headers: dict) -> None:
    address = serve([world.store], allow_actions=True, token=TOKEN)

    answer = http.post(address + STOP, headers={**BEARER, **headers})

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "ORIGIN_REFUSED")


@pytest.mark.parametrize("verb", ["checkpoint", "savepoint", "stop", "drain", "cancel"])
def test_no_action_is_done_by_get(world: World, serve, verb: str) -> None:
    address = serve([world.store], allow_actions=True, token=TOKEN)

    assert http.get(f"{address}/api/v1/jobs/healthy/{verb}", headers=BEARER).status_code == 404
    assert world.store.names("healthy/control") == []


def test_a_reader_over_the_network_needs_the_token(world: World, serve) -> None:
    address = serve([world.store], host="0.0.0.0", token=TOKEN)

    for path in ("/api/v1/jobs", "/metrics", "/v1/jobs", "/openapi.json", "/"):
        refused = http.get(address + path)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Basic ")
    assert http.get(f"{address}/api/v1/jobs", headers=BEARER).status_code == 200
    assert http.get(f"{address}/api/v1/jobs", auth=("anyone", TOKEN)).status_code == 200
    assert http.get(f"{address}/api/v1/jobs", auth=("anyone", "wrong")).status_code == 401
    assert http.get(f"{address}/healthz").status_code == 200
    assert http.get(f"{address}/healthz", headers={"Host": "10.0.0.7:8321"}).status_code == 200
    assert http.get(f"{address}/healthz", headers={"Host": "evil.example"}).status_code == 403


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/jobs/nothing", "/metrics", "/v1/jobs", "/healthz"])
def test_no_answer_may_be_framed_sniffed_or_read_by_other_sites(address: str, path: str) -> None:
    headers = http.get(address + path, headers={"Origin": "http://evil.example"}).headers

    assert headers["content-security-policy"].startswith("default-src 'self'; frame-ancestors 'none'")
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers
