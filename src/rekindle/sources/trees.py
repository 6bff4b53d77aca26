"""The places that a source may have its files in: a disk, a bucket, or HDFS; see `sources.nodes`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from rekindle.sources.nodes import Tree, TreeNode
from rekindle.sources.objects import Objects
from rekindle.storage.addresses import encoded, hadoop_scheme, is_hdfs
from rekindle.storage.hadoop import Cluster, Refused, find_cluster
from rekindle.storage.hdfs import client_of
from rekindle.storage.local import file_uri
from rekindle.storage.reading import read_in_pieces


class MountedDisk:
    """Files that are local or mounted."""

    def __init__(self) -> None:
        from fsspec.implementations.local import LocalFileSystem

        self._files = LocalFileSystem(skip_instance_cache=True)

    def find(self, path: str) -> TreeNode | None:
        """See `Tree`."""
        return _node_on_disk(self._files.info(path)) if self._files.exists(path) else None

    def children(self, folder: str) -> Iterator[TreeNode]:
        """See `Tree`."""
        for child in self._files.ls(folder, detail=True):
            # Asked by its path, a link answers for what it leads to.
            found = self.find(child["name"]) if child["islink"] else _node_on_disk(child)
            if found is not None:
                yield found

    def open(self, path: str) -> AbstractContextManager[Any]:
        """See `Tree`."""
        return open(path, "rb")


class Hadoop:
    """Files of HDFS."""

    def __init__(self, path: str) -> None:
        self._files = client_of(_parted(path)[0])

    def find(self, path: str) -> TreeNode | None:
        """See `Tree`."""
        with _asked():
            found = self._files.status(_parted(path)[1])
        return _node_in_hdfs(path, found) if found else None

    def children(self, folder: str) -> Iterator[TreeNode]:
        """See `Tree`."""
        with _asked():
            found = self._files.children(_parted(folder)[1])
        for child in found:
            yield _node_in_hdfs(f"{folder.rstrip('/')}/{child['pathSuffix']}", child)

    @contextmanager
    def open(self, path: str) -> Iterator[Any]:
        """See `Tree`."""
        below = _parted(path)[1]

        def piece(start: int, end: int) -> bytes:
            with _asked():
                return self._files.read(below, start, end - start)

        found = self.find(path)
        if found is None:
            raise FileNotFoundError(path)
        yield read_in_pieces(found.size, piece)


def _parted(path: str) -> tuple[Cluster, str]:
    """Return the cluster that a path of HDFS leads to, and the path there."""
    found = find_cluster(path)
    assert found is not None, path
    return found


@contextmanager
def _asked() -> Iterator[None]:
    try:
        yield
    except Refused as error:
        raise OSError(str(error)) from error


def tree_of(path: str) -> Tree:
    """Return the tree of the place that a path leads to.

    Raises:
        StorageError: ``STORAGE_LIBRARY_MISSING``; ``STORAGE_UNAVAILABLE``, nothing says where HDFS is.
    """
    if is_hdfs(path):
        return Hadoop(path)
    return Objects(top(path)) if _is_far(path) else MountedDisk()


def absolute(path: str) -> str:
    """Return the whole path for one that `Files` has, without slashes at its end."""
    if is_hdfs(path):
        cluster, below = _parted(path)
        return f"hdfs://{cluster.authority}{below}".rstrip("/")
    return path.rstrip("/") if _is_far(path) else os.path.abspath(path)


def qualified(path: str) -> str:
    """Return the path for Spark, whose default file system may be another: in a cluster with HDFS, that of HDFS."""
    return path if _is_far(path) else f"file://{os.path.abspath(path)}"


def top(path: str) -> str:
    """Return the folder of a whole path that has none above it."""
    return "/".join(path.split("/")[:3]) if _is_far(path) else "/"


def uri_of(path: str) -> str:
    """Return a whole path as Spark's file logs hold it."""
    return encoded(path) if _is_far(path) else file_uri(path)


def _is_far(path: str) -> bool:
    return hadoop_scheme(path) is not None


def _node_on_disk(info: dict[str, Any]) -> TreeNode:
    modified_ms = round(info["mtime"] * 1_000_000) // 1_000
    is_folder = info["type"] == "directory"
    return TreeNode(info["name"], is_folder, info["size"], modified_ms, "" if is_folder else str(modified_ms))


def _node_in_hdfs(path: str, status: Mapping[str, Any]) -> TreeNode:
    is_folder, modified_ms = status["type"] == "DIRECTORY", int(status["modificationTime"])
    # Each file that takes the place of another has a number of its own.
    version = "" if is_folder else f"{status['fileId']}@{modified_ms}"
    return TreeNode(path, is_folder, int(status["length"]), modified_ms, version)
