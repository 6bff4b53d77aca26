"""The buckets of S3 and Google and containers of Azure that a source may have its files in; see `sources.nodes`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rekindle.errors import StorageError
from rekindle.sources.nodes import TreeNode
from rekindle.storage.clouds import BucketFolder, client, find_place, stands_for_a_folder
from rekindle.storage.reading import read_in_pieces
from rekindle.storage.said import code_of, what_was_said


class Objects:
    """Objects of one container or bucket; see `Tree`."""

    def __init__(self, root: str) -> None:
        place = find_place(root)
        assert place is not None, root
        self._place: BucketFolder = place
        self._files = client(place)

    def find(self, path: str) -> TreeNode | None:
        """See `Tree`."""
        import obstore

        key = self._key(path)
        with self._without_credentials():
            if key:
                found = self._head(key)
                if found is not None and not stands_for_a_folder(found):
                    return _node(path, found.meta)
            below = next(iter(obstore.list(self._files, key or None, chunk_size=1)), None)
        return TreeNode(path, True, 0, 0, "") if below else None

    def children(self, folder: str) -> Iterator[TreeNode]:
        """See `Tree`."""
        import obstore

        key = self._key(folder)
        with self._without_credentials():
            found = obstore.list_with_delimiter(self._files, key or None)
            folders = {path.rstrip("/") for path in found["common_prefixes"]}
            # What stands for a folder is listed as an object without a byte.
            objects = [one for one in found["objects"] if one["path"] not in {key, *folders}]
            kept = [one for one in objects if one["size"] or self._is_file(one["path"])]
        yield from (TreeNode(self._path(path), True, 0, 0, "") for path in sorted(folders))
        yield from (_node(self._path(one["path"]), one) for one in kept)

    @contextmanager
    def open(self, path: str) -> Iterator[Any]:
        """See `Tree`."""
        import obstore

        key = self._key(path)
        with self._without_credentials():
            meta = obstore.head(self._files, key)

        def piece(start: int, end: int) -> bytes:
            with self._without_credentials():
                options: Any = {"range": (start, end), "if_match": meta["e_tag"]}
                return bytes(obstore.get(self._files, key, options=options).bytes())

        yield read_in_pieces(int(meta["size"]), piece)

    def _head(self, key: str) -> Any:
        import obstore

        try:
            return obstore.get(self._files, key, options={"head": True})
        except FileNotFoundError:
            return None

    def _is_file(self, key: str) -> bool:
        found = self._head(key)
        return found is not None and not stands_for_a_folder(found)

    @contextmanager
    def _without_credentials(self) -> Iterator[None]:
        """Turn what the library raises inside into an `OSError` that shows no credentials.

        Raises:
            StorageError: ``STORAGE_CREDENTIALS_MISSING``, which is no matter of a file.
        """
        try:
            yield
        except Exception as error:
            reason = what_was_said(str(error)) or type(error).__name__
            if (code := code_of(error, "")) == "STORAGE_CREDENTIALS_MISSING":
                raise StorageError(code, uri=self._place.shown, reason=reason) from None
            raise OSError(reason) from None

    def _key(self, path: str) -> str:
        return path[len(self._place.root) :].strip("/")

    def _path(self, key: str) -> str:
        return f"{self._place.root}/{key}"


def _node(path: str, meta: Mapping[str, Any]) -> TreeNode:
    modified_ms = int(meta["last_modified"].timestamp() * 1_000)
    return TreeNode(path, False, int(meta["size"]), modified_ms, str(meta["e_tag"] or "").strip('"'))
