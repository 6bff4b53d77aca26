"""The contents of a checkpoint or savepoint, as `rekindle inspect` shows them: plain data, as in `views`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rekindle.ids import SubtaskId
from rekindle.progress.state_sizes import StateSize, state_sizes
from rekindle.storage import layout
from rekindle.storage.documents.batch import InputPosition
from rekindle.storage.documents.checkpoint import SubtaskSnapshot
from rekindle.storage.origin import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskContents:
    """A subtask in a checkpoint or savepoint."""

    uid: str
    subtask: int
    batch: int
    finished: bool = False
    watermark_ms: int | None = None
    #: input → how far it was read
    inputs: dict[str, Any] = field(default_factory=dict)
    state: tuple[StateSize, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentsView:
    """The contents of a checkpoint or savepoint that is still there."""

    path: str
    job: str
    checkpoint: int
    kind: str
    savepoint: bool
    drained: bool
    run: int
    completed_ms: int
    in_flight_bytes: int
    size_bytes: int
    finished_tasks: tuple[str, ...] = ()
    subtasks: tuple[SubtaskContents, ...] = ()


def contents(origin: Origin, path: str) -> ContentsView:
    """Return what is in the checkpoint or savepoint at `path`, with the state that a restore would load."""
    manifest = origin.manifest
    return ContentsView(
        path=path,
        job=manifest.job,
        checkpoint=manifest.checkpoint,
        kind=manifest.kind,
        savepoint=manifest.savepoint,
        drained=manifest.drained,
        run=manifest.run,
        completed_ms=manifest.completed_ms,
        in_flight_bytes=manifest.in_flight_bytes,
        size_bytes=manifest.size_bytes,
        finished_tasks=manifest.finished_tasks,
        subtasks=tuple(
            SubtaskContents(
                uid=uid,
                subtask=index,
                batch=snapshot.batch,
                finished=snapshot.end is not None,
                watermark_ms=snapshot.watermark_ms,
                inputs={name: _position(item) for name, item in snapshot.inputs.items()},
                state=_state(origin, SubtaskId(uid, index), snapshot),
            )
            for uid, snapshots in manifest.tasks.items()
            for index, snapshot in sorted(snapshots.items())
        ),
    )


def _state(origin: Origin, subtask: SubtaskId, snapshot: SubtaskSnapshot) -> tuple[StateSize, ...]:
    if snapshot.end is not None or snapshot.batch < 0:
        return ()
    folder = layout.spark_progress_dir(origin.subtask(subtask))
    return tuple(state_sizes(origin.store, folder, snapshot.batch))


def _position(item: InputPosition) -> Any:
    if item.channels:
        return {"batches": {str(index): channel.batches for index, channel in item.channels.items()}}
    return {"files": item.files, "bytes": item.bytes} if item.offset is None else item.offset
