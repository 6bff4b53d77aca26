"""Any document of a job: read, created once, adopted or replaced; and the numbered ones of a folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from rekindle.ids import check_uid
from rekindle.storage.codec import Document, decode, encode
from rekindle.storage.port import NotFound, Store

_NUMBERED = re.compile(r"(\d+)(?:\.json)?")


class JobDocuments:
    """The folder of the job `job` in `store`."""

    def __init__(self, store: Store, job: str) -> None:
        self.store = store
        self.job = check_uid(job)

    def read(self, path: str, kind: type[Document]) -> Document | None:
        """Read the document at `path`; None where there is none."""
        return read_document(self.store, path, kind)

    def create(self, path: str, document: object) -> bool:
        """Write a document that must not exist yet; False where there is one already, which stays as it is."""
        return self.store.create(path, encode(document))

    def adopt(self, path: str, document: Document) -> Document:
        """Write a document unless there is one already; return the one that is stored."""
        while not self.create(path, document):
            found = self.read(path, type(document))
            if found is not None:
                return found
        return document

    def replace(self, path: str, document: object) -> None:
        """Write a document, whether or not there is one."""
        self.store.replace(path, encode(document))

    def numbers(self, folder: str) -> list[int]:
        """Return the numbers that name what lies in a folder, ascending."""
        found = (_NUMBERED.fullmatch(name) for name in self.store.names(folder))
        return sorted(int(match[1]) for match in found if match)

    def newest_first(self, folder: str, read: Callable[[int], Document | None]) -> Iterator[Document]:
        """Read the numbered documents of `folder` one by one, as far as they are asked for."""
        for number in reversed(self.numbers(folder)):
            document = read(number)
            if document is not None:
                yield document


def read_document(store: Store, path: str, kind: type[Document]) -> Document | None:
    """Read the document at `path`; None where there is none."""
    try:
        data = store.read(path)
    except NotFound:
        return None
    return decode(data, kind, place(store, path))


def place(store: Store, path: str) -> str:
    """Return the full address of a path of a store, as an error shows it."""
    return f"{store.location.rstrip('/')}/{path}".rstrip("/")
