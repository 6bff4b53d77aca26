"""What every adapter of the storage port must do: subclass `StoreContract` and give it a `store` fixture."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rekindle.errors import StorageError
from rekindle.storage import objects
from rekindle.storage.local import LocalStore
from rekindle.storage.port import Entry, NotFound, Store
from rekindle.testing.memory_store import MemoryStore

OUTSIDE = ["..", "../x", "a/../../x", "a/../b", "/etc/passwd", "/", "a//b", "a/", "./a", "a/.", "a\0b"]


def _with_source() -> Store:
    other = MemoryStore()
    other.create("source", b"")
    return other


ACTS: dict[str, Callable[[Store, str], object]] = {
    "uri": lambda store, path: store.uri(path),
    "read": lambda store, path: store.read(path),
    "open": lambda store, path: store.open(path),
    "exists": lambda store, path: store.exists(path),
    "create": lambda store, path: store.create(path, b""),
    "replace": lambda store, path: store.replace(path, b""),
    "names": lambda store, path: store.names(path),
    "walk": lambda store, path: list(store.walk(path)),
    "delete": lambda store, path: store.delete(path),
    "delete_tree": lambda store, path: store.delete_tree(path),
    "delete_many": lambda store, path: store.delete_many([path]),
    "delete_trees in": lambda store, path: store.delete_trees(path, ["a"]),
    "delete_trees of": lambda store, path: store.delete_trees("a", [path]),
    "copy from": lambda store, path: store.copy(path, "target"),
    "copy to": lambda store, path: store.copy("source", path),
    "copy from elsewhere": lambda store, path: store.copy_from(store, path, "target"),
    "copy to from elsewhere": lambda store, path: store.copy_from(_with_source(), "source", path),
    "move from": lambda store, path: store.move(path, "target"),
    "move to": lambda store, path: store.move("source", path),
}

OBJECT_ACTS = [
    "read",
    "open",
    "create",
    "replace",
    "delete",
    "delete_tree",
    "copy from",
    "copy to",
    "copy from elsewhere",
    "copy to from elsewhere",
    "move from",
    "move to",
]


ODD = [
    *(
        " a b ",
        "100%",
        "%41",
        "a#b",
        "a?b=c&d",
        "a+b",
        "ü",
        "u\u0308",
        "😀",
        "a:b",
        "a=b",
        "~",
        "a'b",
        'a"b',
        ";",
        "@",
        ",",
    ),
    *("*", "[x]", "{x}", "|", "^", "`", "<x>", ".a", "$x", "...x"),
]


def _code_of(store: Store, act: str, path: str) -> str | None:
    """What an act on a path is refused with."""
    try:
        ACTS[act](store, path)
    except StorageError as error:
        return error.code
    return None


def _refuse(path: str) -> bytes:
    raise AssertionError(f"{path} is read whole")


def race_of_sixteen(store: Store, rounds: int = 1) -> None:
    """Of sixteen creates of an object at the same time one wins, and its bytes stay."""
    together = threading.Barrier(16)

    def race(number: int) -> list[bool]:
        won = []
        for round_ in range(rounds):
            together.wait()
            won.append(store.create(f"race/{round_}", b"%d" % number * 10_000))
        return won

    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(race, range(16)))
    for round_ in range(rounds):
        [winner] = [number for number in range(16) if results[number][round_]]
        assert store.read(f"race/{round_}") == b"%d" % winner * 10_000
    assert store.names("race") == sorted(str(round_) for round_ in range(rounds))


class StoreContract:
    """Every test here holds for every adapter."""

    many = 10_000
    #: of races, and of objects that are replaced while they are read
    rounds, replaced = 20, 200
    odd: tuple[str, ...] = tuple(ODD)

    def test_what_was_created_is_read_listed_and_exists(self, store: Store) -> None:
        assert store.create("a/b/c.json", b"one") is True
        assert store.read("a/b/c.json") == b"one"
        assert store.exists("a/b/c.json")
        assert store.exists("a/b")
        assert store.exists("a")
        assert store.exists("")
        assert store.names("") == ["a"]
        assert store.names("a") == ["b"]
        assert store.names("a/b") == ["c.json"]
        assert list(store.walk("")) == [Entry("a/b/c.json", 3)]

    def test_a_second_create_leaves_the_object_as_it_is(self, store: Store) -> None:
        store.create("a", b"first")
        assert store.create("a", b"second") is False
        assert store.read("a") == b"first"

    def test_of_sixteen_concurrent_creates_exactly_one_wins_and_its_bytes_stand(self, store: Store) -> None:
        race_of_sixteen(store, self.rounds)

    def test_create_after_delete_makes_the_object_again(self, store: Store) -> None:
        store.create("a", b"first")
        store.delete("a")
        assert store.create("a", b"second") is True
        assert store.read("a") == b"second"

    def test_replace_makes_an_object_or_writes_over_it(self, store: Store) -> None:
        store.replace("a/b", b"long first")
        store.replace("a/b", b"new")
        assert store.read("a/b") == b"new"

    def test_a_reader_sees_the_old_bytes_or_the_new_ones_never_a_mixture(self, store: Store) -> None:
        versions = [b"%d" % number * 100_000 for number in range(10)]
        store.replace("a", versions[0])
        done = threading.Event()
        seen: list[bytes] = []

        def read() -> None:
            while not done.is_set():
                seen.append(store.read("a"))

        with ThreadPoolExecutor(1) as pool:
            reader = pool.submit(read)
            try:
                for number in range(self.replaced):
                    store.replace("a", versions[number % 10])
            finally:
                done.set()
            reader.result()
        assert seen
        assert set(seen) <= set(versions)
        assert store.names("") == ["a"]

    def test_reading_or_copying_what_is_not_there_is_not_found(self, store: Store) -> None:
        store.create("folder/a", b"")
        for path in ("missing", "folder/missing", "folder", "folder/a/below"):
            with pytest.raises(NotFound):
                store.read(path)
            with pytest.raises(NotFound):
                store.copy(path, "target")
        assert not store.exists("target")
        assert not store.exists("folder/a/below")
        assert not store.exists("fol")

    def test_an_open_object_is_read_here_and_there(self, store: Store) -> None:
        store.create("folder/a", bytes(range(100)))
        with store.open("folder/a") as file:
            file.seek(-2, 2)
            assert file.read() == bytes([98, 99])
            file.seek(10)
            assert file.read(3) == bytes([10, 11, 12])
        for path in ("missing", "folder"):
            with pytest.raises(NotFound):
                store.open(path)

    def test_a_place_that_keeps_its_promises_passes_its_check_and_is_left_as_it_was(self, store: Store) -> None:
        store.check()
        assert store.names("") == []

    def test_a_missing_folder_has_no_names_and_nothing_below(self, store: Store) -> None:
        store.create("a", b"")
        for folder in ("missing", "missing/deeper", "a", "a/below"):
            assert store.names(folder) == []
            assert list(store.walk(folder)) == []

    def test_an_empty_storage_has_no_names(self, store: Store) -> None:
        assert store.names("") == []
        assert list(store.walk("")) == []

    def test_walk_is_sorted_by_path_and_stays_below_its_folder(self, store: Store) -> None:
        paths = ["f/a/z", "f/a-b", "f/a.json", "f/a/b/c", "f/a0", "f/Z", "f/ü", "f/10", "f/9"]
        for path in paths:
            store.create(path, path.encode())
        store.create("f-other/x", b"")
        assert list(store.walk("f")) == [Entry(path, len(path.encode())) for path in sorted(paths)]
        assert [entry.path for entry in store.walk("f/a")] == ["f/a/b/c", "f/a/z"]
        assert store.names("f") == sorted(["a", "a-b", "a.json", "a0", "Z", "ü", "10", "9"])

    def test_walk_goes_on_where_something_vanishes_meanwhile(self, store: Store) -> None:
        for number in range(20):
            store.create(f"f/{number // 5}/{number:02d}", b"x")
        found = []
        for entry in store.walk("f"):
            found.append(entry.path)
            store.delete_tree("f/2")
        assert [path for path in found if not path.startswith("f/2/")] == [
            f"f/{number // 5}/{number:02d}" for number in range(20) if number // 5 != 2
        ]

    def test_walk_survives_a_thread_that_deletes(self, store: Store) -> None:
        kept = [f"f/kept/{number:03d}" for number in range(50)]
        for path in kept:
            store.create(path, b"x")
        done = threading.Event()

        def churn() -> None:
            while not done.is_set():
                for number in range(30):
                    store.create(f"f/churn/{number}/x", b"xy")
                store.delete_tree("f/churn")

        with ThreadPoolExecutor(1) as pool:
            churning = pool.submit(churn)
            try:
                for _ in range(100):
                    found = list(store.walk("f"))
                    assert [entry.path for entry in found if entry.path.startswith("f/kept")] == kept
                    # S3Proxy lists names of its own for a moment: x-<uuid>
                    churned = [entry for entry in found if re.fullmatch("f/churn/[0-9]+/x", entry.path)]
                    assert all(entry.size_bytes == 2 for entry in churned)
            finally:
                done.set()
            churning.result()

    def test_delete_removes_one_object_and_missing_is_fine(self, store: Store) -> None:
        store.create("a/b", b"")
        store.create("a/bc", b"")
        store.delete("a/b")
        store.delete("a/b")
        store.delete("no/such")
        assert store.names("a") == ["bc"]
        assert not store.exists("a/b")

    def test_delete_many_removes_these_objects_and_missing_is_fine(self, store: Store) -> None:
        paths = [f"a/{number}" for number in range(5)]
        for path in paths:
            store.create(path, b"x")
        store.delete_many([])
        store.delete_many([*paths[1:], "a/9", "nowhere/1"])
        assert store.names("a") == ["0"]

    def test_delete_tree_removes_all_at_and_below_a_folder_and_missing_is_fine(self, store: Store) -> None:
        for path in ("a/b", "a/c/d/e", "ab", "x/y"):
            store.create(path, b"")
        store.delete_tree("a")
        store.delete_tree("a")
        store.delete_tree("x/y")
        assert [entry.path for entry in store.walk("")] == ["ab"]
        assert not store.exists("a")
        assert not store.exists("x/y")

    def test_delete_trees_removes_all_at_and_below_these_names_and_missing_is_fine(self, store: Store) -> None:
        for path in ("f/a/b", "f/a/c/d", "f/ab", "f/e", "f/g/h", "a/b", "ff/a"):
            store.create(path, b"")
        store.delete_trees("f", [])
        store.delete_trees("f", ["a", "e", "nowhere"])
        store.delete_trees("nowhere", ["a"])
        assert [entry.path for entry in store.walk("")] == ["a/b", "f/ab", "f/g/h", "ff/a"]
        assert not store.exists("f/a")
        store.delete_trees("", ["ff", "f"])
        assert [entry.path for entry in store.walk("")] == ["a/b"]

    def test_copy_writes_the_same_bytes_over_whatever_is_there(self, store: Store) -> None:
        data = bytes(range(256)) * 20_000
        store.create("a/source", data)
        assert store.copy("a/source", "b/c/target") == len(data)
        assert store.read("b/c/target") == data == store.read("a/source")
        store.replace("a/source", b"")
        assert store.copy("a/source", "b/c/target") == 0
        assert store.read("b/c/target") == b""

    @pytest.mark.parametrize("size_bytes", [0, 1_000, 12 << 20])
    @pytest.mark.parametrize("other", ["memory", "local"])
    def test_an_object_of_another_storage_is_copied_and_never_read_whole(
        self, store: Store, other: str, size_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(objects, "_PART_BYTES", 5 << 20)  # the least that S3 takes
        source: Store = MemoryStore() if other == "memory" else LocalStore(str(tmp_path / "other"))
        data = bytes(range(250)) * (size_bytes // 250 + 1)
        source.create("a/source", data)
        source.read = _refuse  # type: ignore[method-assign]
        store.create("b/target", b"old")
        for target in ("b/target", "c/d/new"):
            assert store.copy_from(source, "a/source", target) == len(data)
            assert store.read(target) == data
        with pytest.raises(NotFound):
            store.copy_from(source, "a/nothing", "b/other")
        assert store.names("b") == ["target"]

    def test_a_copy_does_not_follow_its_original(self, store: Store) -> None:
        store.create("a", b"one")
        store.copy_from(store, "a", "b")
        store.replace("a", b"two")
        assert store.read("b") == b"one"

    def test_move_gives_an_object_another_name_over_whatever_has_it(self, store: Store) -> None:
        store.create("a/source", b"new")
        store.create("b/target", b"old")
        store.move("a/source", "b/target")
        store.move("b/target", "c/d/target")
        assert [entry.path for entry in store.walk("")] == ["c/d/target"]
        assert store.read("c/d/target") == b"new"
        for path in ("a/source", "c/d"):
            with pytest.raises(NotFound):
                store.move(path, "elsewhere")
        assert not store.exists("elsewhere")

    def test_the_caller_may_change_its_buffer_afterwards(self, store: Store) -> None:
        buffer = bytearray(b"one")
        store.create("a", buffer)
        store.replace("b", buffer)
        buffer[:] = b"two"
        assert store.read("a") == store.read("b") == b"one"

    def test_no_path_leads_out_of_the_storage(self, store: Store) -> None:
        store.create("source", b"")
        codes = {(act, path): _code_of(store, act, path) for act in ACTS for path in OUTSIDE}
        assert codes == dict.fromkeys(codes, "PATH_OUTSIDE")
        assert store.names("") == ["source"]

    def test_the_root_is_no_object_and_cannot_be_deleted(self, store: Store) -> None:
        store.create("source", b"")
        assert {act: _code_of(store, act, "") for act in OBJECT_ACTS} == dict.fromkeys(OBJECT_ACTS, "PATH_OUTSIDE")
        assert store.names("") == ["source"]

    def test_a_name_is_any_letters_that_a_job_or_a_person_may_write(self, store: Store) -> None:
        for name in self.odd:
            assert store.create(f"odd/{name}", name.encode())
            assert not store.create(f"odd/{name}", b"")
            assert store.read(f"odd/{name}") == name.encode()
            assert store.copy(f"odd/{name}", f"copies/{name}") == len(name.encode())
        assert store.names("odd") == store.names("copies") == sorted(self.odd)
        assert [entry.path for entry in store.walk("odd")] == sorted(f"odd/{name}" for name in self.odd)
        store.delete_trees("odd", self.odd[::2])
        store.delete_many([f"odd/{name}" for name in self.odd[1::2]])
        assert store.names("odd") == []

    @pytest.mark.slow
    def test_many_names_are_listed_and_deleted(self, store: Store) -> None:
        paths = [f"many/{number:05d}" for number in range(self.many)]
        with ThreadPoolExecutor(16) as pool:
            assert all(pool.map(lambda path: store.create(path, b"x"), paths))
        assert store.names("many") == [path.removeprefix("many/") for path in paths]
        assert [entry.path for entry in store.walk("")] == paths
        store.delete_many(paths[: self.many // 2])
        store.delete_tree("many")
        assert store.names("") == []
