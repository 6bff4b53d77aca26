"""The identity of the job in a folder: the one that is there, or this one from now on; never an unfinished copy.

If a start and a copy come at the same time, at least one sees the other: each writes its document, and then looks for
the other's.
"""

from __future__ import annotations

import secrets

from rekindle.errors import ControlError
from rekindle.storage import layout
from rekindle.storage.documents.copies import CopyOf
from rekindle.storage.documents.runs import Identity
from rekindle.storage.job_documents import JobDocuments


def refuse_unfinished_copy(storage: JobDocuments, identity: Identity | None) -> None:
    """Raise ControlError ``COPY_UNFINISHED`` if a copy has left its mark and the job has another identity."""
    copied = storage.read(layout.copied(storage.job), CopyOf)
    if copied is not None and (identity is None or identity.id != copied.id):
        raise ControlError("COPY_UNFINISHED", job=storage.job, storage=storage.store.location, source=copied.source)


def identify(storage: JobDocuments, now_ms: int) -> Identity:
    """Return the identity of the job in the storage; create it if there is none.

    Raises:
        ControlError: ``COPY_UNFINISHED``.
    """
    ours = Identity(job=storage.job, created_ms=now_ms, id=secrets.token_hex(4))
    identity = storage.adopt(layout.identity(storage.job), ours)
    try:
        refuse_unfinished_copy(storage, identity)
    except ControlError:
        if identity.id == ours.id:
            storage.store.delete(layout.identity(storage.job))
        raise
    return identity
