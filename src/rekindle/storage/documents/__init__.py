"""The JSON documents of a job's storage, as frozen dataclasses. `docs/storage.md` describes them for people.

Every document carries ``format``; a newer one is refused (``FORMAT_NEWER``), a damaged one is ``OBJECT_CORRUPT``. They
hold no secrets and, in a savepoint, no absolute path of this job. Times are milliseconds since the epoch, UTC.
"""
