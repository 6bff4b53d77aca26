"""A storage in a bucket: S3, or a server that speaks its language, through fsspec's `s3fs`.

An object appears whole under its name or not at all, and what was written is seen at once: S3 promises both. What makes
a storage of it is the *conditional put* (``If-None-Match: *``), which has one winner. A server that does not know the
condition may silently write over what is there, so `S3Store.check` tries it.

A put whose answer was lost on the way is sent again by the client, and is then refused for what it has itself written.
So every create gives its object a mark of its own, and one that is refused looks whose mark is there.

There are no folders, only names with slashes. Spark, which reaches the same objects through Hadoop's S3A as
``s3a://...``, leaves empty objects whose names end in a slash where it made a folder: they are not listed, and go with
their folder. Nothing is renamed here; to move an object is to copy it, which the server does.

Endpoint, region and credentials are those of the environment (``AWS_...``, a profile, the machine's role), as for every
client of AWS. They are in no document, and this module passes on what servers say, who do not tell them either.

This module knows bytes and paths, not what is in them.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from typing import Any, BinaryIO, cast

from rekindle.errors import StorageError
from rekindle.storage.addresses import encoded
from rekindle.storage.port import Entry, NotFound, Store, check_path

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MARK = "rekindle-mark"
_PART_BYTES = 16 << 20
"""What is held in memory of an object on its way up; ten thousand of them are the most that an object has."""
_AT_ONCE = 1_000
"""Objects that one request may delete."""
_REFUSED = {"PreconditionFailed", "412"}
_CONFLICTS = {"ConditionalRequestConflict", "409"}
"""Another put or delete of the same name was under way: the condition is to be asked again."""


class S3Store:
    """A `Store` below ``bucket/prefix``. The bucket must exist.

    Args:
        address: what comes after ``s3://``, not encoded.

    Raises:
        StorageError: ``STORAGE_UNAVAILABLE``, it is no address; ``PATH_OUTSIDE``.
    """

    def __init__(self, address: str) -> None:
        bucket, *parts = address.split("/")
        if not _BUCKET.fullmatch(bucket):
            reason = "it does not begin with the name of a bucket (credentials belong into the environment)"
            raise StorageError("STORAGE_UNAVAILABLE", uri="s3://...", reason=reason)
        self._bucket = bucket
        self._prefix = check_path("/".join(filter(None, parts)), folder=True)

    @property
    def location(self) -> str:
        return f"s3://{self.file('')}"

    @property
    def pace(self) -> int:
        return 10

    @property
    def boot_id(self) -> str:
        return ""

    def check(self) -> None:
        probe = f".rekindle-probe-{secrets.token_hex(8)}"
        if not (self.create(probe, b"") and not self.create(probe, b"")):
            raise StorageError("STORAGE_NO_CREATE", uri=self.location)
        self.delete(probe)

    def uri(self, path: str) -> str:
        return encoded(self.spark_path(path))

    def spark_path(self, path: str) -> str:
        return f"s3a://{self.file(path)}"

    def read(self, path: str) -> bytes:
        with self._errors(check_path(path)):
            return bytes(self._files.cat_file(self.file(path)))

    def open(self, path: str) -> BinaryIO:
        with self._errors(check_path(path)):
            self.size(path)  # a folder could be opened as well, and an error would come at the first read
            return cast("BinaryIO", self._files.open(self.file(path), "rb"))

    def exists(self, path: str) -> bool:
        if not path:
            return True  # a bucket has no folders: nothing tells a prefix without objects from one that is not there
        try:
            with self._errors(path):
                self._files.info(self.file(path))
        except NotFound:
            return False
        return True

    def create(self, path: str, data: bytes) -> bool:
        mark = secrets.token_hex(8)
        with self._errors(check_path(path), "STORAGE_READ_ONLY"):
            try:
                self._files.pipe_file(self.file(path), bytes(data), mode="create", Metadata={_MARK: mark})
            except OSError as error:
                if _code(error) in _CONFLICTS:
                    return self.create(path, data)
                if not isinstance(error, FileExistsError) and _code(error) not in _REFUSED:
                    raise
                return self._mark(path) == mark
            return True

    def replace(self, path: str, data: bytes) -> None:
        with self._errors(check_path(path), "STORAGE_READ_ONLY"):
            self._files.pipe_file(self.file(path), bytes(data))

    def names(self, folder: str) -> list[str]:
        below = self._key(folder, "/")
        pages = self._pages(folder, below, Delimiter="/")
        keys = [key for page in pages for key in (*_keys(page), *(some["Prefix"] for some in page["CommonPrefixes"]))]
        return sorted({name for key in keys if (name := key[len(below) :].rstrip("/"))})

    def walk(self, folder: str) -> Iterator[Entry]:
        root, pages = len(self._key("", "/")), self._pages(folder, self._key(folder, "/"))
        # Not every kind of bucket lists in this order.
        for key, size_bytes in sorted(found for page in pages for found in _keys(page).items()):
            if not key.endswith("/"):
                yield Entry(key[root:], size_bytes)

    def unfinished(self, folder: str) -> Iterator[Entry]:
        return iter(())

    def delete(self, path: str) -> None:
        with self._errors(check_path(path), "STORAGE_READ_ONLY"):
            self._files.rm_file(self.file(path))

    def delete_many(self, paths: Sequence[str]) -> None:
        for start in range(0, len(paths), _AT_ONCE):
            some = paths[start : start + _AT_ONCE]
            self._delete_all(some[0], [self._key(check_path(path)) for path in some])

    def delete_tree(self, folder: str) -> None:
        self._delete_all(folder, [self._key(check_path(folder))])
        for page in self._pages(folder, self._key(folder, "/")):
            self._delete_all(folder, list(_keys(page)))

    def delete_trees(self, folder: str, names: Collection[str]) -> None:
        below = self._key(folder, "/")
        doomed = {self._key(f"{folder}/{check_path(name)}" if folder else name) for name in names}
        for page in self._pages(folder, below) if doomed else ():
            found = [key for key in _keys(page) if below + key[len(below) :].split("/", 1)[0] in doomed]
            self._delete_all(folder, found)

    def copy(self, source: str, target: str) -> int:
        check_path(target)
        with self._errors(check_path(source)):
            size_bytes = self.size(source)
            self._files.cp_file(self.file(source), self.file(target))
            return size_bytes

    def copy_from(self, source: Store, path: str, target: str) -> int:
        check_path(target)
        if isinstance(source, S3Store):
            with self._errors(check_path(path)):
                size_bytes = source.size(path)
                # Beyond 5 GB the client has the server copy it in parts.
                self._files.cp_file(source.file(path), self.file(target))
                return size_bytes
        with source.open(path) as file:
            data = file.read(_PART_BYTES)
            if len(data) < _PART_BYTES:
                self.replace(target, data)
                return len(data)
            with self._errors(target, "STORAGE_READ_ONLY"):
                return self._put_in_parts(target, data, file)

    def move(self, source: str, target: str) -> None:
        self.copy(source, target)
        self.delete(source)

    @cached_property
    def _files(self) -> Any:
        return client(self.location)

    def _key(self, path: str, end: str = "") -> str:
        """The name of an object in the bucket; with a slash as `end`, what all below a folder begin with."""
        key = "/".join(part for part in (self._prefix, check_path(path, folder=True)) if part)
        return f"{key}{end}" if key else ""

    def file(self, path: str) -> str:
        """What the client calls an object or folder."""
        return f"{self._bucket}/{self._key(path)}".rstrip("/")

    def _pages(self, folder: str, prefix: str, **more: str) -> Iterator[dict[str, Any]]:
        """What the server lists, a thousand names at a time."""
        token: dict[str, str] | None = {}
        while token is not None:
            with self._errors(folder):
                page = self._files.call_s3("list_objects_v2", Bucket=self._bucket, Prefix=prefix, **more, **token)
            yield {"Contents": [], "CommonPrefixes": [], **page}
            token = {"ContinuationToken": page["NextContinuationToken"]} if page.get("IsTruncated") else None

    def _delete_all(self, folder: str, keys: list[str]) -> None:
        if keys:
            objects = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
            with self._errors(folder, "STORAGE_READ_ONLY"):
                done = self._files.call_s3("delete_objects", Bucket=self._bucket, Delete=objects)
                if refused := done.get("Errors"):
                    raise PermissionError(refused[0].get("Message") or refused[0].get("Code"))

    def _put_in_parts(self, path: str, part: bytes, rest: BinaryIO) -> int:
        """Write an object part by part; it appears when all are there."""
        of = {"Bucket": self._bucket, "Key": self._key(path)}
        upload = {**of, "UploadId": self._files.call_s3("create_multipart_upload", **of)["UploadId"]}
        size_bytes, parts = 0, list[dict[str, Any]]()
        try:
            while part:
                number = len(parts) + 1
                done = self._files.call_s3("upload_part", **upload, PartNumber=number, Body=part)
                parts.append({"PartNumber": number, "ETag": done["ETag"]})
                size_bytes += len(part)
                part = rest.read(_PART_BYTES)
            self._files.call_s3("complete_multipart_upload", **upload, MultipartUpload={"Parts": parts})
        except BaseException:
            with suppress(Exception):  # what went wrong first counts; the server gives up what is left over some time
                self._files.call_s3("abort_multipart_upload", **upload)
            raise
        return size_bytes

    def size(self, path: str) -> int:
        """Bytes of an object; `NotFound` where there is none."""
        info = self._files.info(self.file(path))
        if info["type"] != "file":
            raise NotFound(path)
        return int(info["size"])

    def _mark(self, path: str) -> str | None:
        """Whose create the object is from; None where there is none any more."""
        try:
            head = self._files.call_s3("head_object", Bucket=self._bucket, Key=self._key(path))
        except FileNotFoundError:
            return None
        return cast("str | None", head.get("Metadata", {}).get(_MARK))

    @contextmanager
    def _errors(self, path: str, forbidden: str = "STORAGE_UNAVAILABLE") -> Iterator[None]:
        """Turn what the client raises into an error of ours; what is missing is `NotFound`, except the bucket."""
        try:
            yield
        except (StorageError, NotFound):
            raise
        except Exception as error:
            if isinstance(error, FileNotFoundError) and _code(error) != "NoSuchBucket":
                raise NotFound(path) from None
            code = forbidden if isinstance(error, PermissionError) else "STORAGE_UNAVAILABLE"
            said = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise StorageError(code, uri=self.location, reason=f"{said} ({path or 'its root'})") from error


def client(uri: str) -> Any:
    """Return the client of the server that the environment names, one for this process.

    Raises:
        StorageError: ``STORAGE_LIBRARY_MISSING``, for `uri`.
    """
    environment = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    try:
        return _client(os.getpid(), *environment.items())
    except ModuleNotFoundError as error:
        raise StorageError("STORAGE_LIBRARY_MISSING", uri=uri, library=error.name, extra="s3") from error


@cache
def _client(*_: object) -> Any:
    """One for a process and its environment: to make one takes most of a second."""
    from botocore.exceptions import FlexibleChecksumError
    from s3fs import S3FileSystem
    from s3fs.core import add_retryable_error

    # What was damaged on its way, or replaced while a server read it, is to be read again.
    add_retryable_error(FlexibleChecksumError)
    # To read an object whole in parts it would ask for its size first, and list a folder where there is none.
    return S3FileSystem(skip_instance_cache=True, use_listings_cache=False, max_concurrency=1)


def _keys(page: dict[str, Any]) -> dict[str, int]:
    """The objects of a page, those that stand for folders included: name → bytes."""
    return {found["Key"]: found["Size"] for found in page["Contents"]}


def _code(error: Exception) -> str:
    """S3's own code of an error that s3fs has translated."""
    response = getattr(error.__cause__ or error, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))
