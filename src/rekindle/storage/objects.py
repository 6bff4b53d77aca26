"""A storage in a bucket of S3 or Google or a container of Azure, through `obstore`, which is Rust's `object_store`.

An object appears whole under its name or not at all, and what was written is seen at once: each cloud promises that.
What makes a storage of it is the put that the server refuses where there is an object (``If-None-Match: *``,
``x-goog-if-generation-match: 0``). `ObjectStore.check` tries it. A put whose answer was lost is sent again, and then
refused for what it has itself written: so every create gives its object a mark, and one that is refused looks whose
mark is there.

There are no folders, only names with slashes. Spark, which reaches the same objects through Hadoop, leaves empty ones
that stand for folders: on Azure such an object says so (``hdi_isfolder``), elsewhere its name ends in a slash, which
`obstore` does not show. So an empty object that is listed is looked at; one that stands for a folder is left out.
On S3 they go with their folder; on Google they stay.

This module knows bytes and paths, not what is in them, and no cloud by its name: these are in `storage.clouds`.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, BinaryIO

from rekindle.errors import StorageError
from rekindle.storage.addresses import encoded
from rekindle.storage.clouds import BucketFolder, across, client, folder_client, makes_each_folder, stands_for_a_folder
from rekindle.storage.port import Entry, NotFound, Store, check_path
from rekindle.storage.reading import read_in_pieces
from rekindle.storage.said import code_of, what_was_said

_MARK = "rekindlemark"  # a word: Azure takes only what could name a variable
_PART_BYTES = 16 << 20
"""Bytes of an object on its way up that are held in memory, twice."""
_AT_ONCE = 256
"""Objects that one request may delete, where there is a request for many."""
_PAUSES_S = (0.0, 0.05, 0.2, 0.5, 1.0, 2.0, 4.0)
"""Pauses before a create is sent again that was refused for an object that is not found: deleted, or not yet there."""
_COPY_SECONDS = 600
_ODD = re.compile(r"[\\\x00-\x1f\x7f]")
"""Characters that no name may have: Azure takes a backslash for a slash, and the library refuses control characters."""
_NO_BUCKET = re.compile("ContainerNotFound|ContainerBeingDeleted|NoSuchBucket|The specified bucket does not exist")


class ObjectStore:
    """A `Store` below the prefix of a place. The container or bucket must exist."""

    def __init__(self, place: BucketFolder) -> None:
        self._place = place

    @property
    def location(self) -> str:
        return f"{self._place.shown}/{self._key('')}".rstrip("/")

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
        return f"{self._place.root}/{self._key(path)}".rstrip("/")

    def read(self, path: str) -> bytes:
        with self._errors(check_path(path)):
            return bytes(self._get(path).bytes())

    def open(self, path: str) -> BinaryIO:
        with self._errors(check_path(path)):
            meta = self._head(path).meta

        def piece(start: int, end: int) -> bytes:
            with self._errors(path):
                return bytes(self._get(path, range=(start, end), if_match=meta["e_tag"]).bytes())

        return read_in_pieces(int(meta["size"]), piece)

    def exists(self, path: str) -> bool:
        if not path:
            return True  # nothing tells a prefix without objects from one that is not there
        with self._errors(path):
            try:
                self._library.head(self._client, self._key(path))
                return True
            except FileNotFoundError:
                return any(self._library.list(self._client, self._key(path), chunk_size=1))

    def create(self, path: str, data: bytes) -> bool:
        mark = secrets.token_hex(8)
        with self._errors(check_path(path), "STORAGE_READ_ONLY"):
            for pause_s in _PAUSES_S:
                time.sleep(pause_s)
                if (made := self._created(path, bytes(data), mark)) is not None:
                    return made
            raise OSError("it is refused for an object that is not there")

    def _created(self, path: str, data: bytes, mark: str) -> bool | None:
        """Return whether this create made the object; None where it was refused for an object that is not found."""
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            self._put(path, data, mode="create", attributes={_MARK: mark})
            return True
        except (AlreadyExistsError, PreconditionError):
            with suppress(NotFound):
                return bool(self._head(path).attributes.get(_MARK) == mark)
            return None

    def replace(self, path: str, data: bytes) -> None:
        with self._errors(check_path(path), "STORAGE_READ_ONLY"):
            self._put(path, bytes(data), mode="overwrite")

    def names(self, folder: str) -> list[str]:
        prefix = self._key(folder)
        with self._errors(folder):
            found = self._library.list_with_delimiter(self._client, prefix or None)
        paths = [*found["common_prefixes"], *(one["path"] for one in found["objects"])]
        return sorted({path[len(prefix) :].strip("/") for path in paths} - {""})

    def walk(self, folder: str) -> Iterator[Entry]:
        root = len(self._key("")) + 1 if self._place.prefix else 0
        found = self._below(folder)
        folders = {path[:place] for path in found for place in _slashes(path)}
        for path, size_bytes in sorted(found.items()):
            if size_bytes or (path not in folders and self._is_object(path[root:])):
                yield Entry(path[root:], size_bytes)

    def unfinished(self, folder: str) -> Iterator[Entry]:
        return iter(())

    def delete(self, path: str) -> None:
        self._delete_all(path, [self._key(check_path(path))])

    def delete_many(self, paths: Sequence[str]) -> None:
        self._delete_all("", [self._key(check_path(path)) for path in paths])

    def delete_tree(self, folder: str) -> None:
        # What stands for a folder may be refused for as long as there is something in it.
        self._delete_found(folder, {self._key(check_path(folder)): None, **self._below(folder)})

    def delete_trees(self, folder: str, names: Collection[str]) -> None:
        check_path(folder, folder=True)
        start = f"{self._key(folder)}/".lstrip("/")
        doomed = {check_path(name) for name in names}
        found = self._below(folder) if doomed else {}
        ours = {path: size for path, size in found.items() if path[len(start) :].split("/", 1)[0] in doomed}
        self._delete_found(folder, ours)

    def copy(self, source: str, target: str) -> int:
        return self.copy_from(self, source, target)

    def copy_from(self, source: Store, path: str, target: str) -> int:
        check_path(target)
        if isinstance(source, ObjectStore) and (between := across(source._place, self._place)):  # noqa: SLF001
            with self._errors(check_path(path)):
                size_bytes = source.size(path)
                if size_bytes <= (between.copied_at_most or size_bytes):
                    self._library.copy(client(between), source._key(path), self._key(target))  # noqa: SLF001
                    self._await_copy(target, size_bytes)
                    return size_bytes
        with source.open(path) as file:
            data = file.read(_PART_BYTES)
            if len(data) < _PART_BYTES:
                self.replace(target, data)
                return len(data)
            sizes: list[int] = []

            def parts() -> Iterator[bytes]:
                part = data
                while part:
                    sizes.append(len(part))
                    yield part
                    part = file.read(_PART_BYTES)

            with self._errors(target, "STORAGE_READ_ONLY"):
                self._put(target, parts(), use_multipart=True, chunk_size=_PART_BYTES, max_concurrency=1)
            return sum(sizes)

    def move(self, source: str, target: str) -> None:
        self.copy(source, target)
        self.delete(source)

    def size(self, path: str) -> int:
        """Return the size of an object in bytes; raise `NotFound` where there is none."""
        return int(self._head(path).meta["size"])

    @cached_property
    def _library(self) -> Any:
        _ = self._client  # says which library is missing
        import obstore

        return obstore

    @property
    def _client(self) -> Any:
        return client(self._place)

    def _key(self, path: str) -> str:
        """Return the name of an object or folder in the bucket."""
        key = "/".join(part for part in (self._place.prefix, check_path(path, folder=True)) if part)
        if _ODD.search(key):
            reason = f"{key!r} has a backslash or a control character"
            raise StorageError("STORAGE_UNAVAILABLE", uri=self._place.root, reason=reason)
        return key

    def _put(self, path: str, data: Any, **options: Any) -> None:
        self._library.put(self._client, self._key(path), data, **options)

    def _get(self, path: str, **options: Any) -> Any:
        found = self._library.get(self._client, self._key(path), options=options)
        if stands_for_a_folder(found):
            raise NotFound(path)
        return found

    def _head(self, path: str) -> Any:
        with self._errors(path):
            return self._get(path, head=True)

    def _is_object(self, path: str) -> bool:
        try:
            self._head(path)
        except NotFound:
            return False
        return True

    def _below(self, folder: str) -> dict[str, int]:
        """List all objects below a folder at once, since it may be deleted meanwhile: name in the bucket → bytes."""
        with self._errors(folder):
            pages = self._library.list(self._client, self._key(folder) or None)
            return {one["path"]: one["size"] for page in pages for one in page}

    def _delete_found(self, folder: str, found: Mapping[str, int | None]) -> None:
        """Delete objects: name in the bucket → bytes, None where it was not listed."""
        self._delete_all(folder, sorted(found, reverse=True))
        marks = (0, None) if makes_each_folder(self._place) else (0,)
        empty = [key for key, size_bytes in found.items() if size_bytes in marks]
        with self._errors(folder, "STORAGE_READ_ONLY"):
            if empty and (delete := folder_client(self._place)):
                delete(empty)

    def _delete_all(self, folder: str, keys: list[str]) -> None:
        with self._errors(folder, "STORAGE_READ_ONLY"):
            for start in range(0, len(keys), _AT_ONCE):
                self._delete_some(keys[start : start + _AT_ONCE])

    def _delete_some(self, keys: list[str]) -> None:
        try:
            self._library.delete(self._client, keys)
        except FileNotFoundError as error:
            if _NO_BUCKET.search(str(error)):
                raise
            # One of them is missing, which is fine; what became of the others it does not say.
            for key in keys if len(keys) > 1 else ():
                self._delete_some([key])

    def _await_copy(self, target: str, size_bytes: int) -> None:
        """Wait until the target is whole: Azure may answer before it has copied a large object."""
        deadline = time.monotonic() + _COPY_SECONDS
        while self.size(target) != size_bytes:
            if time.monotonic() > deadline:
                raise OSError("the server has not finished a copy")
            time.sleep(0.5)

    @contextmanager
    def _errors(self, path: str, forbidden: str = "STORAGE_UNAVAILABLE") -> Iterator[None]:
        """Turn what the library raises into an error of ours; what is missing is `NotFound`, except the bucket."""
        try:
            yield
        except (StorageError, NotFound):
            raise
        except Exception as error:
            text, kind = str(error), type(error).__name__
            if isinstance(error, FileNotFoundError) and not _NO_BUCKET.search(text):
                raise NotFound(path) from None
            reason = f"{what_was_said(text) or kind} ({path or 'its root'})"
            # Not `from error`: a request that it names may be signed in its address.
            raise StorageError(code_of(error, forbidden), uri=self.location, reason=reason) from None


def _slashes(path: str) -> Iterator[int]:
    return (place for place, letter in enumerate(path) if letter == "/")
