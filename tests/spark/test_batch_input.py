"""What a task in batch mode lets its batch see of a list of files, some of which may be others by now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rekindle.channels.inbox import Inbox
from rekindle.errors import InputError
from rekindle.sources import Files
from rekindle.spark.batch.task import BatchInput
from rekindle.storage.local import LocalStore


def test_a_file_that_was_replaced_is_refused_and_seen_in_its_new_size_where_that_is_allowed(tmp_path: Path) -> None:
    """Spark would read it up to the size that the inbox tells, and no further."""
    history = tmp_path / "in"
    history.mkdir()
    (history / "a").write_text("one\n")
    (history / "b").write_text("two\n")
    frozen = Files(str(history)).list_files()[0]
    unread: Any = None

    def of(store: str, changed_files: bool = False) -> BatchInput:
        inbox = Inbox(LocalStore(str(tmp_path / store)), "inbox", 0)
        return BatchInput(uid="history", inbox=inbox, read=unread, files=lambda: frozen, changed_files=changed_files)

    before = of("before")
    before.admit()
    assert [file.size for file in before.inbox.admitted(0)] == [4, 4]

    (history / "a").write_text("one and more\n")
    for store in ("before", "after"):
        with pytest.raises(InputError) as error:
            of(store).admit()
        assert error.value.code == "FILE_CHANGED"
        with pytest.raises(InputError) as error:
            of(store).refuse_other_files()
        assert error.value.code == "FILE_CHANGED", "also once it is read"
        allowed = of(store, changed_files=True)
        allowed.refuse_other_files()
        allowed.admit()
        assert [file.size for file in allowed.inbox.admitted(0)] == [13, 4]
