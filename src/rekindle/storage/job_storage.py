"""The documents of one job, and the facts that follow from them.

The driver writes through here, and every verb reads through here, without a JVM and while the job runs: whatever is
listed may be gone when it is read, and is then left out. A damaged document raises ``OBJECT_CORRUPT``, one of a newer
version ``FORMAT_NEWER``, both with its place.

What is written once (runs, records, manifests, answers) is created, never replaced: a driver that loses a create adopts
what is there. This module knows which documents there are and where they lie; what follows from them for a running job
is decided elsewhere.
"""

from __future__ import annotations

from rekindle.errors import StorageError
from rekindle.storage import layout
from rekindle.storage.batch_documents import BatchDocuments
from rekindle.storage.checkpoint_documents import CheckpointDocuments
from rekindle.storage.control_documents import ControlDocuments
from rekindle.storage.port import Store


class JobStorage(CheckpointDocuments, ControlDocuments, BatchDocuments):
    """All documents of a job. A function that needs some of them takes the class that has these."""


def jobs(store: Store) -> list[str]:
    """Return the names of the jobs in a storage, sorted. A folder that may or may not be a job counts as one."""
    return [name for name in store.names("") if may_be_a_job(store, name)]


def may_be_a_job(store: Store, name: str) -> bool:
    """Return True if a folder of a storage has the identity of a job, or may have it."""
    try:
        return store.exists(layout.identity(name))
    except StorageError:  # what opens it learns why
        return True
