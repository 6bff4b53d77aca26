"""The read model: who is silent, what is read once, what is left out."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace

import pytest

from rekindle.errors import ControlError, StorageError
from rekindle.monitoring.monitor import Monitor
from rekindle.storage import layout
from rekindle.storage.documents.history import RateSegment
from rekindle.storage.documents.runs import Result
from rekindle.storage.forgetting import forget_job
from rekindle.storage.liveness import SILENCE_MS
from rekindle.storage.local import LocalStore
from rekindle.storage.port import Store
from tests.ui.kit import Counting
from tests.ui.world import World


class Clocks:
    """The time of day, and the time that has passed."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.elapsed_ms = 0

    def pass_(self, ms: int) -> None:
        self.now_ms += ms
        self.elapsed_ms += ms


@pytest.fixture
def world(tmp_path) -> World:
    return World(str(tmp_path))


def _watch(world: World, store: Store | None = None) -> tuple[Monitor, Clocks]:
    clocks = Clocks(world.now_ms)
    return Monitor(store or world.store, now_ms=lambda: clocks.now_ms, elapsed_ms=lambda: clocks.elapsed_ms), clocks


def _state(monitor: Monitor, job: str) -> str:
    return monitor.job(job).overview.state


def _beat(world: World, job: str, written_ms: int) -> None:
    written = world.jobs[job]
    written.status = replace(written.status, beat=written.status.beat + 1, written_ms=written_ms)
    written.storage.replace(layout.status(job), written.status)


def test_an_old_heartbeat_is_looked_at_twice(world: World) -> None:
    world.silent("job")
    monitor, clocks = _watch(world)

    first = _state(monitor, "job")
    clocks.pass_(3_000)

    assert (first, _state(monitor, "job")) == ("RUNNING", "SILENT")


def test_an_old_heartbeat_that_moves_is_of_a_clock_that_differs(world: World) -> None:
    world.silent("job")
    monitor, clocks = _watch(world)

    for _ in range(20):
        assert _state(monitor, "job") == "RUNNING"
        clocks.pass_(1_500)
        _beat(world, "job", written_ms=clocks.now_ms - 3_600_000)


def test_a_heartbeat_that_stands_still_is_silent_by_any_clock(world: World) -> None:
    world.healthy("job")
    _beat(world, "job", written_ms=world.now_ms + 3_600_000)  # that machine's clock is an hour ahead
    monitor, clocks = _watch(world)

    states = []
    for _ in range(SILENCE_MS // 2_000 + 1):
        states.append(_state(monitor, "job"))
        clocks.pass_(2_000)

    assert states == ["RUNNING"] * 5 + ["SILENT"]


def test_a_start_is_silent_once_its_signs_of_life_stand_still(world: World) -> None:
    storage = world.created("job")
    run = storage.latest_run()
    assert run is not None
    monitor, clocks = _watch(world)

    states = []
    for beat in range(1, 9):
        storage.replace(layout.status("job", begun=False), replace(run, beat=beat))
        states.append(_state(monitor, "job"))
        clocks.pass_(SILENCE_MS - 1)
    assert states == ["RUNNING"] * 8

    clocks.pass_(1)
    assert _state(monitor, "job") == "SILENT"


def test_a_start_that_was_killed_is_silent_at_the_second_look_of_who_looks_once(world: World) -> None:
    storage = world.created("job")
    run = storage.latest_run()
    assert run is not None
    for age_ms in (0, SILENCE_MS + 1_000):
        sign = replace(run, beat=7, written_ms=world.now_ms - age_ms)
        storage.replace(layout.status("job", begun=False), sign)
        monitor, clocks = _watch(world)
        assert (_state(monitor, "job"), monitor.watch.second_look_ms() > 0) == ("RUNNING", age_ms > 0)

    first, wait_ms = _state(monitor, "job"), monitor.watch.second_look_ms()
    clocks.pass_(wait_ms)
    monitor.watch.look_again_where_in_doubt()

    assert (first, _state(monitor, "job")) == ("RUNNING", "SILENT")


@pytest.mark.parametrize("ahead_ms", [-3_600_000, 0, 3_600_000])
def test_ages_are_those_of_the_clock_that_wrote_the_times(world: World, ahead_ms: int) -> None:
    """A checkpoint is too old, or young, whatever the clock of the machine says that looks."""
    written = world.healthy("job")
    written.storage.fence.claim(
        replace(written.storage.latest_run(), run=3, started_ms=world.now_ms + ahead_ms - 90_000)
    )
    times = {"latest_checkpoint_ms": world.now_ms + ahead_ms - 60_000, "run": 3}
    written.status = replace(written.status, **times)
    monitor, clocks = _watch(world)
    _beat(world, "job", world.now_ms + ahead_ms)
    _state(monitor, "job")
    clocks.pass_(2_000)
    _beat(world, "job", world.now_ms + ahead_ms + 2_000)

    line = monitor.job("job").overview

    assert (line.checkpoint_age_ms, line.uptime_ms, line.heartbeat_age_ms) == (62_000, 92_000, 0)


def test_the_time_before_the_first_heartbeat_of_a_run_is_not_that_of_the_run_before(world: World) -> None:
    written = world.healthy("job")
    written.storage.fence.claim(replace(written.storage.latest_run(), run=3, started_ms=world.now_ms + 3_600_000))
    monitor, clocks = _watch(world)
    clocks.pass_(3_660_000)

    assert monitor.job("job").overview.uptime_ms == 60_000


def test_a_silent_job_that_beats_again_runs(world: World) -> None:
    world.silent("job")
    monitor, clocks = _watch(world)
    _state(monitor, "job")
    clocks.pass_(3_000)
    assert _state(monitor, "job") == "SILENT"

    clocks.pass_(2_000)
    _beat(world, "job", clocks.now_ms)

    assert _state(monitor, "job") == "RUNNING"


def test_rates_of_a_job_that_does_not_run_are_left_out(world: World) -> None:
    world.lost("lost")
    world.healthy("healthy")
    monitor, _ = _watch(world)

    lost, healthy = monitor.job("lost").overview, monitor.job("healthy").overview

    assert (lost.rows_in_per_second, lost.rows_out_per_second, lost.lag_ms, lost.busy) == (None,) * 4
    assert (healthy.rows_in_per_second, healthy.rows_out_per_second) == (2_500, 820)
    assert lost.rows_in == healthy.rows_in > 0
    assert all(edge.rows_per_second is None for edge in monitor.graph("lost").edges)


def test_a_job_that_was_deleted_and_made_again_is_another(world: World) -> None:
    world.healthy("job")
    monitor, clocks = _watch(world)
    before = monitor.checkpoints.newest("job")
    forget_job(world.jobs["job"].storage, 0)
    again = World(world.store.location, checkpoints=5)
    again.healthy("job")
    identity = again.jobs["job"].storage.identity()
    again.store.replace(layout.identity("job"), b'{"job": "job", "created_ms": 1, "id": "another", "format": 1}')
    clocks.pass_(1_000)

    after = monitor.checkpoints.newest("job")

    assert identity is not None
    assert (before.counts.completed, after.counts.completed) == (40, 5)
    assert [row.id for row in after.history] == [5, 4, 3, 2, 1]


@pytest.mark.parametrize("asked", ["all jobs", "that job"])
def test_nothing_is_remembered_of_a_job_that_was_deleted(world: World, asked: str) -> None:
    world.healthy("gone")
    world.healthy("job")
    monitor, clocks = _watch(world)
    read = [monitor.job("gone"), monitor.line("gone"), monitor.checkpoints.newest("gone"), monitor.job("job")]
    forget_job(world.jobs["gone"].storage, 0)
    clocks.pass_(60_000)

    if asked == "all jobs":
        monitor.overview()
    else:
        with pytest.raises(ControlError):
            monitor.job("gone")

    gc.collect()
    remembered = [any(isinstance(one, tuple) for one in gc.get_referrers(answer)) for answer in read]
    assert remembered[:2] == [False, False] and remembered[3]


def test_what_a_dead_driver_left_in_progress_has_failed(world: World) -> None:
    written = world.lost("job")
    stats = replace(written.status.history[0], id=41, status="in_progress", duration_ms=None)
    written.storage.replace(layout.status("job"), replace(written.status, history=(stats, *written.status.history)))
    monitor, _ = _watch(world)

    newest = monitor.checkpoints.one("job", 41).overview

    assert (newest.status, newest.failure) == ("failed", "JOB_ENDED: the job ended")


def test_checkpoints_are_known_of_a_job_without_a_history(world: World) -> None:
    written = world.healthy("job")
    for name in world.store.names(layout.history("job", "checkpoints")):
        world.store.delete(f"{layout.history('job', 'checkpoints')}/{name}")
    written.storage.replace(layout.status("job"), replace(written.status, history=()))
    monitor, _ = _watch(world)

    found = monitor.checkpoints.newest("job")

    assert [(row.id, row.status, row.acknowledged, row.kept) for row in found.history] == [
        (40, "completed", 3, True),
        (39, "completed", 3, True),
        (38, "completed", 3, True),
    ]
    assert found.counts.completed == 40  # as the heartbeat counts


def test_the_newest_checkpoint_is_first_also_where_the_clock_has_gone_back_meanwhile(world: World) -> None:
    written = world.healthy("job")
    last = written.storage.newest_manifest()
    assert last is not None
    hour_ms = 3_600_000
    behind = replace(last, run=last.run + 1, triggered_ms=last.triggered_ms - hour_ms)
    for number in (41, 42):
        behind = replace(behind, checkpoint=number, completed_ms=behind.triggered_ms + 1)
        written.storage.create(layout.manifest(layout.checkpoint("job", number)), behind)
    monitor, _ = _watch(world)

    found = monitor.checkpoints.newest("job")

    assert [row.id for row in found.history][:3] == [42, 41, 40]
    assert found.latest_completed is not None and found.latest_completed.id == 42


def test_closed_segments_and_manifests_are_read_once(world: World) -> None:
    world.checkpoints = 350
    world.healthy("job")
    store = Counting(world.store.location)
    monitor, clocks = _watch(world, store)
    monitor.checkpoints.newest("job")
    store.was_read.clear()

    clocks.pass_(1_000)
    found = monitor.checkpoints.newest("job", limit=1_000)

    assert len(found.history) == 350
    assert [path for path in store.was_read if "/checkpoints/" in path] == [
        "job/history/checkpoints/000002-000003-000000300.json"
    ]


def test_a_job_is_read_once_a_second_however_many_ask(world: World) -> None:
    world.healthy("job")
    store = Counting(world.store.location)
    monitor, clocks = _watch(world, store)

    for _ in range(50):
        monitor.overview()
    clocks.pass_(1_000)
    monitor.overview()

    assert store.was_read.count("job/status.json") == 2


def test_what_takes_long_to_read_is_read_for_a_tenth_of_the_time(world: World) -> None:
    world.many(3)
    store = Counting(world.store.location)
    monitor, clocks = _watch(world, store)
    names = store.names

    def slowly(folder: str) -> list[str]:
        clocks.pass_(500 if folder == "" else 0)
        return names(folder)

    store.names = slowly  # type: ignore[method-assign]
    monitor.overview()
    read = len(store.was_read)

    clocks.pass_(4_000)
    monitor.overview()
    assert len(store.was_read) == read, "it took 0.5 s, so it is good for 5"
    clocks.pass_(1_000)
    monitor.overview()
    assert len(store.was_read) > read


def test_while_an_answer_is_read_others_are_given_the_last_one_for_a_while(world: World) -> None:
    monitor, clocks = _watch(world, world.store)
    key, asked = ("key",), []

    def ask(answer: str) -> str:
        return monitor.watch.fresh(key, lambda: answer)

    def read() -> str:
        asked.extend([ask("second"), ask("second")])
        clocks.pass_(60_000)
        asked.append(ask("third"))
        return "new"

    assert ask("old") == "old"
    clocks.pass_(2_000)
    assert monitor.watch.fresh(key, read) == "new"
    assert asked == ["old", "old", "third"]


def test_a_second_look_reads_the_history_only_where_something_is_new(world: World) -> None:
    written = world.healthy("job")
    written.status = replace(written.status, newest=None)  # an older version wrote it
    written.storage.replace(layout.status("job"), written.status)
    store, clocks = Counting(world.store.location), Clocks(world.now_ms)
    monitor = Monitor(store, now_ms=lambda: clocks.now_ms, elapsed_ms=lambda: clocks.elapsed_ms)
    first = monitor.overview()[0]
    store.was_read.clear()
    clocks.pass_(1_000)
    _beat(world, "job", clocks.now_ms)

    again = monitor.overview()[0]

    assert layout.status("job") in store.was_read
    assert not [path for path in store.was_read if "/history/" in path]
    assert again == replace(
        first,
        heartbeat_ms=clocks.now_ms,
        uptime_ms=(first.uptime_ms or 0) + 1_000,
        checkpoint_age_ms=(first.checkpoint_age_ms or 0) + 1_000,
    )

    written.status = replace(written.status, latest_checkpoint=41)
    clocks.pass_(1_000)
    _beat(world, "job", clocks.now_ms)
    monitor.overview()
    assert [path for path in store.was_read if "/history/checkpoints/" in path]


class Bucket(Counting):
    """A store in which looks are paid for; it refuses what is below `denied`."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.denied: tuple[str, ...] = ()
        self.listed: list[str] = []

    @property
    def pace(self) -> int:
        return 10

    def read(self, path: str) -> bytes:
        if path.startswith(self.denied):
            raise StorageError("STORAGE_UNAVAILABLE", uri=self.location, reason="AccessDenied")
        return super().read(path)

    def exists(self, path: str) -> bool:
        self.was_read.append(path)
        return super().exists(path)

    def names(self, folder: str) -> list[str]:
        self.listed.append(folder)
        return super().names(folder)


def test_a_list_of_jobs_in_a_bucket_is_one_list_and_two_reads_for_each_that_does_not_run(world: World) -> None:
    world.many(9, ended=6).failed("failed")
    in_a_directory, _ = _watch(world)
    store = Bucket(world.store.location)
    monitor, _ = _watch(world, store)

    found = monitor.overview()

    assert store.listed == [""]
    assert [line.state for line in found].count("RUNNING") == 3
    assert len(store.was_read) == 3 + 2 * 7 + 1, "and a look for a job among the savepoints"
    assert found == in_a_directory.overview()
    assert [in_a_directory.job(line.job).overview for line in found] == found, "as the page of a job has it"


def test_the_heartbeat_of_a_job_that_was_deleted_is_believed_only_while_it_is_young(world: World) -> None:
    """Its driver was just at it, and stops at its next write."""
    world.healthy("job")
    world.store.delete(layout.identity("job"))
    monitor, clocks = _watch(world, Bucket(world.store.location))
    assert [line.state for line in monitor.overview()] == ["RUNNING"]

    clocks.pass_(120_000)

    assert monitor.overview() == []


def test_the_figures_of_an_older_heartbeat_are_those_of_the_history(world: World) -> None:
    written = world.healthy("job")
    store = Bucket(world.store.location)
    newer = _watch(world, store)[0].overview()
    written.status = replace(written.status, newest=None)
    _beat(world, "job", world.now_ms)

    older = _watch(world, store)[0].overview()

    assert older == newer
    assert older[0].rows_out_per_second == 820 and older[0].latest_checkpoint_bytes


def test_a_run_that_has_not_beaten_yet_is_found_in_a_bucket_too(world: World) -> None:
    written = world.healthy("job")
    latest = written.storage.latest_run()
    assert latest is not None
    written.storage.fence.claim(replace(latest, run=3))
    written.storage.fence.claim(replace(latest, run=4))
    monitor, _ = _watch(world, Bucket(world.store.location))

    assert monitor.overview()[0].run == 4


def test_a_job_whose_process_of_this_machine_is_gone_is_not_listed_as_running(world: World) -> None:
    written = world.lost("job")
    written.status = replace(written.status, written_ms=world.now_ms)
    written.storage.replace(layout.status("job"), written.status)
    assert written.status.state == "RUNNING", "it was killed"

    monitor, _ = _watch(world, Bucket(world.store.location))

    assert [line.state for line in monitor.overview()] == ["LOST"]


@pytest.mark.parametrize("of_store", [LocalStore, Bucket])
def test_a_killed_job_is_not_listed_as_running_once_another_run_has_failed(
    world: World, of_store: Callable[[str], Store]
) -> None:
    written = world.healthy("job")
    latest = written.storage.latest_run()
    assert latest is not None
    written.storage.fence.claim(replace(latest, run=3))
    written.storage.record_result(Result(run=3, state="FAILED", ended_ms=world.now_ms))

    monitor, _ = _watch(world, of_store(world.store.location))

    assert [(line.state, line.run) for line in monitor.overview()] == [("FAILED", 3)]


@pytest.mark.parametrize("of_store", [LocalStore, Bucket])
def test_a_job_that_has_ended_is_not_listed_as_ended_once_another_run_is_claimed(
    world: World, of_store: Callable[[str], Store]
) -> None:
    written = world.ended("job", "STOPPED")
    latest = written.storage.latest_run()
    assert latest is not None
    monitor, clocks = _watch(world, of_store(world.store.location))
    before = monitor.overview()[0]

    written.storage.fence.claim(replace(latest, run=3))  # its driver dies at once
    clocks.pass_(10_000)
    after = monitor.overview()[0]

    assert (before.state, before.run, after.state, after.run) == ("STOPPED", 2, "LOST", 3)
    assert monitor.job("job").overview == after


def test_in_a_directory_a_last_heartbeat_that_comes_after_the_next_claim_is_not_believed(world: World) -> None:
    written = world.ended("job", "STOPPED")
    latest = written.storage.latest_run()
    assert latest is not None
    written.storage.fence.claim(replace(latest, run=3))
    _beat(world, "job", world.now_ms)

    assert [line.state for line in _watch(world)[0].overview()] == ["LOST"]


def test_a_heartbeat_of_an_older_version_that_says_nothing_of_the_end_is_as_good(world: World) -> None:
    written = world.ended("job", "STOPPED")
    store = Bucket(world.store.location)
    newer = _watch(world, store)[0].overview()
    written.status = replace(written.status, result=None)
    written.storage.replace(layout.status("job"), written.status)

    assert _watch(world, store)[0].overview() == newer


def test_a_job_whose_documents_are_refused_hides_no_other(world: World) -> None:
    for name in ("whole", "refused", "half"):
        world.healthy(name)
    store = Bucket(world.store.location)
    store.denied = ("refused/", "half/status.json")
    monitor, _ = _watch(world, store)

    found = {line.job: (line.state, line.error and line.error.code) for line in monitor.overview()}

    refused = ("UNREADABLE", "STORAGE_UNAVAILABLE")
    assert found == {"whole": ("RUNNING", None), "refused": refused, "half": refused}


def test_a_second_look_is_at_the_jobs_in_doubt_alone(world: World) -> None:
    world.healthy("healthy")
    world.silent("silent")
    store = Bucket(world.store.location)
    monitor, clocks = _watch(world, store)
    monitor.overview()
    wait_ms = monitor.watch.second_look_ms()
    assert wait_ms
    clocks.pass_(wait_ms)
    store.was_read.clear()

    monitor.watch.look_again_where_in_doubt()
    found = {line.job: line.state for line in monitor.overview()}

    assert found == {"healthy": "RUNNING", "silent": "SILENT"}
    assert {path.split("/")[0] for path in store.was_read} == {"silent", "_savepoints"}


def test_a_run_has_a_state_also_where_it_has_no_result(world: World) -> None:
    world.silent("silent")
    world.lost("lost")
    world.healthy("healthy")
    monitor, clocks = _watch(world)
    monitor.job("silent")
    clocks.pass_(3_000)
    _beat(world, "healthy", clocks.now_ms)

    states = {name: [run.state for run in monitor.history.runs(name)] for name in world.jobs}

    assert {name: found[0] for name, found in states.items()} == {
        "silent": "SILENT", "lost": "LOST", "healthy": "RUNNING",
    }  # fmt: skip
    assert all(state != "RUNNING" for found in states.values() for state in found[1:])


@pytest.mark.parametrize("minutes", [0, 1, 5, 9, 10, 11, 29, 30, 31, 600])
def test_the_samples_since_a_moment_are_all_of_them_and_older_segments_are_not_read(tmp_path, minutes: int) -> None:
    store = Counting(str(tmp_path))
    world = World(str(tmp_path))
    storage = world.healthy("job").storage
    samples = [replace(world.jobs["job"].rates[0], time_ms=world.now_ms - (179 - i) * 10_000) for i in range(180)]
    for k in range(3):
        rows = tuple(samples[60 * k : 60 * k + 60])
        storage.replace(layout.history_segment("job", "rates", 2, k, 60 * k), RateSegment(first=60 * k, rows=rows))
    since_ms = world.now_ms - minutes * 60_000

    found = Monitor(store).history.rates("job", since_ms).samples

    assert [one.time_ms for one in found] == [one.time_ms for one in samples if one.time_ms > since_ms]
    read = {path for path in store.was_read if "/rates/" in path}
    assert len(read) == (1 if minutes < 10 else 2 if minutes < 12 else 3)
