from __future__ import annotations

import errno
import os
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pytest

from rekindle.errors import StorageError
from rekindle.storage.disk import SYSTEM
from rekindle.storage.local import LocalStore, file_uri
from rekindle.storage.port import Entry, NotFound
from tests.storage.contract import StoreContract


def fail(code: int):
    def raise_it(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    return raise_it


def on(root: Path, **calls: Callable[..., object]) -> LocalStore:
    """The storage on a system some of whose calls are these."""
    return LocalStore(str(root), calls=SYSTEM._replace(**calls))


class TestLocalStore(StoreContract):
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        return tmp_path / "storage"

    @pytest.fixture
    def store(self, root: Path) -> LocalStore:
        return LocalStore(str(root))

    def test_a_root_is_made_only_when_something_is_written(self, store: LocalStore, root: Path) -> None:
        assert store.names("") == []
        assert not store.exists("a")
        store.delete("a")
        assert not root.exists()
        store.create("a", b"")
        assert root.is_dir()

    def test_a_relative_root_stays_where_it_was_when_the_working_directory_changes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        store = LocalStore("here")
        monkeypatch.chdir("/")
        store.create("a", b"")
        assert (tmp_path / "here" / "a").exists()
        assert store.location == str(tmp_path / "here")

    def test_path_and_uri_address_the_same_file(self, store: LocalStore, root: Path) -> None:
        assert store.path("a/ü b") == str(root / "a" / "ü b")
        assert store.uri("a/ü b") == file_uri(f"{root}/a/ü b")
        assert store.path("") == str(root)
        assert store.uri("") == file_uri(str(root))
        with pytest.raises(StorageError):
            store.path("../x")

    def test_a_double_slash_before_the_root_is_written_as_one(self) -> None:
        assert LocalStore("//srv/x").uri("a") == "file:///srv/x/a"
        assert LocalStore("/").uri("a") == "file:///a"

    @pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
    @pytest.mark.parametrize("call", ["link", "make_folders"])
    def test_a_read_only_storage_is_named(self, root: Path, code: int, call: str) -> None:
        store = on(root, **{call: fail(code)})
        with pytest.raises(StorageError) as caught:
            store.create("a/b", b"x")
        assert caught.value.code == "STORAGE_READ_ONLY"
        assert store.location in caught.value.message
        assert "a/b" in caught.value.message

    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
    def test_a_full_storage_is_named_and_what_was_there_stays(self, store: LocalStore, root: Path, code: int) -> None:
        store.create("a/b", b"old")
        full = on(root, replace=fail(code))
        for act in (lambda: full.replace("a/b", b"new"), lambda: full.copy("a/b", "a/c")):
            with pytest.raises(StorageError) as caught:
                act()
            assert caught.value.code == "STORAGE_FULL"
        assert store.read("a/b") == b"old"
        assert os.listdir(root / "a") == ["b"]

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
    def test_a_write_that_does_not_fit_leaves_nothing_behind(self, store: LocalStore, root: Path) -> None:
        store.create("a", b"")

        def full(path: str):
            os.symlink("/dev/full", path)
            return open(path, "wb")

        with pytest.raises(StorageError) as caught:
            on(root, new_file=full).create("b", b"x" * 100_000)
        assert caught.value.code == "STORAGE_FULL"
        assert os.listdir(root) == ["a"]

    def test_any_other_error_of_the_medium_is_unavailable(self, store: LocalStore, root: Path) -> None:
        store.create("a", b"")
        acts: dict[str, Callable[[LocalStore], object]] = {
            "link": lambda store: store.create("b", b""),
            "replace": lambda store: store.replace("b", b""),
            "unlink": lambda store: store.delete("a"),
            "names": lambda store: store.names(""),
            "entries": lambda store: list(store.walk("")),
            "stat": lambda store: store.exists("a"),
        }
        for call, act in acts.items():
            with pytest.raises(StorageError) as caught:
                act(on(root, **{call: fail(errno.EIO)}))
            assert caught.value.code == "STORAGE_UNAVAILABLE", call

    def test_what_may_not_be_read_is_unavailable_rather_than_read_only(self, root: Path) -> None:
        with pytest.raises(StorageError) as caught:
            on(root, names=fail(errno.EACCES)).names("")
        assert caught.value.code == "STORAGE_UNAVAILABLE"

    def test_a_root_that_is_a_file_is_unavailable(self, store: LocalStore, root: Path) -> None:
        root.write_text("a file")
        with pytest.raises(StorageError) as caught:
            store.create("a", b"")
        assert caught.value.code == "STORAGE_UNAVAILABLE"

    def test_the_loser_of_a_create_learns_it_on_a_read_only_storage_too(self, store: LocalStore, root: Path) -> None:
        store.create("a", b"")
        assert on(root, make_folders=fail(errno.EROFS)).create("a", b"") is False

    def test_a_link_that_was_made_but_reported_as_existing_has_won(self, root: Path) -> None:
        def lost_answer(source: str, target: str) -> None:
            os.link(source, target)
            raise FileExistsError(errno.EEXIST, "File exists")

        store = on(root, link=lost_answer)
        assert store.create("a", b"x") is True
        assert store.read("a") == b"x"

    def test_what_a_killed_writer_has_left_is_known_and_what_belongs_to_an_object_is_not(
        self, store: LocalStore, tmp_path: Path
    ) -> None:
        store.create("job/object", b"data")
        root = Path(store.path("job"))
        (root / ".object.crc").write_bytes(b"sum")
        (root / ".tmp-0badcafe").write_bytes(b"half")
        (root / ".gone.crc").write_bytes(b"sums")
        assert sorted(store.unfinished("job")) == [Entry("job/.gone.crc", 4), Entry("job/.tmp-0badcafe", 4)]
        assert list(store.unfinished("elsewhere")) == []

    def test_temporary_files_of_a_killed_writer_are_not_listed_and_go_with_their_folder(
        self, store: LocalStore, root: Path
    ) -> None:
        with pytest.raises(StorageError):
            on(root, unlink=fail(errno.EIO)).create("f/a", b"x")
        left = os.listdir(root / "f")
        assert len(left) == 1
        assert left[0].startswith(".tmp-")
        assert store.names("f") == []
        assert list(store.walk("f")) == []
        store.delete_tree("f")
        assert not (root / "f").exists()

    def test_files_get_the_rights_the_user_gives_new_files(self, store: LocalStore) -> None:
        before = os.umask(0o027)
        try:
            store.create("a", b"")
        finally:
            os.umask(before)
        assert os.stat(store.path("a")).st_mode & 0o777 == 0o640

    def test_a_checksum_file_of_hadoop_belongs_to_its_object(self, store: LocalStore, root: Path) -> None:
        store.create("f/0", b"x")
        side = root / "f" / ".0.crc"
        acts = {
            "replace": lambda: store.replace("f/0", b"y"),
            "copy": lambda: store.copy("g", "f/0"),
            "delete": lambda: store.delete("f/0"),
            "create": lambda: store.create("f/0", b"z"),
            "delete_tree": lambda: store.delete_tree("f/0"),
        }
        store.create("g", b"")
        for name, act in acts.items():
            side.write_bytes(b"crc")
            assert "f/.0.crc" not in [entry.path for entry in store.walk("f")]
            assert ".0.crc" not in store.names("f")
            act()
            assert not side.exists(), name

    def test_a_lost_create_leaves_the_winners_checksum(self, store: LocalStore, root: Path) -> None:
        store.create("f/0", b"x")
        (root / "f" / ".0.crc").write_bytes(b"crc")
        store.create("f/0", b"y")
        assert (root / "f" / ".0.crc").exists()

    def test_a_stale_checksum_is_gone_before_the_new_bytes_are_there(self, root: Path) -> None:
        side = root / ".0.crc"
        found = []

        def noting(call: Callable[[str, str], None]) -> Callable[[str, str], None]:
            return lambda source, target: (found.append(side.exists()), call(source, target))[1]

        store = on(root, link=noting(os.link), replace=noting(os.replace))
        store.create("g", b"")
        side.write_bytes(b"crc")
        store.create("0", b"x")
        side.write_bytes(b"crc")
        store.replace("0", b"y")
        assert found == [False, False, False]

    @pytest.mark.parametrize("length", [251, 255])
    def test_a_name_as_long_as_the_system_takes_needs_no_room_for_a_checksum(
        self, store: LocalStore, length: int
    ) -> None:
        store.replace("short", b"x")
        store.move("short", "n" * length)
        assert store.exists("n" * length)
        store.delete("n" * length)
        assert not store.exists("n" * length)

    def test_at_a_name_that_is_too_long_there_is_nothing(self, store: LocalStore) -> None:
        assert not store.exists("n" * 256)
        store.delete("n" * 256)

    def test_a_link_that_leads_out_is_removed_and_what_it_leads_to_stays(
        self, store: LocalStore, root: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere" / "file").write_text("kept")
        store.create("f/a", b"")
        (root / "f" / "link").symlink_to(tmp_path / "elsewhere")
        assert list(store.walk("f")) == [Entry("f/a", 0)]
        store.delete_tree("f")
        assert (tmp_path / "elsewhere" / "file").read_text() == "kept"
        assert not (root / "f").exists()

    def test_a_copy_whose_source_vanished_leaves_the_target_alone(self, store: LocalStore) -> None:
        store.create("target", b"old")
        with pytest.raises(NotFound):
            store.copy("source", "target")
        assert store.read("target") == b"old"


# Printed by Spark 4.3 (inputFiles() and the file source's log) for files of these names.
PRINTED_BY_SPARK = {
    "/a b": "/a%20b",
    "/ü": "/ü",
    "/k=ä b": "/k=ä%20b",
    "/100%": "/100%25",
    "/p%20q": "/p%2520q",
    "/x#y?m": "/x%23y%3Fm",
    "/x;y+z&c=d@,$!'()*~:": "/x;y+z&c=d@,$!'()*~:",
    '/[x]{b}^`|"<>\\': "/%5Bx%5D%7Bb%7D%5E%60%7C%22%3C%3E%5C",
    "/tab\there\x7f": "/tab%09here%7F",
    "/e\u0301": "/e\u0301",
    "/😀\u200b": "/😀\u200b",
    "/n\u00a0b\u2003\u2028\u202f\u0085": "/n%C2%A0b%E2%80%83%E2%80%A8%E2%80%AF%C2%85",
}


@pytest.mark.parametrize("path", PRINTED_BY_SPARK)
def test_uris_are_what_spark_prints(path: str) -> None:
    assert file_uri(path) == "file://" + PRINTED_BY_SPARK[path]


def test_uris_escape_every_blank_and_control_character_and_no_other_outside_ascii() -> None:
    for number in range(0x80, sys.maxunicode + 1):
        character = chr(number)
        category = unicodedata.category(character)
        if category != "Cs":
            assert (file_uri(character) != f"file://{character}") == (category in ("Zs", "Zl", "Zp", "Cc")), hex(number)


def test_uris_lead_back_to_their_path() -> None:
    path = "/" + "".join(map(chr, range(1, 0x3100)))
    assert unquote(file_uri(path)) == f"file://{path}"
