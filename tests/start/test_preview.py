"""What a start would do is said before it does it. That it then does so, the simulated lives compare at each start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rekindle as rk
from rekindle.config import Config
from rekindle.errors import JobError, RestoreError, SinkError
from rekindle.sinks import TwoPhaseSink
from rekindle.start.described_changes import changes, in_new_names
from rekindle.start.previews import JobChange, StartPreview, TaskPreview
from rekindle.storage.documents.runs import JobDescription, SinkDescription, SourceDescription, TaskDescription
from rekindle.testing.fake_sink import FakeSink
from tests.runtime.kit import NEVER, World, ended, until


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def look(world: World, restore: str | None = None, **config: object) -> StartPreview:
    before = world.files()
    said = world.launch(**config).preview(restore)  # type: ignore[arg-type]
    assert world.files() == before, "it only looks"
    return said


def stopped(world: World) -> None:
    world.rows.available, world.rows.ended = 10, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 10)
    handle.stop()
    assert ended(handle).state == "STOPPED"


def test_a_job_that_never_ran_begins_and_its_storage_is_not_made(world: World) -> None:
    said = look(world)
    assert (said.beginning, said.checkpoint, said.running, said.changes) == ("begins", None, None, ())
    assert said.tasks == (TaskPreview(uid="task", fate="begins", subtasks=1),)
    assert not Path(world.location).exists()


def test_a_job_that_was_stopped_resumes_after_its_last_batch_with_the_settings_that_have_changed(world: World) -> None:
    stopped(world)
    said = look(world, **{**NEVER, "checkpoint.retained": "7"})
    assert (said.beginning, said.checkpoint) == ("resumes", 1)
    assert said.tasks == (TaskPreview(uid="task", fate="resumes", subtasks=1, batch=max(world.records())),)
    assert said.changes == (JobChange(what="setting checkpoint.retained", before="3", now="7"),)


def test_settings_that_values_depend_on_are_compared_where_a_session_tells_them(world: World) -> None:
    world.engine.value_settings = {"zone": "UTC", "ansi": "true"}
    stopped(world)
    world.engine.value_settings = {"zone": "Asia/Tokyo", "ansi": "true"}
    said = world.launch(**NEVER).preview(None, world.engine)
    assert said.changes == (JobChange(what="session: zone", before="UTC", now="Asia/Tokyo"),)
    assert look(world, **NEVER).changes == ()


def test_what_no_one_has_foreseen_while_the_queries_are_looked_at_has_a_code_and_its_cause(world: World) -> None:
    world.engine.before["examine"] = lambda: 1 // 0
    with pytest.raises(JobError, match=r"START_FAILED.*ZeroDivisionError: ") as raised:
        world.launch().preview(None, world.engine)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


def test_a_target_that_a_start_would_refuse_is_named_and_the_others_are_looked_at(world: World) -> None:
    def taken() -> None:
        raise SinkError("TARGET_TAKEN", sink="out", target="there", owner="other-1", storage="elsewhere", since="today")

    world.sinks["out"].before["examine"] = taken
    said = look(world)
    assert said.refused
    found = {sink.uid: sink.refused for sink in said.sinks}
    assert found["out"] is not None and found["out"]["code"] == "TARGET_TAKEN"
    assert found["second"] is None


def test_a_sink_that_only_a_start_can_look_at_is_named(world: World) -> None:
    class Unseen(FakeSink):
        examine = TwoPhaseSink.examine

    world.sinks["out"] = Unseen()
    said = look(world)
    assert not said.refused
    assert {sink.uid: sink.unseen for sink in said.sinks} == {
        "out": "such a sink is looked at by the start alone",
        "second": None,
    }


def test_a_sink_at_work_is_not_touched_by_a_look(world: World) -> None:
    looked_at = []

    class Marked(FakeSink):
        def examine(self, claim: Any, columns: Any) -> int | None:
            looked_at.append(claim.sink)
            self.places = ("changed by the look",)
            return super().examine(claim, columns)

    world.sinks["out"] = Marked()
    before = dict(vars(world.sinks["out"]))
    look(world)
    assert looked_at == ["out"]
    assert vars(world.sinks["out"]) == before


def test_a_job_that_has_ended_does_nothing_more(world: World) -> None:
    world.run(**NEVER)
    said = look(world, **NEVER)
    assert said.beginning == "has ended"
    assert [(task.fate, task.finished) for task in said.tasks] == [("finished", 1)]
    assert {one.fate for one in said.sources} == {one.fate for one in said.sinks} == {"finished"}


def test_a_checkpoint_is_named_with_its_path(world: World) -> None:
    stopped(world)
    said = look(world, "1")
    assert (said.beginning, said.checkpoint) == ("restores", 1)
    assert said.path is not None and said.path.endswith("checkpoints/000000001")
    assert [task.fate for task in said.tasks] == ["resumes"]


def test_what_forbids_a_start_is_said_as_the_start_says_it(world: World) -> None:
    stopped(world)
    with pytest.raises(RestoreError, match="CHECKPOINT_UNKNOWN"):
        look(world, "99")


def test_a_job_that_runs_is_looked_at_all_the_same(world: World) -> None:
    world.rows.available, world.rows.ended = 4, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 4)
    said = world.launch(**NEVER).preview(None)
    assert (said.running, said.beginning, [task.fate for task in said.tasks]) == (1, "resumes", ["resumes"])
    handle.cancel()
    ended(handle)


def test_rows_that_are_prepared_and_not_committed_are_committed_first(world: World) -> None:
    world.rows.available, world.rows.ended = 10, False
    handle = world.start(**NEVER)
    until(lambda: world.read() == 10)
    handle.cancel()
    assert ended(handle).state == "CANCELED"
    assert {sink.uid: sink.has_prepared for sink in look(world, **NEVER).sinks} == {"out": True, "second": True}


def test_a_source_or_sink_with_another_address_is_named_and_the_address_is_not() -> None:
    files = SourceDescription(uid="orders", kind="Files", bounded=True, address_hash="1")
    unknown = SinkDescription(uid="old", task="t", kind="Parquet")
    out = SinkDescription(uid="out", task="t", kind="Parquet", address_hash="2")
    before = JobDescription(sources=(files,), sinks=(out, unknown))
    now = replace(
        before,
        sources=(replace(files, address_hash="3"),),
        sinks=(replace(out, address_hash="4"), replace(unknown, address_hash="5")),
    )
    assert [(change.what, change.before, change.now) for change in changes(before, now)] == [
        ("source orders: address", "another", "as the job says"),
        ("sink out: address", "another", "as the job says"),
    ]
    assert list(changes(before, before)) == []


def test_changes_name_what_came_what_went_and_what_is_another() -> None:
    live = SourceDescription(uid="live", kind="Stream", bounded=False, event_time="ts", watermark="4 seconds")
    old = SourceDescription(uid="old", kind="Files", bounded=True)
    before = JobDescription(sources=(live, old), settings={"a": "1", "b": "2"}, version="0.1.0")
    now = replace(
        before,
        sources=(replace(live, watermark="10 seconds"),),
        sinks=(SinkDescription(uid="out", task="t", kind="Parquet"),),
        settings={"a": "1", "b": "3"},
    )
    assert [(change.what, change.before, change.now) for change in changes(before, now)] == [
        ("source live: watermark", "4 seconds", "10 seconds"),
        ("sink out: task", None, "t"),
        ("sink out: kind", None, "Parquet"),
        ("setting b", "2", "3"),
        ("source old: kind", "Files", None),
        ("source old: bounded", "true", None),
    ]
    assert not list(changes(before, before))


def test_a_renamed_task_is_no_change_of_its_description() -> None:
    job = rk.Job("bids")
    live = job.source("live", rk.Files("/data", format="json", schema="a INT"))

    @job.task(live, uid="joined", was="matched")
    def joined(rows: Any) -> Any:
        return rows

    @job.task(joined)
    def counted(rows: Any) -> Any:
        return rows

    job.sink("out", counted, rk.sinks.Parquet("/out"))
    job.sink("all", joined, rk.sinks.Parquet("/all"))
    now = JobDescription(
        tasks=(
            TaskDescription(uid="joined", inputs=("live",), parallelism=2),
            TaskDescription(uid="counted", inputs=("joined",)),
        ),
        sinks=(SinkDescription(uid="all", task="joined", kind="Parquet"),),
    )
    before = JobDescription(
        tasks=(
            TaskDescription(uid="matched", inputs=("live",)),
            TaskDescription(uid="counted", inputs=("matched",)),
        ),
        sinks=(SinkDescription(uid="all", task="matched", kind="Parquet"),),
    )

    assert [*changes(in_new_names(before, job.graph()), now)] == [
        JobChange(what="task joined: parallelism", before="1", now="2")
    ]


def test_all_settings_are_compared() -> None:
    shown = Config.of({}).shown()
    described = JobDescription(settings=shown)
    other = JobDescription(settings=dict.fromkeys(shown, "another"))
    assert len(list(changes(described, other))) == len(shown)
