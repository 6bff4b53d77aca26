from __future__ import annotations

import inspect

import pytest

from rekindle.storage import layout, read_layout

FOLDER = layout.subtask("job", "hourly", 0, 1)

ARGUMENTS = {
    "name": "job",
    "number": 7,
    "uid": "live",
    "source_folder": layout.source("job", "live"),
    "attempt": "000001-0",
    "task": "hourly",
    "index": 0,
    "lineage_number": 1,
    "subtask_folder": FOLDER,
    "source_uid": "live",
    "checkpoint_folder": layout.checkpoint("job", 7),
    "reads_folder": read_layout.reads(FOLDER, "live"),
    "splits_folder": read_layout.splits("job", "hourly", 3, "live"),
    "request_id": "0001",
    "log": "events",
    "segment": 2,
    "piece": 2,
    "first": 200,
    "folder": "hourly-000000007-abc",
    "savepoint_folder": "hourly-000000007-abc",
    "inbox_folder": layout.inbox(FOLDER, "live"),
    "marks_folder": layout.marks(FOLDER, "live"),
    "file_name": "3",
    "by_all": True,
    "begun": True,
}

FILES = {
    "identity": "job.create",
    "run": "run.create",
    "result": "result.create",
    "lineage": "lineage.create",
    "frozen_files": "files.freeze",
    "batch": "record.create",
    "output_schema": "schema.create",
    "split_assignment": "split.assign",
    "splits_given": "splits.give",
    "split_read": "read.create",
    "prelude": "prelude.create",
    "end": "end.create",
    "drain": "drain.create",
    "inbox_opened": "inbox.open",
    "admission": "inbox.admit",
    "mark_row": "mark.write",
    "manifest": "manifest.create",
    "committed": "committed.create",
    "rewound": "rewound.create",
    "request": "request.create",
    "answer": "answer.create",
    "status": "status.replace",
    "history_segment": "history.replace",
    "log_piece": "log.replace",
    "reserve": "reserve.create",
}

FOLDERS = {
    "job": {},
    "runs": {},
    "lineages": {},
    "source": {},
    "source_segments": {},
    "tasks": {},
    "subtask": {},
    "checkpoints": {},
    "checkpoint": {},
    "control": {},
    "history": {},
    "logs": {},
    "splits": {"000003.json": "split.assign", "000003.given.json": "splits.give"},
    "reads_of_sources": {"live/000000003.json": "read.create"},
    "reads": {"000000003.json": "read.create"},
    "staged_rows": {},
    "prelude_folder": {"inbox/history/_spark_metadata/0": "inbox.admit"},
    "prelude_attempt": {},
    "prelude_copy": {},
    "prelude_progress": {},
    "sink": {},
    "savepoint_subtask": {
        "spark/offsets/3": "progress.write",
        "batches/000000003.json": "record.create",
        "segments/000000003-1a2b/part-0.parquet": "segment.copy",
        "schema.json": "schema.create",
    },
    "savepoint_sources": {"files.json": "files.freeze", "segments/000001-0/part-0.parquet": "segments.copy"},
    "batches": {},
    "segments": {"000000007-1a2b/part-0.parquet": "segment.copy"},
    "segment_folder": {"part-0.parquet": "segment.copy"},
    "admissions": {},
    "mark_rows": {},
    "spark_progress_dir": {"offsets/3": "progress.write", "metadata": "progress.write"},
    "inbox": {"_spark_metadata/3": "inbox.admit", "_spark_metadata/9.compact": "inbox.admit"},
    "marks": {"_spark_metadata/3": "mark.admit", "_spark_metadata/9.compact": "mark.admit", "rows/a": "mark.write"},
}

OF_NO_RUN = {"disposed", "copied", "bell"}
"""What a verb writes and no run does: it is no step of one."""

PATH_FUNCTIONS = {
    name: function
    for module in (layout, read_layout)
    for name, function in inspect.getmembers(module, inspect.isfunction)
    if function.__module__ == module.__name__ and not name.startswith("_") and name != "step_of"
}


def path_of(name: str) -> str:
    function = PATH_FUNCTIONS[name]
    return function(**{parameter: ARGUMENTS[parameter] for parameter in inspect.signature(function).parameters})


def test_every_path_function_is_here_as_a_file_or_a_folder() -> None:
    assert set(PATH_FUNCTIONS) == FILES.keys() | FOLDERS.keys() | OF_NO_RUN


@pytest.mark.parametrize("name", FILES)
def test_every_file_that_is_written_is_a_step(name: str) -> None:
    assert layout.step_of(path_of(name)) == FILES[name]


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_is_no_step_and_what_is_written_below_it_is(name: str) -> None:
    with pytest.raises(KeyError):
        layout.step_of(path_of(name))
    for below, step in FOLDERS[name].items():
        assert layout.step_of(f"{path_of(name)}/{below}") == step


def test_every_step_has_a_path() -> None:
    below = {step for steps in FOLDERS.values() for step in steps.values()}
    assert layout.STEPS.keys() == set(FILES.values()) | below


def test_what_is_written_before_is_beside_it_and_a_step_too() -> None:
    before = layout.rewound(layout.checkpoint("job", 7), by_all=False), layout.status("job", begun=False)
    assert [layout.step_of(path) for path in before] == ["rewound.create", "status.replace"]
    assert not {*before} & {path_of(name) for name in PATH_FUNCTIONS}


def test_the_manifest_in_a_savepoints_own_storage_is_a_step_too() -> None:
    assert layout.step_of(layout.manifest("")) == "manifest.create"


def test_paths_of_different_things_differ() -> None:
    paths = [path_of(name) for name in PATH_FUNCTIONS]
    assert len(set(paths)) == len(paths)


def test_numbered_files_sort_as_their_numbers() -> None:
    numbers = [1, 9, 10, 99, 100, 999_999]
    for path in (lambda n: layout.batch(FOLDER, n), lambda n: layout.run("job", n), lambda n: layout.lineage("job", n)):
        assert sorted(map(path, numbers)) == [path(number) for number in numbers]
