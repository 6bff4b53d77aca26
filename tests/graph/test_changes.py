"""Each kind of change has a rule, and is found where it is there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rekindle.errors import DefinitionError, RestoreError
from rekindle.errors.conditions import CONDITIONS
from rekindle.graph.changes import RULES, Change, ChangeKind, Outcome, Saved, changes, renames
from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.graph.settling import late_histories, refuse_unnamed_rename, settle, unsettled, with_other_inputs
from rekindle.graph.validation import validated

LIVE = Source(uid="live", bounded=False)
READ = Task(uid="read", inputs=("live",))
COUNT = Task(uid="count", inputs=("read",))
OUT = Sink(uid="out", task="count", kind="Parquet")
JOB = JobGraph(name="job", sources=(LIVE,), tasks=(READ, COUNT), sinks=(OUT,))


def saved(graph: JobGraph = JOB, **other: object) -> Saved:
    """What is saved of a job."""
    found = Saved(
        job=graph.name,
        graph={task.uid: task.inputs for task in graph.tasks},
        parallelism={task.uid: task.parallelism for task in graph.tasks},
        chains={vertex.uid: vertex.chain for vertex in graph.topology.vertices},
        kinds={sink.uid: sink.kind for sink in graph.sinks},
    )
    return replace(found, **other)  # type: ignore[arg-type]


def kinds(graph: JobGraph, before: Saved) -> list[tuple[ChangeKind, str]]:
    return [(one.kind, one.uid) for one in changes(graph, before, {})]


def test_every_kind_has_a_rule_and_every_refusal_a_code_that_says_what_to_do() -> None:
    assert set(RULES) == set(ChangeKind)
    for rule in RULES.values():
        refused = Outcome.REFUSED in (rule.in_place, rule.restored)
        assert (rule.code is not None) == (refused or rule.allow is not None)
        assert rule.code is None or CONDITIONS[rule.code].next_step


def test_a_job_that_is_as_it_was_has_no_changes() -> None:
    assert changes(JOB, saved(), {}) == []
    assert changes(JOB, saved(chains={}), {}) == [], "an older version did not save its sinks"


def test_what_is_new_is_found() -> None:
    beside = Task(uid="beside", inputs=("live",))
    more = Task(uid="more", inputs=("beside", "read"))
    last = Task(uid="last", inputs=("more",))
    added = (beside, more, last)
    graph = replace(JOB, tasks=(*JOB.tasks, *added), sinks=(OUT, Sink(uid="second", task="count")))
    assert kinds(graph, saved()) == [
        (ChangeKind.TASK_ADDED, "beside"),
        (ChangeKind.TASK_ADDED, "last"),
        (ChangeKind.READER_ADDED, "more"),
        (ChangeKind.SINK_ADDED, "second"),
    ]
    assert (ChangeKind.READER_OF_FINISHED, "more") in kinds(graph, saved(finished=("read",)))


def test_a_source_of_another_kind_is_refused_to_those_that_stand_in_it() -> None:
    graph = replace(JOB, sources=(replace(LIVE, kind="Jdbc"),))
    before = saved(source_kinds={"live": "Stream"})
    (found,) = changes(graph, before, {})
    assert (found.kind, found.uid) == (ChangeKind.SOURCE_REPLACED, "read")
    for in_place in (True, False):
        with pytest.raises(RestoreError, match="was Stream and is now Jdbc") as caught:
            settle([found], "here", in_place=in_place)
        assert caught.value.code == "SOURCE_REPLACED"
    assert kinds(graph, saved(source_kinds={"live": "Jdbc"})) == []
    assert kinds(graph, saved()) == [], "an older version did not save it"
    assert kinds(JOB, before) == [], "it is not known what it is now"
    assert kinds(graph, replace(before, finished=("read",))) == [], "nothing of it is left to be read"
    first = replace(READ, inputs=("other",))
    others = replace(JOB, sources=(LIVE, Source(uid="other", bounded=True)), tasks=(first, COUNT))
    assert kinds(graph, replace(before, graph=saved(others).graph))[0] == (ChangeKind.INPUT_ADDED, "read")


def test_a_source_that_ended_and_no_longer_does_is_refused_and_the_other_way_is_not() -> None:
    live, ends = (replace(LIVE, kind="SplitSource", bounded=bounded) for bounded in (False, True))
    before = saved(source_kinds={"live": "SplitSource"}, bounded=["live"])
    (found,) = changes(replace(JOB, sources=(live,)), before, {})
    with pytest.raises(RestoreError, match="was a SplitSource that ends and is now a SplitSource without an end"):
        settle([found], "here", in_place=True)
    assert kinds(replace(JOB, sources=(ends,)), before) == []
    assert kinds(replace(JOB, sources=(ends,)), replace(before, bounded=())) == []
    assert kinds(replace(JOB, sources=(live,)), replace(before, bounded=())) == [], "an older version did not save it"
    assert kinds(replace(JOB, sources=(live,)), replace(before, finished=("read",))) == []


def test_what_is_gone_or_another_is_found() -> None:
    count = replace(COUNT, inputs=("live",), parallelism=2)
    other = replace(JOB, name="other", tasks=(count,), sinks=(replace(OUT, kind="Delta"), Sink(uid="new", task="gone")))
    before = saved(replace(JOB, sinks=(OUT, Sink(uid="old", task="read"))))
    assert kinds(other, before) == [
        (ChangeKind.TASK_DROPPED, "read"),
        (ChangeKind.INPUT_ADDED, "count"),
        (ChangeKind.INPUT_REMOVED, "count"),
        (ChangeKind.PARALLELISM, "count"),
        (ChangeKind.SINK_DROPPED, "old"),
        (ChangeKind.SINK_REPLACED, "out"),
        (ChangeKind.JOB_RENAMED, "other"),
    ]


def test_a_sink_with_the_uid_of_a_task_is_the_same_sink() -> None:
    graph = replace(JOB, sinks=(OUT, Sink(uid="read", task="count")))
    assert changes(graph, saved(graph), {}) == []


def test_a_renamed_task_is_one_whose_new_uid_was_not_saved() -> None:
    graph = replace(JOB, tasks=(READ, replace(COUNT, uid="per_key", was="count")), sinks=())
    assert renames(graph, {"read", "count"}) == {"per_key": "count"}
    assert renames(graph, {"read", "per_key"}) == {}, "it was renamed before"
    assert renames(graph, {"read", "per_key", "count"}) == {}
    found = changes(graph, saved(replace(JOB, tasks=graph.tasks, sinks=())), {"per_key": "count"})
    assert [(one.kind, one.uid, one.what) for one in found] == [(ChangeKind.TASK_RENAMED, "per_key", "was count")]


@pytest.mark.parametrize("was", ["read", "count"])
def test_one_task_cannot_have_been_another_that_is_still_there(was: str) -> None:
    graph = replace(JOB, tasks=(READ, replace(COUNT, was=was)))
    with pytest.raises(DefinitionError, match=f"WAS_TAKEN.*there is a task {was}"):
        validated(graph)


def test_two_tasks_cannot_have_been_one() -> None:
    graph = replace(JOB, tasks=(replace(READ, was="old"), replace(COUNT, was="old")))
    with pytest.raises(DefinitionError, match="task read was old too"):
        validated(graph)
    validated(replace(JOB, tasks=(READ, replace(COUNT, was="old"))))


def test_a_sink_with_prepared_rows_stays_what_it_was() -> None:
    assert unsettled(JOB, {"out": "Parquet"}, ["out"]) == []
    assert unsettled(JOB, {}, ["out"]) == []
    for graph, difference in ((replace(JOB, sinks=()), "is gone"), (JOB, "is now Parquet, and was Delta")):
        found = unsettled(graph, {"out": "Delta"}, ["out"])
        with pytest.raises(RestoreError, match=rf"SINK_UNSETTLED.*{difference}"):
            settle(found, "/state", in_place=True)


def test_in_place_a_change_goes_on_or_goes_back_to_the_last_checkpoint() -> None:
    assert settle([change(ChangeKind.SINK_ADDED), change(ChangeKind.COLUMN_ADDED)], "/state", in_place=True) is False
    assert settle([change(ChangeKind.SINK_ADDED), change(ChangeKind.PARALLELISM)], "/state", in_place=True) is True
    assert settle([change(ChangeKind.PARALLELISM)], "/save/1", in_place=False) is False


def test_what_has_to_be_allowed_is_asked_for_where_the_checkpoint_is_known() -> None:
    parameters = {"uids": "read", "was": "read", "new": "a task"}
    gone = Change(kind=ChangeKind.TASK_DROPPED, uid="read", what="is gone", parameters=parameters)
    assert settle([gone], "/state", in_place=True) is True
    with pytest.raises(RestoreError, match=r"STATE_NOT_RESTORED.*/save/1.*read"):
        settle([gone], "/save/1", in_place=False)
    settle([gone], "/save/1", in_place=False, allowed={"allow_non_restored_state"})


def test_a_task_that_may_be_another_one_renamed_is_refused_first_and_the_way_to_say_so_is_named() -> None:
    old = Source(uid="old", bounded=True, event_time="ts")
    graph = replace(
        JOB,
        sources=(LIVE, old),
        tasks=(READ, replace(COUNT, uid="per_key", inputs=("read", "old"))),
        sinks=(Sink(uid="out", task="per_key"),),
    )
    found = [change(ChangeKind.HISTORY_LATE), *changes(graph, saved(), {})]

    with pytest.raises(RestoreError, match=r"STATE_NOT_RESTORED.*/save/1 holds state of count") as refused:
        refuse_unnamed_rename(found, "/save/1", allowed=())

    assert refused.value.next_step.startswith(
        "If 'per_key' is 'count' renamed, say so: @job.task(..., was='count'). Else add them back, or drop"
    )
    refuse_unnamed_rename(found, "/save/1", allowed={"allow_non_restored_state"})
    refuse_unnamed_rename(changes(JOB, saved(), {}), "/save/1", allowed=())
    alone = replace(JOB, tasks=(READ,), sinks=(Sink(uid="out", task="read"),))
    refuse_unnamed_rename(changes(alone, saved(), {}), "/save/1", allowed=())
    # Of another job all tasks are different.
    others = changes(replace(graph, name="other"), saved(), {})
    refuse_unnamed_rename(others, "/save/1", allowed=())
    with pytest.raises(RestoreError, match="STATE_NOT_RESTORED"):
        refuse_unnamed_rename(others, "/save/1", allowed={"allow_other_name"})


def change(kind: ChangeKind) -> Change:
    return Change(kind=kind, uid="x", what="is another")


def test_inputs_come_go_and_change_places() -> None:
    old = Source(uid="old", bounded=True, event_time="ts")
    both = replace(COUNT, inputs=("read", "live"))
    graph = replace(JOB, sources=(LIVE, old), tasks=(READ, both))
    assert kinds(graph, saved()) == [(ChangeKind.INPUT_ADDED, "count")]
    assert kinds(JOB, saved(graph)) == [(ChangeKind.INPUT_REMOVED, "count")]
    turned = replace(graph, tasks=(READ, replace(COUNT, inputs=("live", "read"))))
    found = changes(turned, saved(graph), {})
    assert [one.kind for one in found] == [ChangeKind.INPUTS_TURNED]
    assert with_other_inputs(found) == {"count"} and not settle(found, "here", in_place=False)
    over = changes(graph, saved(replace(graph, tasks=(READ, replace(COUNT, inputs=("live",)))), finished=["read"]), {})
    assert [one.kind for one in over] == [ChangeKind.INPUT_OF_FINISHED]
    with pytest.raises(RestoreError) as refused:
        settle(changes(JOB, saved(graph), {}), "here", in_place=False)
    assert refused.value.code == "INPUT_NOT_RESTORED" and "task 'count' reads live" in str(refused.value)

    found = changes(replace(graph, tasks=(READ, replace(COUNT, inputs=("read", "old", "live")))), saved(), {})
    now = replace(graph, tasks=(READ, replace(COUNT, inputs=("read", "old", "live"))))
    assert late_histories(now, found, {"read"}) == []
    (late,) = late_histories(now, found, {"count"})
    assert (late.kind, late.parameters) == (ChangeKind.HISTORY_LATE, {"task": "count", "source": "old"})


def test_rows_of_a_history_are_late_where_they_meet_a_state_and_however_they_come_there() -> None:
    old, untimed = Source(uid="old", bounded=True, event_time="ts"), Source(uid="untimed", bounded=True)
    new = Task(uid="new", inputs=("live", "old", "untimed"))
    graph = replace(JOB, sources=(LIVE, old, untimed), tasks=(new, replace(READ, inputs=("live", "new")), COUNT))
    found = changes(graph, saved(), {})
    assert [(one.kind, one.uid) for one in found] == [(ChangeKind.TASK_ADDED, "new"), (ChangeKind.INPUT_ADDED, "read")]
    (late,) = late_histories(graph, found, {"count"})
    assert late.parameters == {"task": "read", "source": "old"}
    assert late_histories(graph, found, set()) == []
    # A task that has run brings what it puts out from now on, and none of what it has read.
    ran = replace(saved(), graph={**saved().graph, "new": new.inputs})
    assert late_histories(graph, changes(graph, ran, {}), {"count"}) == []
