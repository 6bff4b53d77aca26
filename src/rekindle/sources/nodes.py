"""The interface through which the listing of a source's files looks at a place.

Paths are whole and absolute, as Hadoop has them: ``/folder/file``, ``s3a://bucket/folder/file``,
``abfss://container@account.dfs.core.windows.net/folder/file``, ``gs://bucket/folder/file``,
``hdfs://node:8020/folder/file``. A bucket has no folders; a name that others continue after a slash is taken for one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol


class TreeNode(NamedTuple):
    """A file or folder."""

    path: str
    is_folder: bool
    #: 0 for a folder
    size: int
    #: since the epoch; 0 for a folder of a bucket
    modified_ms: int
    #: another one for other content, as far as the place tells; empty for a folder
    version: str


class Tree(Protocol):
    """A place as the listing of files sees it: all is as it is now. What cannot be reached is an `OSError`."""

    def find(self, path: str) -> TreeNode | None:
        """Find what is at a path, links followed; None where there is nothing."""
        ...

    def children(self, folder: str) -> Iterator[TreeNode]:
        """Yield what lies right below a folder, links followed, those that lead nowhere left out."""
        ...

    def open(self, path: str) -> AbstractContextManager[Any]:
        """Open a file for reading at any position."""
        ...
