"""Every path of a job's storage. No other module joins strings into paths, except `read_layout`, which continues it.

    <storage>/<job>/
      job.json                                  identity of the job, version of the format
      runs/<run>.json                           one for each start, 200 kept; the next number fences earlier drivers
      runs/<run>.result.json                    how the run ended
      lineages/<lineage>.json                   the commit point of a start from a checkpoint or savepoint
      sources/<uid>/files.json                  the fixed list of files of a bounded source
      sources/<uid>/segments/<attempt>/         the rows of a Batch source, written once
      tasks/<uid>/<subtask>/<lineage>/
          spark/                                Spark's own checkpoint directory
          batches/<N>.json                      batch records
          segments/<N>-<attempt>/               rows that a batch puts into the channels of its task
          schema.json                           the columns of these rows
          end.json                              the subtask has finished its logic
          drain.json                            a drain has begun and will be completed
          prelude.json, prelude/                a history that is computed as a batch, and rows for that
          reads/<input>/<k>.json, <k>-<attempt>/  a read of a custom source with the position after it, and its rows
          inbox/<input>/_spark_metadata/<k>     admissions of data; .opened creates the folder
          marks/<input>/_spark_metadata/<k>     admissions of watermark rows
          marks/<input>/rows/<name>.parquet     the watermark rows
      tasks/<uid>/splits/<lineage>/<source>/<k>.json  the subtask that reads the next range of files
      tasks/<uid>/splits/<lineage>/<source>/<k>.given.json  the subtasks that read splits of a custom source
      sinks/<uid>/                              rows that a sink cannot stage in its target
      checkpoints/<id>/manifest.json            what the checkpoint consists of
      checkpoints/<id>/committed.json           its transactions are committed, and are not repeated
      checkpoints/<id>/rewinding.json, rewound.json  the rows that it committed are being taken back, and were
      control/<request>.request.json, <request>.answer.json  a request to the driver, and its answer
      control/bell                              the last request; only in HDFS and buckets
      status.json, starting.json                the heartbeat, and the one of a driver that only starts
      history/<log>/<run>-<k>-<first>.json      events, checkpoints and rates, in segments; the oldest are deleted
      logs/<run>-<k>.jsonl                      the log of the driver, in pieces; the oldest are deleted
      reserve                                   room for the result of a run that ends because the disk is full
      copied.json                               the job is a copy; without job.json it is not a job yet

    <storage>/_savepoints/<job>-<id>-<random>/  savepoints for which no place was given

`STEPS` is what the crash tests go through: a path of a run that no row of it matches fails the tests.
"""

from __future__ import annotations

import re

FORMAT_VERSION = 1
"""Version of everything written below; readers refuse newer ones (``FORMAT_NEWER``)."""

SAVEPOINTS = "_savepoints"
"""Folder of savepoints for which no place was given. It outlives the jobs, and no job can be called so."""


def job(name: str) -> str:
    return name


def identity(name: str) -> str:
    return f"{name}/job.json"


def runs(name: str) -> str:
    return f"{name}/runs"


def run(name: str, number: int) -> str:
    return f"{name}/runs/{number:06d}.json"


def result(name: str, number: int) -> str:
    return f"{name}/runs/{number:06d}.result.json"


def lineages(name: str) -> str:
    return f"{name}/lineages"


def lineage(name: str, number: int) -> str:
    return f"{name}/lineages/{number:06d}.json"


def source(name: str, uid: str) -> str:
    return f"{name}/sources/{uid}"


def frozen_files(source_folder: str) -> str:
    return f"{source_folder}/files.json"


def source_segments(name: str, uid: str, attempt: str) -> str:
    return f"{name}/sources/{uid}/segments/{attempt}"


def tasks(name: str) -> str:
    """Return the folder of tasks. Each task's folder has its subtasks and ``splits``; each of these has lineages."""
    return f"{name}/tasks"


def subtask(name: str, task: str, index: int, lineage_number: int) -> str:
    """Return the folder of a subtask in one lineage; the paths that follow are below it."""
    return f"{name}/tasks/{task}/{index}/{lineage_number:06d}"


def savepoint_subtask(folder: str, task: str, index: int) -> str:
    """Return the folder of a subtask in the savepoint `folder`."""
    return f"{folder}/tasks/{task}/{index}"


def savepoint_sources(folder: str, uid: str) -> str:
    """Return the folder of a source in the savepoint `folder`."""
    return f"{folder}/sources/{uid}"


def spark_progress_dir(subtask_folder: str) -> str:
    return f"{subtask_folder}/spark"


def batches(subtask_folder: str) -> str:
    return f"{subtask_folder}/batches"


def batch(subtask_folder: str, number: int) -> str:
    return f"{subtask_folder}/batches/{number:09d}.json"


def end(subtask_folder: str) -> str:
    return f"{subtask_folder}/end.json"


def drain(subtask_folder: str) -> str:
    return f"{subtask_folder}/drain.json"


def output_schema(subtask_folder: str) -> str:
    return f"{subtask_folder}/schema.json"


def segments(subtask_folder: str) -> str:
    """Return the folder of what the subtask puts into its channels; the names in it are those of `segment_folder`."""
    return f"{subtask_folder}/segments"


def segment_folder(subtask_folder: str, number: int, attempt: str) -> str:
    """Return the folder of what one attempt at a batch puts into the channels."""
    return f"{subtask_folder}/segments/{number:09d}-{attempt}"


def inbox(subtask_folder: str, source_uid: str) -> str:
    return f"{subtask_folder}/inbox/{source_uid}"


def marks(subtask_folder: str, source_uid: str) -> str:
    return f"{subtask_folder}/marks/{source_uid}"


def admissions(inbox_folder: str) -> str:
    """Return the folder of an inbox's log, named and laid out as Spark's file sink does it."""
    return f"{inbox_folder}/_spark_metadata"


def admission(inbox_folder: str, file_name: str) -> str:
    return f"{inbox_folder}/_spark_metadata/{file_name}"


def inbox_opened(inbox_folder: str) -> str:
    """Return the path of an empty object that makes the inbox a folder Spark can read before anything is admitted."""
    return f"{inbox_folder}/_spark_metadata/.opened"


def mark_rows(marks_folder: str) -> str:
    return f"{marks_folder}/rows"


def mark_row(marks_folder: str, file_name: str) -> str:
    return f"{marks_folder}/rows/{file_name}"


def sink(name: str, uid: str) -> str:
    """Return the folder for what a sink stages that cannot be staged in its target; its content is the sink's own."""
    return f"{name}/sinks/{uid}"


def checkpoints(name: str) -> str:
    return f"{name}/checkpoints"


def checkpoint(name: str, number: int) -> str:
    return f"{name}/checkpoints/{number:09d}"


def manifest(checkpoint_folder: str) -> str:
    """Return the path of the manifest of a checkpoint or savepoint folder; the empty folder is a savepoint's store."""
    return f"{checkpoint_folder}/manifest.json" if checkpoint_folder else "manifest.json"


def disposed(savepoint_folder: str) -> str:
    """Return the path of the mark of a savepoint that is being deleted; the empty folder is a savepoint's store."""
    return f"{savepoint_folder}/disposed.json".removeprefix("/")


def committed(checkpoint_folder: str) -> str:
    """Return the path of the document that exists once every transaction of the checkpoint has been committed."""
    return f"{checkpoint_folder}/committed.json"


def rewound(checkpoint_folder: str, *, by_all: bool = True) -> str:
    """Return the path of the document that exists once all sinks, or perhaps one, took back what they had committed."""
    return f"{checkpoint_folder}/{'rewound' if by_all else 'rewinding'}.json"


def control(name: str) -> str:
    return f"{name}/control"


def request(name: str, request_id: str) -> str:
    return f"{name}/control/{request_id}.request.json"


def answer(name: str, request_id: str) -> str:
    return f"{name}/control/{request_id}.answer.json"


def bell(name: str) -> str:
    return f"{name}/control/bell"


def status(name: str, *, begun: bool = True) -> str:
    return f"{name}/{'status' if begun else 'starting'}.json"


def history(name: str, log: str) -> str:
    """Return the folder of a log of the job's history: ``events``, ``checkpoints`` or ``rates``."""
    return f"{name}/history/{log}"


def history_segment(name: str, log: str, number: int, segment: int, first: int) -> str:
    """Return the path of a segment of a log, named by the run that wrote it, its number, and that of its first row."""
    return f"{name}/history/{log}/{number:06d}-{segment:06d}-{first:09d}.json"


def logs(name: str) -> str:
    """Return the folder of the log of a job's drivers."""
    return f"{name}/logs"


def log_piece(name: str, number: int, piece: int) -> str:
    return f"{name}/logs/{number:06d}-{piece:06d}.jsonl"


def reserve(name: str) -> str:
    """Return the path of a file that takes up room: it is deleted where a result would find no room."""
    return f"{name}/reserve"


def copied(name: str) -> str:
    """Return the path of the document of a job that was copied from another storage; it is written before any other."""
    return f"{name}/copied.json"


STEPS: dict[str, str] = {
    "job.create": r"[^/]+/job\.json",
    "run.create": r"[^/]+/runs/\d+\.json",
    "result.create": r"[^/]+/runs/\d+\.result\.json",
    "lineage.create": r"[^/]+/lineages/\d+\.json",
    "files.freeze": r"[^/]+/sources/[^/]+/files\.json",
    "segments.copy": r"[^/]+/sources/[^/]+/segments/[^/]+/.+",
    "segment.copy": r".*/tasks/[^/]+/\d+(/\d+)?/segments/[^/]+/.+",
    "schema.create": r".*/schema\.json",
    "split.assign": r"[^/]+/tasks/[^/]+/splits/\d+/[^/]+/\d+\.json",
    "splits.give": r"[^/]+/tasks/[^/]+/splits/\d+/[^/]+/\d+\.given\.json",
    "read.create": r"[^/]+/tasks/[^/]+/\d+/\d+/reads/[^/]+/\d+\.json",
    "record.create": r".*/batches/\d+\.json",
    "end.create": r".*/end\.json",
    "drain.create": r".*/drain\.json",
    "prelude.create": r".*/prelude\.json",
    "inbox.open": r".*/(inbox|marks)/[^/]+/_spark_metadata/\.opened",
    "inbox.admit": r".*/inbox/[^/]+/_spark_metadata/\d+(\.compact)?",
    "mark.write": r".*/marks/[^/]+/rows/[^/]+",
    "mark.admit": r".*/marks/[^/]+/_spark_metadata/\d+(\.compact)?",
    "progress.write": r".*/spark/.*",
    "manifest.create": r"(.*/)?manifest\.json",
    "committed.create": r"[^/]+/checkpoints/\d+/committed\.json",
    "rewound.create": r"[^/]+/checkpoints/\d+/rew(inding|ound)\.json",
    "request.create": r".*/control/[^/]+\.request\.json",
    "answer.create": r".*/control/[^/]+\.answer\.json",
    "status.replace": r"[^/]+/(status|starting)\.json",
    "history.replace": r"[^/]+/history/[^/]+/\d+-\d+-\d+\.json",
    "log.replace": r"[^/]+/logs/\d+-\d+\.jsonl",
    "reserve.create": r"[^/]+/reserve",
}
"""Name of a durable step → the paths it writes. Steps that are not writes to the storage are in `runtime.steps`."""

_OF_NO_RUN = {"copy.begin": r"[^/]+/copied\.json", "bell.ring": r"[^/]+/control/bell"}
_STEPS = [(step, re.compile(path)) for step, path in {**STEPS, **_OF_NO_RUN}.items()]


def step_of(path: str) -> str:
    """Return the durable step that a write to `path` is; raise KeyError for a path that this module does not know."""
    for name, pattern in _STEPS:
        if pattern.fullmatch(path):
            return name
    raise KeyError(path)
