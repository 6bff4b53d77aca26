from __future__ import annotations

import json

import pytest

from rekindle.channels.inbox import CARRIED_OVER, Inbox, is_compaction, stamp_ms, unstamp
from rekindle.errors import StorageError
from rekindle.storage import layout
from rekindle.storage.documents.sources import FrozenFile
from rekindle.storage.local import LocalStore
from rekindle.storage.port import NotFound
from rekindle.testing.memory_store import MemoryStore

FOLDER = "job/tasks/t/0/000001/inbox/history"
LOG = f"{FOLDER}/_spark_metadata"


def file(name: str) -> FrozenFile:
    return FrozenFile(path=f"file:///data/{name}.parquet", size=len(name))


def files_of(k: int) -> list[FrozenFile]:
    return [file(f"{k}a"), file(f"{k}b")]


def fed(store: MemoryStore, admissions: int, index: int = 3) -> Inbox:
    inbox = Inbox(store, FOLDER, index)
    for k in range(admissions):
        assert inbox.admit(k, files_of(k))
    return inbox


def entries(store: MemoryStore, name: str) -> list[dict[str, object]]:
    version, *lines = store.read(f"{LOG}/{name}").decode().split("\n")
    assert version == "v1"
    return [json.loads(line) for line in lines]


def test_an_admission_is_a_log_file_as_sparks_file_sink_writes_it() -> None:
    store = MemoryStore()
    Inbox(store, FOLDER, 7).admit(2, [FrozenFile(path="file:///a%20b/ü.parquet", size=5)])
    assert entries(store, "2") == [
        {
            "path": "file:///a%20b/ü.parquet",
            "size": 5,
            "isDir": False,
            "modificationTime": stamp_ms(2, 7),
            "blockReplication": 1,
            "blockSize": 134_217_728,
            "action": "add",
        }
    ]


def test_the_stamp_tells_the_inbox_and_the_admission() -> None:
    assert unstamp(stamp_ms(41, 999)) == (999, 41)
    assert unstamp(1_795_252_724_031) is None
    assert unstamp(stamp_ms(3, 0) + 1_000) is None


def test_the_second_to_write_an_admission_finds_the_first_one() -> None:
    store = MemoryStore()
    assert Inbox(store, FOLDER, 0).admit(0, [file("first")])
    assert not Inbox(store, FOLDER, 0).admit(0, [file("second")])
    assert Inbox(store, FOLDER, 0).admitted(0) == [file("first")]


def test_a_lost_race_for_a_compaction_deletes_nothing() -> None:
    store = MemoryStore()
    inbox = fed(store, 20)
    store.create(f"{LOG}/5", b"v1")
    assert not inbox.admit(19, [file("late")])
    assert "5" in store.names(LOG)


@pytest.mark.parametrize("admissions", [1, 5, 9, 10, 11, 19, 20, 21, 35, 100])
def test_what_was_admitted_last_is_read_back(admissions: int) -> None:
    inbox = fed(MemoryStore(), admissions)
    last = inbox.last_admitted()
    assert last == admissions - 1
    assert inbox.admitted(last) == files_of(last)


def test_an_empty_or_just_opened_inbox_has_no_admission() -> None:
    store = MemoryStore()
    inbox = Inbox(store, FOLDER, 0)
    assert inbox.last_admitted() == -1
    inbox.open()
    inbox.open()
    assert inbox.last_admitted() == -1
    assert store.exists(LOG), "Spark needs the folder"
    with pytest.raises(NotFound):
        inbox.admitted(0)


def test_a_compaction_names_the_files_of_its_own_admission_and_the_one_before() -> None:
    store = MemoryStore()
    fed(store, 20)
    named = [(entry["path"], entry["modificationTime"]) for entry in entries(store, "19.compact")]
    assert named == [(f.path, stamp_ms(k, 3)) for k in (18, 19) for f in files_of(k)]


def test_the_log_keeps_two_compactions_and_stays_bounded() -> None:
    store = MemoryStore()
    inbox = Inbox(store, FOLDER, 0)
    most = 0
    for k in range(200):
        inbox.admit(k, [file(str(k))])
        most = max(most, len(store.names(LOG)))
    assert most <= 20
    assert sorted(store.names(LOG)) == sorted(["189.compact", *map(str, range(190, 199)), "199.compact"])


def test_what_a_crash_left_undeleted_goes_with_the_next_compaction() -> None:
    store = MemoryStore()
    inbox = fed(store, 20)
    store.create(f"{LOG}/3", b"v1")
    for k in range(20, 30):
        inbox.admit(k, files_of(k))
    assert "3" not in store.names(LOG)


def test_a_new_lineage_begins_with_an_entry_for_all_that_came_before() -> None:
    store = MemoryStore()
    inbox = Inbox(store, FOLDER, 4)
    assert inbox.open_new(carried=12)
    assert not inbox.open_new(carried=13)
    assert inbox.last_admitted() == 0
    assert inbox.admitted(0) == [FrozenFile(path=CARRIED_OVER, size=12)]
    assert entries(store, "0")[0]["modificationTime"] == stamp_ms(0, 4)
    assert inbox.admit(1, files_of(1))


@pytest.mark.parametrize("data", [b"", b"v2\n{}", b"v1\n{", b"v1\n{}", b"v1\n3"])
def test_a_damaged_log_file_is_named(data: bytes) -> None:
    store = MemoryStore()
    store.create(f"{LOG}/0", data)
    with pytest.raises(StorageError) as error:
        Inbox(store, FOLDER, 0).admitted(0)
    assert error.value.code == "OBJECT_CORRUPT"
    assert error.value.parameters["path"] == f"{LOG}/0"


def test_an_admission_holds_a_file_and_an_index_is_below_a_thousand() -> None:
    with pytest.raises(ValueError, match="without files"):
        Inbox(MemoryStore(), FOLDER, 0).admit(0, [])
    for index in (-1, 1_000):
        with pytest.raises(ValueError, match="0 to 999"):
            Inbox(MemoryStore(), FOLDER, index)


def test_every_write_is_a_known_step(tmp_path) -> None:
    store = LocalStore(str(tmp_path))
    inbox = Inbox(store, FOLDER, 0)
    inbox.open()
    for k in range(10):
        inbox.admit(k, files_of(k))
    steps = {layout.step_of(entry.path) for entry in store.walk("")}
    assert steps == {"inbox.open", "inbox.admit"}


# --- a reader beside the writer: Spark lists the log, asks it for its interval, then reads ----------------------------


class RecordingStore(MemoryStore):
    """Keeps what the log looked like after each change."""

    def __init__(self) -> None:
        super().__init__()
        self.states: list[dict[str, bytes]] = [{}]

    def create(self, path: str, data: bytes) -> bool:
        made = super().create(path, data)
        self._keep()
        return made

    def delete(self, path: str) -> None:
        super().delete(path)
        self._keep()

    def _keep(self) -> None:
        self.states.append({path.removeprefix(f"{LOG}/"): data for path, data in self._objects.items()})


def interval(names: dict[str, bytes]) -> int:
    """Spark's `CompactibleFileStreamLog.compactInterval` with its default of 10."""
    compacted = sorted((int(name.split(".")[0]) for name in names if name.endswith(".compact")), reverse=True)
    if not compacted:
        return 10
    if len(compacted) > 1:
        return compacted[0] - compacted[1]
    end = compacted[0] + 1
    if end <= 10 or end // 2 <= 10:
        return end
    return next(n for n in [*range(10, end // 2 + 1), end] if end % n == 0)


def read_as_spark(listed: dict[str, bytes], asked: dict[str, bytes], read: dict[str, bytes]) -> list[str]:
    """Paths a reader sees whose three looks at the log fall on these three states, without Spark's own second try."""
    latest = max((int(name.split(".")[0]) for name in listed), default=-1)
    every = interval(asked)
    paths = []
    for k in range(max(0, (latest + 1) // every * every - 1), latest + 1):
        name = f"{k}.compact" if (k + 1) % every == 0 else str(k)
        paths += [json.loads(line)["path"] for line in read[name].decode().split("\n")[1:]]
    return paths


def test_a_reader_beside_a_compaction_finds_all_it_listed_wherever_its_looks_fall() -> None:
    store = RecordingStore()
    inbox = Inbox(store, FOLDER, 0)
    looks = 0
    for k in range(50):
        before = len(store.states) - 1
        inbox.admit(k, files_of(k))
        # One admission at most falls into one look at the log: the next waits for the batch that reads this one.
        states = store.states[before:]
        for a, listed in enumerate(states):
            for b in range(a, len(states)):
                for read in states[b:]:
                    seen = read_as_spark(listed, states[b], read)
                    expected = k - 1 if a == 0 else k
                    assert expected < 0 or {f.path for f in files_of(expected)} <= set(seen)
                    looks += 1
    assert looks > 1_000
    assert is_compaction(49)
