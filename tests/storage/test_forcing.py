"""What `LocalStore` forces to the disk, and in which order: the calls to the system are listened to."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rekindle.config import Config
from rekindle.errors import StorageError
from rekindle.storage import disk, layout
from rekindle.storage.forcing import FORCES, Force, force_of
from rekindle.storage.local import LocalStore
from rekindle.storage.open import open_store

RECORD = layout.batch(layout.subtask("job", "task", 0, 1), 7)
DRAIN = layout.drain(layout.subtask("job", "task", 0, 1))
STATUS = layout.status("job")


class Listener:
    """The calls that matter, in their order, as words."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        self.heard: list[str] = []
        self._root = root
        self._patch(monkeypatch, os, "fsync", lambda descriptor: f"sync {self._name(descriptor)}")
        self._patch(monkeypatch, os, "link", lambda _, target: f"appear {os.path.relpath(target, root)}")
        self._patch(monkeypatch, os, "replace", lambda _, target: f"appear {os.path.relpath(target, root)}")
        self._patch(monkeypatch, disk, "_sync_file_system", lambda _: "sync all")

    def _name(self, descriptor: int) -> str:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        return "file" if "/.tmp-" in path else os.path.relpath(path, self._root)

    def _patch(self, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, words: Callable[..., str]) -> None:
        call = getattr(module, name)

        def listened(*arguments: Any) -> Any:
            self.heard.append(words(*arguments))
            return call(*arguments)

        monkeypatch.setattr(module, name, listened)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "storage"


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch, root: Path) -> Listener:
    return Listener(monkeypatch, root)


def test_a_file_is_forced_before_it_appears_and_its_name_and_new_folders_after_it(
    root: Path, listener: Listener
) -> None:
    store = open_store(str(root))
    store.create(DRAIN, b"{}")
    folder = os.path.dirname(DRAIN)
    names = [folder, *map(str, list(Path(folder).parents)[:-1]), ".", ".."]
    assert listener.heard == ["sync file", f"appear {DRAIN}", *(f"sync {name}" for name in names)]

    listener.heard.clear()
    store.replace(DRAIN, b"{ }")
    assert listener.heard == ["sync file", f"appear {DRAIN}", f"sync {folder}"], "the folders' names are on the disk"


def test_the_name_of_a_folder_that_is_made_again_is_forced_again_and_of_others_not(
    root: Path, listener: Listener
) -> None:
    store = open_store(str(root))
    store.create(DRAIN, b"{}")
    store.create(layout.run("job", 1), b"{}")
    store.delete_tree("job/tasks")
    listener.heard.clear()
    store.create(DRAIN, b"{}")
    folder = Path(os.path.dirname(DRAIN))
    names = [folder, *list(folder.parents)[:4]]
    assert listener.heard == ["sync file", f"appear {DRAIN}", *(f"sync {name}" for name in names)]


def test_all_that_a_record_rests_on_is_forced_before_it_appears(root: Path, listener: Listener) -> None:
    store = open_store(str(root))
    store.create(DRAIN, b"{}")
    listener.heard.clear()
    store.create(RECORD, b"{}")
    folder = os.path.dirname(RECORD)
    assert listener.heard[:3] == ["sync all", f"appear {RECORD}", f"sync {folder}"]
    assert f"sync {os.path.dirname(folder)}" in listener.heard, "the name of a new folder too"


def test_a_target_on_another_file_system_is_forced_too(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: list[int] = []
    monkeypatch.setattr(disk, "_sync_file_system", lambda descriptor: forced.append(os.fstat(descriptor).st_dev))
    beside = ["/dev/shm", str(tmp_path), str(tmp_path / "gone"), "s3://bucket/out"]
    open_store(str(root), beside=beside).create(RECORD, b"{}")
    assert sorted(forced) == sorted({os.stat("/dev/shm").st_dev, os.stat(tmp_path).st_dev})


def test_a_heartbeat_and_a_storage_without_the_setting_force_nothing(root: Path, listener: Listener) -> None:
    open_store(str(root)).replace(STATUS, b"{}")
    open_store(str(root), forced=Config.of({"storage.fsync": "false"}).storage_fsync).create(RECORD, b"{}")
    LocalStore(str(root)).create(DRAIN, b"{}")
    assert not [words for words in listener.heard if words.startswith("sync")]


def test_a_disk_that_refuses_leaves_no_record(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(disk, "_sync_file_system", refuse)
    store = open_store(str(root))
    with pytest.raises(StorageError, match="STORAGE_UNAVAILABLE"):
        store.create(RECORD, b"{}")
    assert not store.exists(RECORD)
    assert list(store.unfinished("")) == []


def test_the_system_syncs_a_file_system_and_says_when_it_cannot(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    disk._sync_file_system(descriptor)
    os.close(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        disk._sync_file_system(descriptor)


def test_every_step_that_writes_has_its_force_and_a_document_that_names_others_forces_them_first() -> None:
    assert FORCES.keys() == layout.STEPS.keys()
    assert force_of("job/notes.txt") is Force.NOTHING
    assert force_of("savepoint-1/manifest.json") is Force.EVERYTHING
