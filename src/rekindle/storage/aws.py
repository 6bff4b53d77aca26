"""Buckets of S3 and of servers with the same API: their regions, their addresses and the credentials for them.

`obstore` does the work. Credentials, profiles, regions and endpoints are those that botocore finds, as in every tool of
AWS that is written in Python: keys in the environment, a profile with SSO, an assumed role or a process, the role of a
container, a pod or a machine. So no way to give credentials differs from what a user knows. They are in no document.

`obstore` takes the slash off the end of every name. S3A leaves empty objects whose names end so where it made a folder:
`FolderClient` deletes these, through botocore.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

_FOLDERS_AT_ONCE = 1_000
"""Objects that one request may delete."""
_REGION = "x-amz-bucket-region"
_SECONDS = 5
_KEPT = timedelta(minutes=10)
"""Time for which credentials are used before botocore is asked again: its credentials last at least as long."""
_PATIENCE: Mapping[str, Any] = {"max_retries": 5, "retry_timeout": timedelta(seconds=30)}
"""Retries of a request that was not answered: how many, and for how long in all."""


def options_of(endpoint: str) -> dict[str, Any]:
    """Return the options with which `obstore` asks a server, in any cloud."""
    options = {"allow_http": endpoint.startswith("http://"), "connect_timeout": timedelta(seconds=5)}
    return {"client_options": options, "retry_config": dict(_PATIENCE)}


@dataclass(frozen=True, slots=True)
class S3Client:
    """Make the client of a bucket.

    Args:
        source: a bucket of the same server whose objects are copied into this one; empty: this one.
    """

    bucket: str
    source: str = ""

    def __call__(self) -> Any:
        from botocore.session import get_session
        from obstore.store import S3Store

        session = get_session()
        region, endpoint = _reached(session, self.bucket)
        options = options_of(endpoint)
        if authorities := session.get_config_variable("ca_bundle"):
            options["client_options"]["root_certificate"] = Path(authorities).read_bytes()
        signed = os.environ.get("AWS_SKIP_SIGNATURE", "").lower() not in ("1", "true")
        more: dict[str, Any] = {"credential_provider": _Credentials(session)} if signed else {}
        return S3Store(
            self.source or self.bucket,
            region=region,
            # The address of the bucket, not of the server: of the two, the one that objects are copied into.
            aws_endpoint_url_s3=endpoint,
            virtual_hosted_style_request=True,
            **more,
            **options,
        )


class _Credentials:
    """The credentials of a session, in the form in which `obstore` asks for them."""

    def __init__(self, session: Any) -> None:
        self._found = session.get_credentials()
        if self._found is None:
            raise NoCredentialsError

    def __call__(self) -> dict[str, Any]:
        expires_at = datetime.now(timezone.utc) + _KEPT
        try:
            found = self._found.get_frozen_credentials()
        except Exception as error:
            raise NoCredentialsError(_shown(error)) from None
        return {
            "access_key_id": found.access_key,
            "secret_access_key": found.secret_key,
            "token": found.token or None,
            "expires_at": expires_at,
        }


class NoCredentialsError(LookupError):
    """No credentials were found; AWS's own tools would find none either."""


def _shown(error: Any) -> str:
    """Return what may be said of an error of botocore, whose text may be the whole answer of an endpoint."""
    code = getattr(error, "response", {}).get("Error", {}).get("Code") or getattr(error, "filename", None)
    return ": ".join(filter(None, (type(error).__name__, code)))


def _without_trace(record: logging.LogRecord) -> bool:
    """Take the exception off a warning of botocore, which then raises it."""
    record.exc_info = record.exc_text = None
    return True


logging.getLogger("botocore.credentials").addFilter(_without_trace)


@dataclass(frozen=True, slots=True)
class FolderClient:
    """Make the function that deletes the objects of a bucket that stand for folders."""

    bucket: str

    def __call__(self) -> Callable[[Sequence[str]], None]:
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.session import get_session

        session = get_session()
        client = session.create_client("s3", region_name=_reached(session, self.bucket)[0])

        def delete(folders: Sequence[str]) -> None:
            keys = [{"Key": f"{folder}/"} for folder in folders]
            try:
                for start in range(0, len(keys), _FOLDERS_AT_ONCE):
                    some = {"Objects": keys[start : start + _FOLDERS_AT_ONCE], "Quiet": True}
                    done = client.delete_objects(Bucket=self.bucket, Delete=some)
                    if refused := done.get("Errors"):
                        raise PermissionError(refused[0].get("Message") or refused[0].get("Code"))
            except (BotoCoreError, ClientError) as error:
                raise OSError(str(error)) from error

        return delete


def _reached(session: Any, bucket: str) -> tuple[str, str]:
    """Return the region of a bucket, and its address."""
    from botocore.configprovider import ConfiguredEndpointProvider

    said = os.environ.get("AWS_REGION") or session.get_config_variable("region")
    configured = {"full_config": session.full_config, "scoped_config": session.get_scoped_config()}
    if server := ConfiguredEndpointProvider(**configured, client_name="s3").provide():
        # Few servers but S3 itself give each bucket a host name of its own.
        return said or "us-east-1", f"{server.rstrip('/')}/{bucket}"
    region = said or "us-east-1"
    if "." not in bucket:
        region = _region_of(bucket, region) or region
        return region, f"https://{bucket}.{_host(session, region)}"
    # Its name would not fit the server's certificate.
    return region, f"https://{_host(session, region)}/{bucket}"


def _host(session: Any, region: str) -> str:
    fips = "-fips" if session.get_config_variable("use_fips_endpoint") else ""
    dual = ".dualstack" if session.get_config_variable("use_dualstack_endpoint") else ""
    return f"s3{fips}{dual}.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"


def _region_of(bucket: str, region: str) -> str | None:
    """Ask S3, without credentials, for the region of a bucket; None where its answer names none."""
    import urllib.error
    import urllib.request

    host = f"{bucket}.s3.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"
    request = urllib.request.Request(f"https://{host}/", method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310 # it is https
            return str(answer.headers[_REGION] or "") or None
    except urllib.error.HTTPError as refused:  # as it should be
        return str(refused.headers[_REGION] or "") or None
    except OSError:
        return None
