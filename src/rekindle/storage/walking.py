"""List every object below a folder, where folders are listed one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from rekindle.storage.port import Entry

Children = Callable[[str], Iterable[tuple[str, int | None]]]
"""A function that lists the names right below a folder with their bytes (None: a folder)."""


def walked(folder: str, children: Children) -> Iterator[Entry]:
    """Yield what is below a folder at any depth, sorted by path; each folder is listed when its turn comes."""
    for name, size_bytes in sorted(children(folder), key=_in_order):
        path = f"{folder}/{name}" if folder else name
        if size_bytes is None:
            yield from walked(path, children)
        else:
            yield Entry(path, size_bytes)


def _in_order(child: tuple[str, int | None]) -> str:
    """Return the key that sorts a child as the paths below it sort among those of its siblings."""
    name, size_bytes = child
    return f"{name}/" if size_bytes is None else name
