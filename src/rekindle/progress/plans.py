"""The repair of plans of recorded batches that are gone or were overwritten by another plan."""

from __future__ import annotations

from contextlib import suppress

from rekindle.progress.directory import read_offsets
from rekindle.storage.port import NotFound, Store


def put_back(store: Store, folder: str, batch: int, offsets_hash: str, text: str) -> None:
    """Write the recorded plan of `batch` again, unless it is still there: the record is valid for that plan only.

    If the plan was gone or another, Spark's commit of the batch is removed, too: its state may be of another plan.
    """
    try:
        if read_offsets(store, folder, batch).hash == offsets_hash:
            return
    except NotFound:
        pass
    store.delete(f"{folder}/commits/{batch}")
    store.replace(f"{folder}/offsets/{batch}", text.encode())


def plan_again(store: Store, folder: str, batch: int, offsets_hash: str, text: str) -> None:
    """Write the recorded plan of a committed `batch` again, if another plan has overwritten it.

    Spark begins the next batch at the offsets of this plan.
    """
    with suppress(NotFound):
        if read_offsets(store, folder, batch).hash != offsets_hash:
            store.replace(f"{folder}/offsets/{batch}", text.encode())
