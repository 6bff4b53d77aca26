"""Buckets of S3 and Google and containers of Azure: their addresses, the client of each, and what it answers.

Accounts, credentials and servers of one's own are those of the environment, a file of the cloud's own tools, or the
machine's identity; `obstore` looks for them. None are in an address.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from rekindle.errors import StorageError
from rekindle.storage.aws import FolderClient, S3Client, options_of
from rekindle.storage.google import GoogleFolderClient
from rekindle.storage.port import check_path
from rekindle.storage.said import refused_environment

_ADDRESS = re.compile(r"(s3a?|abfss?|az|gs)://(.*)", re.DOTALL)
_ACCOUNT_HOST = re.compile(r"([a-z0-9]{3,24})\.(?:dfs|blob)\.([a-z0-9.-]+)")
_CONTAINER = re.compile(r"[a-z0-9$][a-z0-9-]{2,62}")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_GOOGLES = re.compile(r"[a-z0-9][a-z0-9._-]{1,221}")
_ACCOUNT = "AZURE_STORAGE_ACCOUNT_NAME"
_IS_FOLDER = "hdi_isfolder"
_ENVIRONMENT = ("AWS_", "AZURE_", "GOOGLE_", "GCE_", "IDENTITY_")

_CLIENTS = 64
"""The most clients to keep: a program that renews its token in the environment leaves one with each."""


@dataclass(frozen=True, slots=True)
class BucketFolder:
    """A container or bucket, and a prefix in it."""

    #: its address, letter for letter as Hadoop has it, without a slash at its end
    root: str
    prefix: str
    #: the extra that brings the library, as in `rekindle[s3]`
    extra: str
    make: Callable[[], Any]
    #: bytes of the largest object that the server copies; None: any
    copied_at_most: int | None = None

    @property
    def shown(self) -> str:
        """The root as a person would name it."""
        return self.root.replace("s3a://", "s3://", 1)


def find_place(uri: str) -> BucketFolder | None:
    """Return the place that an address names; None where the address is of another kind.

    Raises:
        StorageError: ``STORAGE_UNAVAILABLE``, it is no whole address; ``PATH_OUTSIDE``.
    """
    found = _ADDRESS.fullmatch(uri)
    if found is None:
        return None
    top, *parts = found[2].split("/")
    prefix = check_path("/".join(filter(None, parts)), folder=True)
    if found[1] in ("s3", "s3a"):
        return _s3(top, prefix)
    return _google(top, prefix) if found[1] == "gs" else _azure(found[1], top, prefix)


def root_of(uri: str) -> str | None:
    """Return the container or bucket of an address as Hadoop writes it, without a path; None where there is none.

    Raises:
        StorageError: ``STORAGE_UNAVAILABLE``, it is no whole address.
    """
    found = _ADDRESS.fullmatch(uri)
    place = find_place(f"{found[1]}://{found[2].split('/')[0]}") if found else None
    return place.root if place else None


def across(source: BucketFolder, target: BucketFolder) -> BucketFolder | None:
    """Return a place whose client has the server copy objects of one into the other; None: no server has both."""
    if source.root == target.root:
        return replace(target, prefix="")
    if isinstance(source.make, S3Client) and isinstance(target.make, S3Client):
        return replace(target, prefix="", make=S3Client(target.make.bucket, source.make.bucket))
    return None


def folder_client(place: BucketFolder) -> Any:
    """Return a function that deletes objects that stand for folders; None for a container, whose client can."""
    match place.make:
        case S3Client(bucket=bucket):
            return client(replace(place, make=FolderClient(bucket)))
        case _GoogleClient(bucket=bucket):
            return client(replace(place, make=GoogleFolderClient(bucket)))
    return None


def makes_each_folder(place: BucketFolder) -> bool:
    """Return True where Spark's connector makes an object for each folder, and not for the deepest alone."""
    return isinstance(place.make, _GoogleClient)


def client(place: BucketFolder) -> Any:
    """Return the client of a place, one for this process and its environment.

    Raises:
        StorageError: ``STORAGE_LIBRARY_MISSING``; ``STORAGE_CREDENTIALS_MISSING``; ``STORAGE_UNAVAILABLE``, what the
            environment says is refused.
    """
    # Not by `items`, which decodes all values: that took as long as a request to a bucket takes of a processor.
    environment = {name: os.environ[name] for name in os.environ if name.startswith(_ENVIRONMENT)}
    try:
        return _client(place.root, place.make, os.getpid(), *sorted(environment.items()))
    except ModuleNotFoundError as error:
        raise StorageError("STORAGE_LIBRARY_MISSING", uri=place.root, library=error.name, extra=place.extra) from error
    except Exception as error:
        code, reason = refused_environment(error)
        raise StorageError(code, uri=place.shown, reason=reason) from None


@lru_cache(maxsize=_CLIENTS)
def _client(root: str, make: Callable[[], Any], *_: object) -> Any:
    """Make one client for each place, process and environment."""
    return make()


@dataclass(frozen=True, slots=True)
class _AzureClient:
    container: str
    account: str
    endpoint: str

    def __call__(self) -> Any:
        from obstore.store import AzureStore

        # An emulator has the account in its path.
        endpoint = os.environ.get("AZURE_STORAGE_ENDPOINT") or os.environ.get("AZURE_ENDPOINT") or self.endpoint
        options = options_of(endpoint)
        if authority := os.environ.get("AZURE_AUTHORITY_HOST"):
            # Kubernetes gives it with a slash at its end, and a path with a slash more is appended.
            options["authority_host"] = authority.rstrip("/")
        return AzureStore(self.container, account_name=self.account, endpoint=endpoint, **options)


@dataclass(frozen=True, slots=True)
class _GoogleClient:
    bucket: str

    def __call__(self) -> Any:
        from obstore.store import GCSStore

        return GCSStore(self.bucket, **options_of(os.environ.get("GOOGLE_BASE_URL", "")))


def _azure(scheme: str, top: str, prefix: str) -> BucketFolder:
    if scheme == "az":
        account, domain, container = os.environ.get(_ACCOUNT, ""), "core.windows.net", top
        if not account:
            reason = f"{_ACCOUNT} is not set; or use abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX"
            raise StorageError("STORAGE_UNAVAILABLE", uri="az://...", reason=reason)
    else:
        container, _, host = top.partition("@")
        parts = _ACCOUNT_HOST.fullmatch(host)
        account, domain = parts.groups() if parts else ("", "")
    if not (_CONTAINER.fullmatch(container) and _ACCOUNT_HOST.fullmatch(f"{account}.dfs.{domain}")):
        form = "az://CONTAINER" if scheme == "az" else f"{scheme}://CONTAINER@ACCOUNT.dfs.core.windows.net"
        raise _no_address(scheme, form)
    # Hadoop's abfs is the same without TLS: for an emulator.
    root = f"{'abfs' if scheme == 'abfs' else 'abfss'}://{container}@{account}.dfs.{domain}"
    make = _AzureClient(container, account, f"https://{account}.blob.{domain}")
    return BucketFolder(root, prefix, "azure", make)


def _s3(bucket: str, prefix: str) -> BucketFolder:
    if not _BUCKET.fullmatch(bucket):
        raise _no_address("s3", "s3://BUCKET")
    return BucketFolder(f"s3a://{bucket}", prefix, "s3", S3Client(bucket), copied_at_most=5 << 30)


def _google(bucket: str, prefix: str) -> BucketFolder:
    if not _GOOGLES.fullmatch(bucket):
        raise _no_address("gs", "gs://BUCKET")
    return BucketFolder(f"gs://{bucket}", prefix, "gcs", _GoogleClient(bucket))


def _no_address(scheme: str, form: str) -> StorageError:
    reason = f"it does not begin with {form} (pass credentials in the environment)"
    return StorageError("STORAGE_UNAVAILABLE", uri=f"{scheme}://...", reason=reason)


def stands_for_a_folder(found: Any) -> bool:
    """Return whether an object says that it is a folder, as the empty objects that Hadoop makes on Azure do."""
    return not found.meta["size"] and str(found.attributes.get(_IS_FOLDER, "")).lower() == "true"
