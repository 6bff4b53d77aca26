"""A storage in HDFS, over WebHDFS (`storage.webhdfs`): in a driver and in commands alike, without a JVM.

A file of HDFS grows under its name while it is written. So an object is written to a hidden temporary file beside it,
which then gets the name. A rename of HDFS is one step, and refuses a name that is taken unless it is to overwrite:
so of several `HdfsStore.create` one wins. A rename whose answer was lost is sent again, and then does not find
what it has itself renamed.

HDFS takes no name with a colon. This module knows bytes and paths, not what is in them.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from rekindle.errors import StorageError
from rekindle.storage.addresses import encoded
from rekindle.storage.hadoop import MISSING, Cluster, Refused
from rekindle.storage.port import Entry, NotFound, Store, check_path
from rekindle.storage.reading import pieces_of, read_in_pieces
from rekindle.storage.walking import walked

if TYPE_CHECKING:
    from rekindle.storage.webhdfs import Data, WebHdfs

_TEMPORARY = ".tmp-"
_PART_BYTES = 1 << 20
_TAKEN = frozenset({"FileAlreadyExistsException", "PathIsNotEmptyDirectoryException"})
_WRITE_ERRORS = {
    "AccessControlException": "STORAGE_READ_ONLY",
    "DSQuotaExceededException": "STORAGE_FULL",
    "NSQuotaExceededException": "STORAGE_FULL",
    "QuotaByStorageTypeExceededException": "STORAGE_FULL",
}
"""HDFS's reason to refuse a write → our code; for any other it is ``STORAGE_UNAVAILABLE``."""


def client_of(cluster: Cluster) -> WebHdfs:
    """Return the client of a cluster.

    Raises:
        StorageError: ``STORAGE_LIBRARY_MISSING``.
    """
    try:
        from rekindle.storage.webhdfs import client

        return client(cluster)
    except ModuleNotFoundError as error:
        place, extra = f"hdfs://{cluster.authority}", "hdfs,kerberos" if cluster.kerberos else "hdfs"
        raise StorageError("STORAGE_LIBRARY_MISSING", uri=place, library=error.name, extra=extra) from error


class HdfsStore:
    """A `Store` below a folder of a cluster, which need not exist yet."""

    def __init__(self, cluster: Cluster, root: str) -> None:
        self._cluster = cluster
        self._root = root.rstrip("/")

    @property
    def location(self) -> str:
        return self.spark_path("")

    @property
    def pace(self) -> int:
        return 2

    @property
    def boot_id(self) -> str:
        return ""

    def check(self) -> None:
        probe = f".rekindle-probe-{secrets.token_hex(8)}"
        if not (self.create(probe, b"") and not self.create(probe, b"")):
            raise StorageError("STORAGE_NO_CREATE", uri=self.location)
        try:
            self.replace(probe, b"")
        finally:
            self.delete(probe)

    def uri(self, path: str) -> str:
        return encoded(self.spark_path(path))

    def spark_path(self, path: str) -> str:
        return f"hdfs://{self._cluster.authority}{self._path(path)}".rstrip("/")

    def read(self, path: str) -> bytes:
        with self._errors(check_path(path)):
            return self._client.read(self._path(path))

    def open(self, path: str) -> BinaryIO:
        status = self._file(path)

        def piece(start: int, end: int) -> bytes:
            with self._errors(path):
                return self._client.read(self._path(path), start, end - start)

        return read_in_pieces(int(status["length"]), piece)

    def exists(self, path: str) -> bool:
        with self._errors(path):
            return self._client.status(self._path(path)) is not None

    def create(self, path: str, data: bytes) -> bool:
        with self._errors(check_path(path), _WRITE_ERRORS):
            return self._made(path, lambda: (bytes(data),), "NONE")

    def replace(self, path: str, data: bytes) -> None:
        with self._errors(check_path(path), _WRITE_ERRORS):
            self._made(path, lambda: (bytes(data),), "OVERWRITE")

    def names(self, folder: str) -> list[str]:
        return sorted(name for name, _ in self._children(folder))

    def walk(self, folder: str) -> Iterator[Entry]:
        return walked(folder, self._children)

    def unfinished(self, folder: str) -> Iterator[Entry]:
        for entry in walked(folder, partial(self._children, hidden=True)):
            if entry.path.rpartition("/")[2].startswith(_TEMPORARY):
                yield entry

    def delete(self, path: str) -> None:
        self._delete(check_path(path), recursive=False)

    def delete_many(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)

    def delete_tree(self, folder: str) -> None:
        self._delete(check_path(folder), recursive=True)

    def delete_trees(self, folder: str, names: Collection[str]) -> None:
        for name in names:
            self.delete_tree(f"{folder}/{name}" if folder else name)

    def copy(self, source: str, target: str) -> int:
        return self.copy_from(self, source, target)

    def copy_from(self, source: Store, path: str, target: str) -> int:
        check_path(target)
        with source.open(path) as file, self._errors(target, _WRITE_ERRORS):
            self._made(target, partial(pieces_of, file, _PART_BYTES), "OVERWRITE")
            return file.tell()

    def move(self, source: str, target: str) -> None:
        check_path(target)
        number = self._file(source)["fileId"]
        with self._errors(target, _WRITE_ERRORS):
            self._client.ask("PUT", "MKDIRS", self._path(target).rpartition("/")[0] or "/")
            try:
                self._renamed(self._path(source), target, "OVERWRITE")
            except NotFound:
                if (self._client.status(self._path(target)) or {}).get("fileId") != number:
                    raise NotFound(source) from None

    @property
    def _client(self) -> WebHdfs:
        return client_of(self._cluster)

    def _path(self, path: str) -> str:
        """Return the absolute path of an object or folder."""
        return f"{self._root}/{check_path(path, folder=True)}".rstrip("/") or "/"

    def _file(self, path: str) -> Mapping[str, Any]:
        with self._errors(check_path(path)):
            status = self._client.status(self._path(path))
        if status is None or status["type"] != "FILE":
            raise NotFound(path)
        return status

    def _children(self, folder: str, *, hidden: bool = False) -> list[tuple[str, int | None]]:
        """Return the names right below a folder with their bytes (None: a folder)."""
        try:
            with self._errors(folder):
                found = self._client.children(self._path(folder))
        except NotFound:
            return []
        return [
            (one["pathSuffix"], None if one["type"] == "DIRECTORY" else int(one["length"]))
            for one in found
            if hidden or not one["pathSuffix"].startswith(_TEMPORARY)
        ]

    def _made(self, path: str, data: Data, option: str) -> bool:
        """Make an object of these bytes; False where its name is taken."""
        staged = f"{self._path(path).rpartition('/')[0]}/{_TEMPORARY}{secrets.token_hex(8)}"
        made = False
        try:
            self._client.write(staged, data)
            made = self._renamed(staged, path, option)
        except NotFound:
            made = True  # it has its name already: no one deletes a staged file without its folder
        finally:
            if not made:
                with suppress(Exception):
                    self._client.ask("DELETE", "DELETE", staged)
        return made

    def _renamed(self, source: str, target: str, option: str) -> bool:
        """Rename in one step; False where the name is taken."""
        try:
            options = {"destination": self._path(target), "renameoptions": option}
            # A gateway (HttpFS) does not know the option, never renames onto what is there, and says whether it has.
            if self._client.ask("PUT", "RENAME", source, **options).get("boolean", True):
                return True
            if self._client.status(source) is None:
                raise NotFound(source)
            if option == "OVERWRITE":
                raise StorageError("STORAGE_NO_REPLACE", uri=self.location)
            return False
        except Refused as error:
            if error.kind == MISSING:
                raise NotFound(source) from None
            if error.kind not in _TAKEN:
                raise
            return False

    def _delete(self, path: str, *, recursive: bool) -> None:
        with self._errors(path, _WRITE_ERRORS):
            self._client.ask("DELETE", "DELETE", self._path(path), recursive=str(recursive).lower())

    @contextmanager
    def _errors(self, path: str, codes: Mapping[str, str] | None = None) -> Iterator[None]:
        try:
            yield
        except (StorageError, NotFound):
            raise
        except Exception as error:
            kind = error.kind if isinstance(error, Refused) else ""
            if kind == MISSING:
                raise NotFound(path) from None
            code = (codes or {}).get(kind, "STORAGE_UNAVAILABLE")
            reason = f"{' '.join(str(error).split())[:300]} ({path or 'its root'})"
            raise StorageError(code, uri=self.location, reason=reason) from None
