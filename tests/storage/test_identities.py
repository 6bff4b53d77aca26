"""Credentials that an endpoint gives out beside a machine, a container or a pod, and those that come before them.

Each endpoint is a small server that answers as the cloud's own does. What it gives out is shown to a bucket, which is a
small server too. Each secret begins with the same word, so that it is easily looked for.
"""

from __future__ import annotations

import base64
import itertools
import json
import logging
import os
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import rekindle as rk
from rekindle.errors import StorageError
from rekindle.storage import aws, clouds
from rekindle.storage.open import open_store
from tests.servers.fake import Asked, FakeServer, Said, an_object, fake_server
from tests.waiting import until

pytest.importorskip("obstore")
pytest.importorskip("botocore")

SECRET = "hush"
_BUCKETS = itertools.count(1)
Headers = tuple[tuple[str, str], ...]


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that says nothing of any cloud, and a home without a file of one."""
    for name in os.environ:
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "GCE_", "IDENTITY_", "MSI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    """A bucket of each cloud, in which each object is there."""
    with fake_server(lambda asked: an_object("one")) as served:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", served.url)
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", f"{served.url}/account")
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
        monkeypatch.setenv("GOOGLE_BASE_URL", served.url)
        yield served


@dataclass
class Endpoint:
    """What gives out credentials: each time others, most of which end soon, so that they are asked for again."""

    port: int = 0
    given: int = 0
    #: instead of credentials
    refuses: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, asked: Asked) -> Said:
        if self.refuses:  # in the worst way: it says what it was sent
            secrets = [said for said in (*asked.headers.values(), asked.body) if SECRET in said]
            return Said(self.refuses, json.dumps(secrets))
        if asked.path == "/latest/api/token":
            assert asked.method == "PUT"
            return Said(200, f"{SECRET}-session", (("x-aws-ec2-metadata-token-ttl-seconds", "21600"),))
        if asked.path.startswith("/latest/") and asked.headers["x-aws-ec2-metadata-token"] != f"{SECRET}-session":
            return Said(401)
        if asked.path.endswith("/security-credentials/"):
            return Said(200, "role")
        self.given += 1
        if "Action" in asked.form:
            return Said(200, self._of_sts())
        minutes = 60 if asked.path.startswith("/latest/") else 5  # of a machine they would be used for longer
        return Said(200, json.dumps({**self._of_aws(minutes), **self._of_others()}))

    def _of_aws(self, minutes: int) -> dict[str, str]:
        ends = (datetime.now(timezone.utc) + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
        found = {"AccessKeyId": "KEY", "SecretAccessKey": f"{SECRET}-key", "Token": f"{SECRET}-{self.given}"}
        return {"Code": "Success", "Type": "AWS-HMAC", "LastUpdated": ends, "Expiration": ends, **found}

    def _of_others(self) -> dict[str, Any]:
        ends = {"expires_on": str(round(time.time()) + 60), "expires_in": 60}
        return {"access_token": f"{SECRET}-{self.given}", "token_type": "Bearer", **ends}

    def _of_sts(self) -> str:
        said = self._of_aws(minutes=5)
        names = {"AccessKeyId": "AccessKeyId", "SecretAccessKey": "SecretAccessKey", "Token": "SessionToken"}
        names["Expiration"] = "Expiration"
        found = "".join(f"<{name}>{said[key]}</{name}>" for key, name in names.items())
        action = "AssumeRoleWithWebIdentity"
        return (
            f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result><Credentials>{found}'
            f"</Credentials></{action}Result></{action}Response>"
        )


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    with fake_server(made.answer) as served:
        made.port = served.port
        yield made


@dataclass(frozen=True)
class Identity:
    """A way in which a cloud tells a program who it is."""

    cloud: str
    #: variables, given the address of the endpoint and a file with a secret
    said: Callable[[str, str], dict[str, str]]

    @property
    def root(self) -> str:
        """A bucket that no other test has asked: its client is new."""
        return f"{self.cloud}://bucket-{next(_BUCKETS)}"


POD = {"AZURE_TENANT_ID": "tenant", "AZURE_CLIENT_ID": "client"}
ROLE = {"AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/r", "AWS_ROLE_SESSION_NAME": "tests"}

IDENTITIES = {
    "a machine of AWS": Identity(
        "s3", lambda url, file: {"AWS_EC2_METADATA_SERVICE_ENDPOINT": url, "AWS_EC2_METADATA_DISABLED": "false"}
    ),
    "a container of AWS": Identity(
        "s3",
        lambda url, file: {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{url}/role",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": file,
        },
    ),
    "a pod of AWS": Identity(
        "s3", lambda url, file: {**ROLE, "AWS_WEB_IDENTITY_TOKEN_FILE": file, "AWS_ENDPOINT_URL_STS": url}
    ),
    "a machine of Azure": Identity("az", lambda url, file: {"AZURE_MSI_ENDPOINT": f"{url}/metadata/identity"}),
    "an app of Azure": Identity(
        "az", lambda url, file: {"IDENTITY_ENDPOINT": f"{url}/msi/token", "IDENTITY_HEADER": f"{SECRET}-header"}
    ),
    "a pod of Azure": Identity(
        "az", lambda url, file: {**POD, "AZURE_FEDERATED_TOKEN_FILE": file, "AZURE_AUTHORITY_HOST": f"{url}/"}
    ),
    "a principal of Azure": Identity(
        "az", lambda url, file: {**POD, "AZURE_CLIENT_SECRET": f"{SECRET}-client", "AZURE_AUTHORITY_HOST": url}
    ),
    "a machine of Google": Identity(
        "gs", lambda url, file: dict.fromkeys(("GCE_METADATA_HOST", "GCE_METADATA_IP"), url.removeprefix("http://"))
    ),
}
each = pytest.mark.parametrize("identity", IDENTITIES.values(), ids=IDENTITIES.keys())


@pytest.fixture
def root(identity: Identity, endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "token").write_text(f"{SECRET}-of-a-file")
    for name, value in identity.said(endpoint.url, str(tmp_path / "token")).items():
        monkeypatch.setenv(name, value)
    return identity.root


def shown(asked: Asked) -> str:
    """The token that came with a request."""
    return asked.headers.get("x-amz-security-token") or asked.headers["authorization"].removeprefix("Bearer ")


@each
def test_credentials_of_an_endpoint_are_renewed_before_they_expire(
    root: str, identity: Identity, bucket: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    store = open_store(f"{root}/x")
    assert store.read("a") == b"one"
    first = shown(bucket.asked[-1])
    assert first.startswith(f"{SECRET}-")
    if identity.cloud == "s3":  # it keeps them for ten minutes
        provider = aws._Credentials(__import__("botocore.session").session.get_session())
        before = provider()["token"]
        if "AWS_EC2_METADATA_SERVICE_ENDPOINT" in os.environ:
            provider._found._time_fetcher = lambda: datetime.now(timezone.utc) + timedelta(minutes=50)
        assert provider()["token"] != before
    else:
        until(lambda: store.read("a") and shown(bucket.asked[-1]) != first)
    assert SECRET not in caplog.text
    assert SECRET not in store.location + store.uri("a")


@each
@pytest.mark.parametrize("status", [403, 404])
def test_an_endpoint_that_refuses_is_an_error_which_shows_nothing_that_it_was_sent(
    root: str, status: int, endpoint: Endpoint, bucket: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    endpoint.refuses = status
    store = open_store(f"{root}/x")
    with pytest.raises(StorageError) as caught:
        store.read("a")
    assert caught.value.code == "STORAGE_CREDENTIALS_MISSING"
    assert "which-credentials" in caught.value.next_step
    told = "".join(traceback.format_exception(caught.value))
    assert SECRET not in told + caplog.text
    assert [record.exc_info for record in caplog.records if record.exc_info] == []
    assert bucket.asked == []

    endpoint.refuses = 0
    assert store.read("a") == b"one"


def test_no_act_takes_an_endpoint_that_refuses_for_an_empty_bucket(
    endpoint: Endpoint, bucket: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint.refuses = 404
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"{endpoint.url}/msi/token")
    store = open_store("az://bucket/x")
    acts = (
        store.check,
        lambda: store.names(""),
        lambda: list(store.walk("")),
        lambda: store.exists("a"),
        lambda: store.create("a", b""),
        lambda: store.replace("a", b""),
        lambda: store.delete("a"),
        lambda: rk.Files("az://bucket/x/in").list_files("history"),
    )
    for act in acts:
        with pytest.raises(StorageError) as caught:
            act()
        assert caught.value.code == "STORAGE_CREDENTIALS_MISSING"


def test_a_pod_whose_file_is_missing_is_an_error_that_says_so(
    bucket: FakeServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in {**POD, **ROLE}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "none"))
    for root, said in (("az://bucket-of-a-pod", "federated token file"), ("s3://bucket-of-a-pod", "none")):
        with pytest.raises(StorageError, match=said) as caught:
            open_store(root).read("a")
        assert caught.value.code == "STORAGE_CREDENTIALS_MISSING"


# -- service accounts of Google ----------------------------------------------------------------------------------------


def service_account(name: str) -> tuple[dict[str, str], Any]:
    """A service account and its public key."""
    rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    said = {"type": "service_account", "private_key_id": "1", "private_key": text, "client_email": name}
    return said, key.public_key()


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


@pytest.mark.parametrize(
    "given",
    [{"AZURE_STORAGE_ACCOUNT_KEY": f"{SECRET} is no key"}, {"AZURE_STORAGE_SAS_TOKEN": f"{SECRET} is no token"}],
    ids=["a key", "a token"],
)
def test_an_unusable_identity_of_azure_is_an_error_that_does_not_show_it(
    given: dict[str, str], bucket: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StorageError) as caught:
        open_store("az://bucket-of-nobody/x").read("a")
    assert caught.value.code == "STORAGE_CREDENTIALS_MISSING"
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_service_account_of_google_signs_for_itself(
    bucket: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    said, key = service_account("me@x.iam.gserviceaccount.com")
    (tmp_path / "account.json").write_text(json.dumps(said))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
    assert open_store("gs://bucket-of-an-account/x").read("a") == b"one"
    signed, _, signature = shown(bucket.asked[-1]).rpartition(".")
    key.verify(_decoded(signature), signed.encode(), PKCS1v15(), SHA256())
    assert json.loads(_decoded(signed.partition(".")[2]))["iss"] == said["client_email"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        (json.dumps({"type": "external_account", "audience": f"{SECRET}-1"}), "unknown variant `external_account`"),
        (json.dumps({"type": "service_account", "private_key": f"{SECRET}-1"}), "missing field"),
        (json.dumps({"type": "service_account", "private_key": {SECRET: 1}}), "Unable to decode"),
        (json.dumps({**service_account("me")[0], "private_key": f"{SECRET}-1"}), "Error reading pem file"),
    ],
)
def test_a_file_of_google_that_is_no_account_is_an_error_that_shows_nothing_of_it(
    text: str | None, said: str, bucket: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "account.json"
    if text is not None:
        file.write_text(text)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    with pytest.raises(StorageError, match=said) as caught:
        open_store("gs://bucket-of-no-account/x").read("a")
    assert caught.value.code == "STORAGE_CREDENTIALS_MISSING"
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert bucket.asked == []


# -- which comes first -------------------------------------------------------------------------------------------------


def test_the_order_in_which_credentials_are_looked_for_on_azure(
    endpoint: Endpoint, bucket: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("of a file")
    tool = tmp_path / "az"
    said = {"accessToken": "of-the-tool", "expiresOn": "2099-01-01 00:00:00.000000", "tokenType": "Bearer"}
    tool.write_text(f"#!/bin/sh\necho '{json.dumps({**said, 'subscription': 's', 'tenant': 't'})}'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    order = {
        "AZURE_STORAGE_TOKEN": "given",
        "AZURE_STORAGE_ACCOUNT_KEY": "aHVzaA==",
        "AZURE_FEDERATED_TOKEN_FILE": str(tmp_path / "token"),
        "AZURE_CLIENT_SECRET": "secret",
        "AZURE_STORAGE_SAS_TOKEN": "sv=2023-11-03&sig=signed",
        "AZURE_USE_AZURE_CLI": "true",
    }
    always = {**POD, "AZURE_AUTHORITY_HOST": endpoint.url, "IDENTITY_ENDPOINT": f"{endpoint.url}/msi/token"}
    for name, value in {**order, **always}.items():
        monkeypatch.setenv(name, value)
    found = []
    for name in (*order, None):
        before = endpoint.given
        assert open_store(f"az://bucket-{next(_BUCKETS)}/x").read("a") == b"one"
        asked = bucket.asked[-1]
        token = asked.headers.get("authorization", "").split(":")[0]
        found.append("an endpoint" if endpoint.given > before else token or f"sig={asked.query['sig']}")
        if name:
            monkeypatch.delenv(name)
    keys = ["Bearer given", "SharedKey account", "an endpoint", "an endpoint", "sig=signed", "Bearer of-the-tool"]
    assert found == [*keys, "an endpoint"]


def test_the_order_in_which_credentials_are_looked_for_on_google(
    endpoint: Endpoint, bucket: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"GOOGLE_SERVICE_ACCOUNT": tmp_path / "one.json", "GOOGLE_APPLICATION_CREDENTIALS": tmp_path / "two.json"}
    of_the_tool = tmp_path / ".config/gcloud/application_default_credentials.json"
    of_the_tool.parent.mkdir(parents=True)
    for name, file in (*files.items(), ("the tool", of_the_tool)):
        file.write_text(json.dumps(service_account(name)[0]))
    for name, file in files.items():
        monkeypatch.setenv(name, str(file))
    for name in ("GCE_METADATA_HOST", "GCE_METADATA_IP"):
        monkeypatch.setenv(name, f"127.0.0.1:{endpoint.port}")
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "given")

    def issuer() -> str:
        assert open_store(f"gs://bucket-{next(_BUCKETS)}/x").read("a") == b"one"
        token = shown(bucket.asked[-1])
        return json.loads(_decoded(token.split(".")[1]))["iss"] if "." in token else token

    found = []
    for name in ("GOOGLE_BEARER_TOKEN", *files):
        found.append(issuer())
        monkeypatch.delenv(name)
    found.append(issuer())
    of_the_tool.unlink()
    found.append(issuer())
    assert found == ["given", *files, "the tool", f"{SECRET}-1"]


def test_tokens_that_are_renewed_in_the_environment_leave_a_bounded_number_of_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bucket = clouds.BucketFolder(root="s3a://bucket", prefix="", extra="s3", make=object)
    for number in range(100):
        monkeypatch.setenv("AWS_SESSION_TOKEN", f"{SECRET}{number}")
        clouds.client(bucket)
    assert clouds._client.cache_info().currsize == 64


def test_another_endpoint_in_the_environment_is_another_client(
    endpoint: Endpoint, bucket: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store("gs://bucket-of-two-machines/x")
    for name in ("GCE_METADATA_HOST", "GCE_METADATA_IP"):
        monkeypatch.setenv(name, f"127.0.0.1:{endpoint.port}")
    assert store.read("a") == b"one"
    with fake_server(lambda asked: Said(200, json.dumps({"access_token": "other", "expires_in": 3_600}))) as other:
        for name in ("GCE_METADATA_HOST", "GCE_METADATA_IP"):
            monkeypatch.setenv(name, f"127.0.0.1:{other.port}")
        assert store.read("a") == b"one"
        assert shown(bucket.asked[-1]) == "other"


def test_the_order_in_which_credentials_are_looked_for_on_aws(
    endpoint: Endpoint, bucket: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = "aws_access_key_id = {0}\naws_secret_access_key = x\n"
    (tmp_path / "token").write_text("of a file")
    (tmp_path / "said").write_text(json.dumps({"Version": 1, "AccessKeyId": "PROCESS", "SecretAccessKey": "x"}))
    process = f"credential_process = cat {tmp_path / 'said'}\n"
    (tmp_path / "credentials").write_text("[default]\n" + pair.format("FILE"))
    (tmp_path / "config").write_text("[default]\n" + process + pair.format("CONFIG"))

    def without_file() -> None:
        (tmp_path / "credentials").unlink()

    def without_process() -> None:
        (tmp_path / "config").write_text("[default]\n" + pair.format("CONFIG"))

    def without_config() -> None:
        (tmp_path / "config").unlink()

    given = {
        "AWS_ACCESS_KEY_ID": "ENVIRONMENT",
        "AWS_SECRET_ACCESS_KEY": "x",
        **ROLE,
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"),
        "AWS_ENDPOINT_URL_STS": endpoint.url,
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{endpoint.url}/role",
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": endpoint.url,
        "AWS_EC2_METADATA_DISABLED": "false",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)

    def key() -> str:
        before = endpoint.given
        assert open_store(f"s3://bucket-{next(_BUCKETS)}/x").read("a") == b"one"
        found = bucket.asked[-1].headers["authorization"].partition("Credential=")[2].partition("/")[0]
        return "an endpoint" if endpoint.given > before else found

    steps: list[Callable[[], object]] = [
        lambda: monkeypatch.delenv("AWS_ACCESS_KEY_ID"),
        lambda: monkeypatch.delenv("AWS_WEB_IDENTITY_TOKEN_FILE"),
        without_file,
        without_process,
        without_config,
        lambda: monkeypatch.delenv("AWS_CONTAINER_CREDENTIALS_FULL_URI"),
    ]
    found = [key()]
    for step in steps:
        step()
        found.append(key())
    assert found == ["ENVIRONMENT", "an endpoint", "FILE", "PROCESS", "CONFIG", "an endpoint", "an endpoint"]
