"""Plans of batches that are recorded, put back where they are gone or another was written over them."""

from __future__ import annotations

from contextlib import suppress

from rekindle.progress.directory import read_offsets
from rekindle.storage.port import NotFound, Store


def put_back(store: Store, folder: str, batch: int, offsets_hash: str, text: str) -> None:
    """Plan `batch` as it was planned once, unless it still is: a record is of that plan and no other.

    Where it is not, Spark's commit of the batch is removed with the plan: the state beside it may be of another plan.
    """
    try:
        if read_offsets(store, folder, batch).hash == offsets_hash:
            return
    except NotFound:
        pass
    store.delete(f"{folder}/commits/{batch}")
    store.replace(f"{folder}/offsets/{batch}", text.encode())


def plan_again(store: Store, folder: str, batch: int, offsets_hash: str, text: str) -> None:
    """Let the plan of a committed `batch` be what it was, where another has been written over it.

    Spark counts the batch after it from there.
    """
    with suppress(NotFound):
        if read_offsets(store, folder, batch).hash != offsets_hash:
            store.replace(f"{folder}/offsets/{batch}", text.encode())
