"""What `LocalStore` forces to the disk, and in which order: the calls to the system are listened to."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rekindle.errors import StorageError
from rekindle.storage import disk, layout
from rekindle.storage.disk import SYSTEM, DiskCalls
from rekindle.storage.forcing import FORCES, Force, force_nothing, force_of
from rekindle.storage.local import LocalStore
from rekindle.storage.open import open_store

MANIFEST = layout.manifest(layout.checkpoint("job", 7))
DRAIN = layout.drain(layout.subtask("job", "task", 0, 1))
RECORD = layout.batch(layout.subtask("job", "task", 0, 1), 7)


class Listener:
    """What is asked of the disk, and what has appeared before that, in their order, as words."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._words: list[str] = []
        self._files: set[tuple[str, int]] = set()
        self.calls = DiskCalls(self._sync, self._sync_all)

    @property
    def heard(self) -> list[str]:
        """The words up to now."""
        self._look()
        return self._words

    def clear(self) -> None:
        """Forget them."""
        self.heard.clear()

    def _look(self) -> None:
        paths = (Path(above, name) for above, _, names in os.walk(self._root) for name in names)
        found = {(str(path.relative_to(self._root)), path.stat().st_ino) for path in paths if path.name[0] != "."}
        self._words += [f"appear {path}" for path, _ in sorted(found - self._files)]
        self._files = found

    def _sync(self, descriptor: int) -> None:
        self._look()
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        self._words.append("sync file" if "/.tmp-" in path else f"sync {os.path.relpath(path, self._root)}")
        SYSTEM.sync(descriptor)

    def _sync_all(self, _: int) -> None:
        self._look()
        self._words.append("sync all")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "storage"


@pytest.fixture
def listener(root: Path) -> Listener:
    return Listener(root)


def heard_store(root: Path, listener: Listener, forces: Callable[[str], Force] = force_of) -> LocalStore:
    return LocalStore(str(root), forces, calls=listener.calls)


def test_a_file_is_forced_before_it_appears_and_its_name_and_new_folders_after_it(
    root: Path, listener: Listener
) -> None:
    store = heard_store(root, listener)
    store.create(DRAIN, b"{}")
    folder = os.path.dirname(DRAIN)
    names = [folder, *map(str, list(Path(folder).parents)[:-1]), ".", ".."]
    assert listener.heard == ["sync file", f"appear {DRAIN}", *(f"sync {name}" for name in names)]

    listener.clear()
    store.replace(DRAIN, b"{ }")
    assert listener.heard == ["sync file", f"appear {DRAIN}", f"sync {folder}"], "the folders' names are on the disk"


def test_the_name_of_a_folder_that_is_made_again_is_forced_again_and_of_others_not(
    root: Path, listener: Listener
) -> None:
    store = heard_store(root, listener)
    store.create(DRAIN, b"{}")
    store.create(layout.run("job", 1), b"{}")
    store.delete_tree("job/tasks")
    listener.clear()
    store.create(DRAIN, b"{}")
    folder = Path(os.path.dirname(DRAIN))
    names = [folder, *list(folder.parents)[:4]]
    assert listener.heard == ["sync file", f"appear {DRAIN}", *(f"sync {name}" for name in names)]


def test_all_that_a_manifest_rests_on_is_forced_before_it_appears(root: Path, listener: Listener) -> None:
    store = heard_store(root, listener)
    store.create(DRAIN, b"{}")
    listener.clear()
    store.create(MANIFEST, b"{}")
    folder = os.path.dirname(MANIFEST)
    assert listener.heard[:3] == ["sync all", f"appear {MANIFEST}", f"sync {folder}"]
    assert f"sync {os.path.dirname(folder)}" in listener.heard, "the name of a new folder too"


def test_a_document_that_is_there_already_is_forced_by_the_second_writer(root: Path, listener: Listener) -> None:
    LocalStore(str(root)).create(DRAIN, b"{}")
    LocalStore(str(root)).create(MANIFEST, b"{}")
    listener.clear()
    store = heard_store(root, listener)
    assert not store.create(DRAIN, b"{}")
    assert listener.heard[:2] == [f"sync {DRAIN}", f"sync {os.path.dirname(DRAIN)}"]
    listener.clear()
    assert not store.create(MANIFEST, b"{}")
    assert listener.heard[:2] == ["sync all", f"sync {os.path.dirname(MANIFEST)}"]


def test_a_store_that_forces_says_which_start_of_the_machine_it_is(root: Path, tmp_path: Path) -> None:
    assert open_store(str(root)).boot_id == Path(disk.BOOT_ID).read_text(encoding="ascii").strip() != ""
    assert open_store(str(root), forced=False).boot_id == LocalStore(str(root)).boot_id == ""
    assert disk.boot_id(str(tmp_path / "none")) == ""


def test_a_target_on_another_file_system_is_forced_too(root: Path, tmp_path: Path) -> None:
    forced: list[int] = []
    calls = DiskCalls(os.fsync, lambda descriptor: forced.append(os.fstat(descriptor).st_dev))
    beside = ["/dev/shm", str(tmp_path), str(tmp_path / "gone")]
    LocalStore(str(root), force_of, beside, calls).create(MANIFEST, b"{}")
    assert sorted(forced) == sorted({os.stat("/dev/shm").st_dev, os.stat(tmp_path).st_dev})


def test_a_heartbeat_a_record_and_a_copy_force_nothing(root: Path, listener: Listener) -> None:
    store = heard_store(root, listener)
    store.replace(layout.status("job"), b"{}")
    store.create(RECORD, b"{}")
    store.copy(RECORD, layout.drain("copy"))
    store.copy_from(store, RECORD, layout.drain("other"))
    heard_store(root, listener, force_nothing).create(MANIFEST, b"{}")
    assert not [words for words in listener.heard if words.startswith("sync")]


def test_a_disk_that_refuses_leaves_no_manifest(root: Path) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    store = LocalStore(str(root), force_of, calls=DiskCalls(os.fsync, refuse))
    with pytest.raises(StorageError, match="STORAGE_UNAVAILABLE"):
        store.create(MANIFEST, b"{}")
    assert not store.exists(MANIFEST)
    assert list(store.unfinished("")) == []


def test_the_system_syncs_a_file_system_and_says_when_it_cannot(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    disk.SYSTEM.sync_file_system(descriptor)
    os.close(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        disk.SYSTEM.sync_file_system(descriptor)


def test_every_step_that_writes_has_its_force_and_a_document_that_names_others_forces_them_first() -> None:
    assert FORCES.keys() == layout.STEPS.keys() | {"copy.begin"}
    assert force_of("job/notes.txt") is Force.NOTHING
    assert force_of("savepoint-1/manifest.json") is Force.EVERYTHING
    assert force_of(RECORD) is Force.NOTHING
