"""The place where Spark reads the logs of inboxes: in the storage, or on the driver's own disk.

At every look Spark lists the log of each inbox of a query, and reads what is in it. Where each of that is a request
that is paid for, the logs are copied to a folder of the driver's machine. Spark's file source reads logs on the driver
alone; the files that a log names stay where they are, and executors read them there. What counts is the log in the
storage: an admission is created there first, and a copy is made from it at each start. So a copy may only lack what is
newest, which its driver has not shown to its query yet.
"""

from __future__ import annotations

import re
import tempfile

from rekindle.storage.local import LocalStore
from rekindle.storage.port import Store

_PATTERN = re.compile(r"[{}\[\]*?\\]")


def shown_logs(store: Store, above: str | None = None) -> Store:
    """Return where the queries of a run read the logs of inboxes that lie in `store`, under the same paths.

    Args:
        above: a folder of this machine; None: where temporary files go, and a driver that is killed leaves them.
    """
    above = above or tempfile.gettempdir()
    if store.pace == 1 or _PATTERN.search(above):  # Spark takes such a path for a pattern
        return store
    return _LogsOnDisk(above)


class _LogsOnDisk(LocalStore):
    """A folder that is gone with the last inbox that is shown there."""

    def __init__(self, above: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rekindle-inboxes-", dir=above, ignore_cleanup_errors=True)
        super().__init__(self._folder.name)
