"""The contract of a store on servers that speak the language of S3, what is different there, and who asks them."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rekindle.errors import StorageError
from rekindle.storage import aws, clouds
from rekindle.storage.objects import ObjectStore
from rekindle.storage.open import open_store
from rekindle.storage.port import NotFound
from tests.servers.counting import counting
from tests.servers.relay import Relay, relay_to
from tests.servers.s3 import KEY, SECRET, S3Server
from tests.servers.versity import VersityServer
from tests.storage.bucket_contract import BucketContract, opened, refuse


def missed(store: ObjectStore) -> None:
    with pytest.raises(NotFound):
        store.read("missing")


class TestOnS3(BucketContract):
    @pytest.fixture
    def server(self, s3: S3Server) -> S3Server:
        return s3

    @pytest.fixture
    def root(self, server: S3Server) -> str:
        return f"s3a://{server.make_bucket()}"

    @pytest.fixture
    def bucket(self, root: str) -> str:
        return root.removeprefix("s3a://")

    @pytest.fixture
    def relay(self, server: S3Server, store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Relay]:
        with relay_to(server.port) as relay:
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{relay.port}")
            yield relay

    def test_its_objects_lie_where_it_says(self, server: S3Server, store: ObjectStore, bucket: str) -> None:
        store.create("a/ü b%20.json", b"one")
        assert server.client.cat_file(f"{bucket}/state/of jobs/a/ü b%20.json") == b"one"
        assert store.spark_path("a/ü%") == f"s3a://{bucket}/state/of jobs/a/ü%"
        assert store.uri("a/ü%") == f"s3a://{bucket}/state/of%20jobs/a/ü%25"

    def test_it_lists_more_than_the_server_tells_at_once_and_deletes_as_many(
        self, server: S3Server, bucket: str
    ) -> None:
        store = opened(f"s3://{bucket}/of jobs")
        server.client.pipe({f"{bucket}/of jobs/many/{number:04d}": b"" for number in range(1_100)})
        assert store.names("many") == [f"{number:04d}" for number in range(1_100)]
        store.delete_tree("many")
        assert store.names("") == []

    @pytest.mark.parametrize(
        ("act", "requests"),
        [
            (lambda store: store.read("there"), {"GET": 1}),
            (missed, {"GET": 1}),
            (lambda store: store.exists("there"), {"HEAD": 1}),
            (lambda store: store.exists("missing"), {"HEAD": 1, "LIST": 1}),
            (lambda store: store.create("new", b"1"), {"PUT": 1}),
            (lambda store: store.create("there", b"1"), {"PUT": 1, "HEAD": 1}),
            (lambda store: store.replace("there", b"1"), {"PUT": 1}),
            (lambda store: store.names(""), {"LIST": 1}),
            (lambda store: store.delete("there"), {"DELETE many": 1}),
            (lambda store: store.delete_many(["there", "missing"]), {"DELETE many": 1}),
            (lambda store: store.delete_trees("", ["there"]), {"LIST": 1, "DELETE many": 1}),
        ],
    )
    def test_what_each_call_asks_is_as_little_as_can_be(
        self,
        server: S3Server,
        bucket: str,
        monkeypatch: pytest.MonkeyPatch,
        act: Callable[[ObjectStore], object],
        requests: dict[str, int],
    ) -> None:
        opened(f"s3://{bucket}").create("there", b"0")
        with counting(server.port) as (port, counted):
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
            act(opened(f"s3://{bucket}"))
            assert counted.so_far() == {("Rekindle", kind): count for kind, count in requests.items()}

    def test_objects_that_stand_for_folders_are_not_listed_and_go_with_their_folder(
        self, server: S3Server, store: ObjectStore, bucket: str
    ) -> None:
        for name in ("f/", "f/empty/", "f/x", "g/a/", "g/b/c/", "g/b/d", "h/"):
            server.client.call_s3("put_object", Bucket=bucket, Key=f"state/of jobs/{name}", Body=b"")
        assert [entry.path for entry in store.walk("f")] == ["f/x"]
        assert store.names("f") == ["empty", "x"]
        store.delete_tree("f")
        store.delete_trees("g", ["b"])
        assert server.keys(bucket) == ["state/of jobs/g/a/", "state/of jobs/h/"]

    def test_a_copy_from_another_bucket_is_made_by_the_server(
        self, server: S3Server, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.create("a/ü b", b"one")
        other = opened(f"s3://{server.make_bucket()}/elsewhere")
        monkeypatch.setattr(store, "open", refuse)
        assert other.copy_from(store, "a/ü b", "c d") == 3
        assert other.read("c d") == b"one"
        with pytest.raises(NotFound, match="a/none"):
            other.copy_from(store, "a/none", "c")

    def test_an_object_that_is_too_large_for_the_server_to_copy_is_copied_in_parts(self, root: str) -> None:
        place = clouds.find_place(f"{root}/x")
        assert place is not None
        assert place.copied_at_most == 5 << 30  # what S3 says
        store = ObjectStore(replace(place, copied_at_most=1_000))
        data = bytes(range(250)) * 5
        store.create("a", data)
        assert store.copy("a", "b") == len(data)
        store.move("b", "c")
        assert (store.names(""), store.read("c")) == (["a", "c"], data)

    def test_a_create_beside_another_that_is_under_way_waits_for_it(self, store: ObjectStore, relay: Relay) -> None:
        relay.answer_instead([409, 409, 409], of="/a")
        assert store.create("a", b"mine") is True
        relay.answer_instead([409], of="/a")
        assert store.create("a", b"not mine") is False

    def test_credentials_that_are_refused_are_an_error_that_tells_none_of_them(
        self, root: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret")
        store = opened(root)
        acts: list[Callable[[], Any]] = [store.check, lambda: store.read("a"), lambda: store.names("")]
        codes = []
        for act in (*acts, lambda: store.delete_tree("a")):
            with pytest.raises(StorageError) as caught:
                act()
            codes.append(caught.value.code)
            told = "".join(traceback.format_exception(caught.value))
            assert not any(word in told for word in (SECRET, "wrong-secret"))
        assert codes == ["STORAGE_READ_ONLY", "STORAGE_UNAVAILABLE", "STORAGE_UNAVAILABLE", "STORAGE_UNAVAILABLE"]


@pytest.mark.slow
class TestOnVersity(TestOnS3):
    many = 2_100

    @pytest.fixture
    def server(self, versity: VersityServer) -> S3Server:
        return versity


# -- who asks ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def without_keys(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """An environment that leads to the server, and has no credentials."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return s3


KEYS = f"aws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
PROCESS = json.dumps({"Version": 1, "AccessKeyId": KEY, "SecretAccessKey": SECRET})


@pytest.mark.parametrize(
    ("config", "credentials", "profile"),
    [
        ("", f"[default]\n{KEYS}", None),
        ("[profile work]\nregion = eu-central-1\n", f"[work]\n{KEYS}", "work"),
        ("[profile tool]\ncredential_process = cat FOLDER/said\n", "", "tool"),
    ],
    ids=["the default profile", "a profile", "a process"],
)
def test_credentials_are_found_where_aws_s_own_tools_find_them(
    without_keys: S3Server,
    config: str,
    credentials: str,
    profile: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "said").write_text(PROCESS)
    (tmp_path / "AWS_CONFIG_FILE").write_text(config.replace("FOLDER", str(tmp_path)))
    (tmp_path / "AWS_SHARED_CREDENTIALS_FILE").write_text(credentials)
    if profile:
        monkeypatch.setenv("AWS_PROFILE", profile)
    store = opened(f"s3://{without_keys.make_bucket()}/x")
    assert store.create("a", b"one")
    store.delete_tree("a")
    assert store.names("") == []


def test_the_server_of_a_profile_is_asked(
    without_keys: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv("AWS_PROFILE", "ours")
    (tmp_path / "AWS_CONFIG_FILE").write_text(f"[profile ours]\nendpoint_url = {without_keys.endpoint}\n{KEYS}")
    assert opened(f"s3://{without_keys.make_bucket()}/x").create("a", b"one")


def test_an_environment_without_credentials_is_an_error_that_says_so(without_keys: S3Server) -> None:
    with pytest.raises(StorageError, match="NoCredentialsError") as caught:
        open_store("s3://bucket/x").read("a")
    assert caught.value.code == "STORAGE_CREDENTIALS_MISSING"


@pytest.mark.parametrize(
    ("region", "more", "address"),
    [
        ("eu-central-1", {}, "https://box.s3.eu-central-1.amazonaws.com"),
        ("cn-north-1", {}, "https://box.s3.cn-north-1.amazonaws.com.cn"),
        ("us-west-2", {"AWS_USE_FIPS_ENDPOINT": "true"}, "https://box.s3-fips.us-west-2.amazonaws.com"),
        ("us-west-2", {"AWS_USE_DUALSTACK_ENDPOINT": "true"}, "https://box.s3.dualstack.us-west-2.amazonaws.com"),
    ],
)
def test_a_bucket_of_aws_is_asked_by_a_name_of_its_own_in_its_own_region(
    without_keys: S3Server, region: str, more: dict[str, str], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from botocore.session import get_session

    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    for name, value in more.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(aws, "_region_of", lambda bucket, asked: region)
    assert aws._reached(get_session(), "box") == (region, address)
    assert aws._reached(get_session(), "a.box")[1].endswith(".us-east-1.amazonaws.com/a.box")


@pytest.mark.parametrize(
    ("uri", "location"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3a://bucket/a b//c%20/", "s3://bucket/a b/c%20"),
    ],
)
def test_an_address_is_a_bucket_and_a_prefix(uri: str, location: str) -> None:
    assert open_store(uri).location == location


@pytest.mark.parametrize("uri", ["s3://", "s3:///x", "s3://AKIA:secret@bucket/x"])
def test_an_address_without_a_bucket_or_with_credentials_is_refused_and_not_shown(uri: str) -> None:
    with pytest.raises(StorageError) as caught:
        open_store(uri)
    assert caught.value.code == "STORAGE_UNAVAILABLE"
    assert "secret" not in str(caught.value)


def test_a_prefix_that_leads_elsewhere_is_refused() -> None:
    with pytest.raises(StorageError) as caught:
        open_store("s3://bucket/a/../b")
    assert caught.value.code == "PATH_OUTSIDE"
