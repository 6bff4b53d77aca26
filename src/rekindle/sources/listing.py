"""The files that a path stands for: the ones that Spark's batch reader would read there, found without Spark.

`Files` says what is meant, this module looks at the disk or the bucket (`sources.trees`). What is found is frozen
when the job first starts. Spark leaves out silently whatever has vanished meanwhile, and reads what has taken the place
of a file as if it were that: `check_present` and `check_unchanged` look for it, with one request a file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import NamedTuple, TypeVar
from urllib.parse import unquote

from rekindle.errors import ConfigError, InputError, StorageError, one_line
from rekindle.sources.globs import compiled, expanded, is_glob
from rekindle.sources.nodes import Tree, TreeNode
from rekindle.sources.trees import absolute, top, tree_of, uri_of
from rekindle.storage.documents.sources import FrozenFile
from rekindle.storage.open import open_store

Answer = TypeVar("Answer")

_ASKED_AT_ONCE = 16
"""Files that are looked for side by side: a bucket takes a while to answer."""

_TIME = re.compile(
    r"(\d{4})-(\d\d?)(?:-(\d\d?))?(?:[T ](\d\d?):(\d\d?)(?::(\d\d?)(?:\.(\d{1,6}))?)?)?\s*(Z|UTC|[+-]\d\d:\d\d)?"
)
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")
_NOT_UTF8 = re.compile("[\ud800-\udfff]")
"""A byte of a file name that is not UTF-8, as Python has it. An address can have none of them."""


class Listing(NamedTuple):
    """The files that a path stands for, and the columns that their folders give."""

    #: sorted by path
    files: tuple[FrozenFile, ...]
    #: names of the columns that ``key=value`` folders give, outermost first
    partition_columns: tuple[str, ...]
    #: URI of the folder below which those folders lie; empty where there are none
    base: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Spark's options that choose files, parsed."""

    #: pathGlobFilter: what a file's name must match
    name: re.Pattern[str]
    #: modifiedAfter, exclusive, ms since the epoch
    after_ms: int | None
    #: modifiedBefore, exclusive, ms since the epoch
    before_ms: int | None
    #: recursiveFileLookup: files at any depth, and no columns from folders
    recursive: bool
    #: basePath: where ``key=value`` folders begin, unless at the path itself
    base: str | None

    def takes(self, file: _Found) -> bool:
        return (
            self.name.fullmatch(os.path.basename(file.path)) is not None
            and (self.after_ms is None or file.modified_ms > self.after_ms)
            and (self.before_ms is None or file.modified_ms < self.before_ms)
        )


class _Found(NamedTuple):
    path: str
    size: int
    modified_ms: int
    version: str
    #: the folder that was asked for, or the one of the file that was
    root: str


class _Layout(NamedTuple):
    """``key=value`` folders above a file."""

    columns: tuple[str, ...]
    base: str


def list_files(uid: str, paths: Iterable[str], selection: Selection) -> Listing:
    """Return the files at `paths` that `selection` takes; see `Files.list_files`."""
    found: dict[str, _Found] = {}
    for path in paths:
        tree = tree_of(path)
        try:
            roots = _roots(tree, absolute(path))
            found |= {file.path: file for root in roots for file in _below(tree, root) if selection.takes(file)}
        except OSError as error:
            raise InputError("FILE_UNREADABLE", source=uid, path=path, reason=one_line(error)) from error
        if not roots:
            raise InputError("PATH_MISSING", source=uid, path=path)
    layout = _Layout((), "")
    if not selection.recursive:
        layout = _common_layout(uid, found.values(), selection.base)
        if not layout.columns:
            found = {path: file for path, file in found.items() if os.path.dirname(path) == file.root}
    if not found:
        raise InputError("PATH_EMPTY", source=uid, path=", ".join(paths))
    if (odd := next(filter(_NOT_UTF8.search, found), None)) is not None:
        shown = odd.encode(errors="surrogateescape").decode(errors="replace")
        raise InputError("FILE_UNREADABLE", source=uid, path=shown, reason="its name is not UTF-8")
    if (odd := next((path for path in found if path[0] == "/" and ":" in os.path.basename(path)), None)) is not None:
        raise InputError("FILE_NAME_UNSUPPORTED", source=uid, path=odd)
    files = tuple(
        FrozenFile(path=uri_of(path), size=file.size, version=file.version or None)
        for path, file in sorted(found.items())
    )
    return Listing(files, layout.columns, uri_of(layout.base) if layout.columns else "")


def check_present(uid: str, files: Iterable[FrozenFile]) -> None:
    """Raise ``FILE_VANISHED`` for the first of `files` that is gone."""
    for file, exists in _of_each(files, _exists):
        if not exists:
            raise InputError("FILE_VANISHED", source=uid, path=_path(file))


def check_unchanged(uid: str, files: Iterable[FrozenFile]) -> None:
    """Raise ``FILE_VANISHED`` for the first of `files` that is gone, ``FILE_CHANGED`` for one that is another."""
    for file, now in _as_they_are(uid, files):
        if now.size != file.size or (file.version is not None and now.version and now.version != file.version):
            raise InputError("FILE_CHANGED", source=uid, path=_path(file), reason=_difference(file, now))


def as_they_are(uid: str, files: Iterable[FrozenFile]) -> list[FrozenFile]:
    """Return the paths of `files`, with the sizes that they have now; ``FILE_VANISHED`` for the first that is gone."""
    return [FrozenFile(path=file.path, size=now.size) for file, now in _as_they_are(uid, files)]


def _as_they_are(uid: str, files: Iterable[FrozenFile]) -> Iterator[tuple[FrozenFile, TreeNode]]:
    for file, now in _of_each(files, _found):
        if now is None or now.is_folder:
            raise InputError("FILE_VANISHED", source=uid, path=_path(file))
        yield file, now


def _of_each(files: Iterable[FrozenFile], look: Callable[[FrozenFile], Answer]) -> Iterator[tuple[FrozenFile, Answer]]:
    files = list(files)
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        yield from zip(files, pool.map(look, files), strict=True)


def _found(file: FrozenFile) -> TreeNode | None:
    path = _path(file)
    try:
        found = tree_of(path).find(path)
    except OSError as error:
        raise StorageError("STORAGE_UNAVAILABLE", uri=path, reason=one_line(error)) from error
    if found is None and _exists(file):
        # A disk that fails says that there is nothing; a file that is being replaced was away for a moment.
        raise StorageError("STORAGE_UNAVAILABLE", uri=path, reason="it is there, and cannot be looked at")
    return found


def _path(file: FrozenFile) -> str:
    return unquote(file.path.removeprefix("file://"))


def _difference(file: FrozenFile, now: TreeNode) -> str:
    return f"{file.size} bytes then, {now.size} now" if now.size != file.size else "as large as then, and written later"


def _exists(file: FrozenFile) -> bool:
    folder, _, name = file.path.rpartition("/")
    # An address in a bucket is taken letter by letter, one of a file is not.
    store = open_store(folder if folder.startswith("file:") else unquote(folder))
    return store.exists(unquote(name))


def parse_time_ms(text: str) -> int:
    """Parse a date or time as Spark's ``modifiedAfter`` takes it: ms since the epoch; UTC unless it names a zone."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError("not a date or time")
    year, month, day, hour, minute, second = (int(match[group] or (group <= 3)) for group in range(1, 7))
    microsecond = int((match[7] or "").ljust(6, "0"))
    time = datetime(year, month, day, hour, minute, second, microsecond, _zone(match[8]))
    return (time - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1)


def _zone(text: str | None) -> timezone:
    if text is None or text in {"Z", "UTC"}:
        return timezone.utc
    offset = timedelta(hours=int(text[1:3]), minutes=int(text[4:6]))
    return timezone(-offset if text[0] == "-" else offset)


def _roots(tree: Tree, path: str) -> list[TreeNode]:
    """Return the files and folders that `path` stands for, patterns resolved."""
    if not is_glob(path):
        return [node] if (node := tree.find(path)) else []
    found: dict[str, TreeNode] = {}
    for plain in expanded(path):
        places = [node] if (node := tree.find(top(plain))) else []
        for part in plain[len(top(plain)) :].split("/"):
            if part:
                places = [child for place in places for child in _children(tree, place, part)]
        found.update((place.path, place) for place in places)
    return list(found.values())


def _children(tree: Tree, place: TreeNode, part: str) -> list[TreeNode]:
    if not is_glob(part):
        return [child] if (child := tree.find(os.path.join(place.path, part))) else []
    if not place.is_folder:
        return []
    pattern = compiled(part)
    return sorted(child for child in tree.children(place.path) if pattern.fullmatch(os.path.basename(child.path)))


def _below(tree: Tree, root: TreeNode) -> Iterator[_Found]:
    """Yield every file at or below `root` that Spark does not hide, whatever its depth."""
    if root.is_folder:
        yield from _in_folder(tree, root.path, root.path)
    elif not _is_hidden(os.path.basename(root.path)):
        yield _Found(root.path, root.size, root.modified_ms, root.version, os.path.dirname(root.path))


def _in_folder(tree: Tree, folder: str, root: str) -> Iterator[_Found]:
    for child in tree.children(folder):
        name = os.path.basename(child.path)
        if child.is_folder:
            # Spark looks into these two, which it does not read as files.
            if not _is_hidden(name) or name.startswith(("_metadata", "_common_metadata")):
                yield from _in_folder(tree, child.path, root)
        elif not _is_hidden(name):
            yield _Found(child.path, child.size, child.modified_ms, child.version, root)


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def _common_layout(uid: str, files: Iterable[_Found], base: str | None) -> _Layout:
    """Return the ``key=value`` folders of all `files`, which must be the same ones."""
    common: _Layout | None = None
    for file in files:
        layout = _layout(uid, file, absolute(base) if base else file.root)
        if common is not None and layout != common and (layout.columns or common.columns):
            reason = f"its folders give {_words(layout)}, those of other files {_words(common)}."
            raise InputError("SCHEMA_MISMATCH", source=uid, path=file.path, reason=reason)
        common = layout
    return common or _Layout((), "")


def _layout(uid: str, file: _Found, base: str) -> _Layout:
    folder = os.path.dirname(file.path)
    if not f"{folder}/".startswith(f"{base.rstrip('/')}/"):
        reason = f"{file.path} is not below it"
        raise ConfigError("VALUE_INVALID", key="basePath", value=base, reason=reason, example=repr(file.root))
    columns: list[str] = []
    while folder != base:
        above, name = os.path.split(folder)
        if "=" in name:
            column, value = name.split("=", 1)
            if not column or not value:
                raise InputError("SCHEMA_MISMATCH", source=uid, path=file.path, reason=f"{name} is half a column.")
            columns.insert(0, _ESCAPED.sub(lambda match: chr(int(match[1], 16)), column))
        elif columns:
            break
        folder = above
    return _Layout(tuple(columns), folder)


def _words(layout: _Layout) -> str:
    return f"the columns {', '.join(layout.columns)} below {layout.base}" if layout.columns else "no columns"
