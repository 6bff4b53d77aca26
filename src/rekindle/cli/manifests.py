"""A manifest as its user sees it: the JSON and the lines of `inspect`. Nothing is read here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from rekindle.cli import output
from rekindle.ids import SubtaskId
from rekindle.progress.state_sizes import StateSize
from rekindle.storage.documents.batch import InputPosition
from rekindle.storage.documents.checkpoint import Manifest, SubtaskSnapshot

Json = dict[str, Any]

States: TypeAlias = Mapping[SubtaskId, Sequence[StateSize]]
"""Subtask → the sizes of its operators' state."""


def manifest_json(manifest: Manifest, path: str, states: States, *, committed: bool) -> Json:
    """Return what ``inspect --json`` prints."""
    return {
        "path": path,
        "job": manifest.job,
        "checkpoint": manifest.checkpoint,
        "kind": manifest.kind,
        "mode": manifest.mode,
        "savepoint": manifest.savepoint,
        "drained": manifest.drained,
        "run": manifest.run,
        "lineage": manifest.lineage,
        "triggered_at": output.iso(manifest.triggered_ms),
        "completed_at": output.iso(manifest.completed_ms),
        "in_flight_bytes": manifest.in_flight_bytes,
        "size_bytes": manifest.size_bytes,
        "tasks": [
            {
                "uid": uid,
                "subtask": index,
                "finished": snapshot.end is not None,
                "finished_at": output.iso(snapshot.end.ended_ms) if snapshot.end else None,
                "finished_in_run": snapshot.end.run if snapshot.end else None,
                "batch": snapshot.batch,
                "watermark": output.iso(snapshot.watermark_ms),
                "inputs": {
                    name: {"ended": _has_ended(manifest, uid, name), "position": position(item)}
                    for name, item in snapshot.inputs.items()
                },
                "in_flight_batches": {
                    producer: {str(number): until - first for number, (first, until) in lanes.items()}
                    for producer, lanes in snapshot.in_flight.items()
                },
                "state": [
                    {
                        "operator": state.operator,
                        "name": state.name,
                        "partitions": state.partitions,
                        "rows": state.rows,
                        "bytes": state.bytes,
                    }
                    for state in states.get(SubtaskId(uid, index), ())
                ],
            }
            for uid, index, snapshot in _snapshots(manifest)
        ],
        "finished_tasks": list(manifest.finished_tasks),
        "unread_files": {
            uid: {name: sum(until - first for first, until in runs) for name, runs in sources.items()}
            for uid, sources in manifest.unread.items()
        },
        "pending_transactions": {uid: len(transactions) for uid, transactions in manifest.transactions.items()},
        "committed": committed,
    }


def position(item: InputPosition) -> Any:
    """Return how far an input was read: Spark's own offset, batches of each producer, or files and bytes."""
    if item.channels:
        return {"batches": {index: channel.batches for index, channel in item.channels.items()}}
    return {"files": item.files, "bytes": item.bytes} if item.offset is None else item.offset


def _has_ended(manifest: Manifest, task: str, name: str) -> bool:
    """Return True if an input was at its end: a source has nothing unread, a channel's producers have all finished."""
    return name in manifest.finished_tasks or manifest.unread.get(task, {}).get(name) == ()


def manifest_lines(manifest: Manifest, path: str, states: States, columns: int, *, committed: bool) -> list[str]:
    """Return the lines that ``inspect`` prints, each of at most `columns` characters except the path.

    Args:
        committed: the sinks have committed all that the checkpoint commits.
    """
    span = output.duration(manifest.completed_ms - manifest.triggered_ms)
    title = "savepoint" if manifest.savepoint else "checkpoint"
    lines = [f"{title} {manifest.checkpoint} of {manifest.job}" + (" (drained)" if manifest.drained else "")]
    facts = {
        "path": path,
        "kind": manifest.kind + (" of a batch run" if manifest.mode == "batch" else ""),
        "run": f"{manifest.run}, lineage {manifest.lineage}",
        "taken": f"{output.short_time(manifest.triggered_ms)} in {span}",
        # A checkpoint shares its state with the job: only a savepoint has a size of its own.
        "size": f"{output.size(manifest.size_bytes)}, in flight {output.size(manifest.in_flight_bytes)}"
        if manifest.savepoint
        else f"in flight {output.size(manifest.in_flight_bytes)}",
    }
    lines += [f"  {name:<6} {value}" for name, value in facts.items()]
    for uid, index, snapshot in _snapshots(manifest):
        lines.append(f"task {uid}/{index}  {_phase(snapshot)}  batch {snapshot.batch}")
        if manifest.mode != "batch":
            lines.append(f"  watermark {output.short_time(snapshot.watermark_ms)}")
        for name, item in snapshot.inputs.items():
            state = "ended" if _has_ended(manifest, uid, name) else "open"
            lines.append(f"  {name}  {state}  {_position_text(item)}")
        for producer, lanes in snapshot.in_flight.items():
            batches = sum(until - first for first, until in lanes.values())
            lines.append(f"  {producer}  {output.several(batches, 'batch', 'batches')} in flight")
        lines += [f"  state {_state_text(state)}" for state in states.get(SubtaskId(uid, index), ())]
    for uid, transactions in manifest.transactions.items():
        rows = f"rows of {output.several(len(transactions), 'batch', 'batches')}"
        lines.append(f"sink {uid}  {rows}, {'committed' if committed else 'not committed yet'}")
    # The path is what people copy from here: it is never cut.
    return [line if line.startswith("  path") else output.cut(line, columns) for line in lines]


def _phase(snapshot: SubtaskSnapshot) -> str:
    if snapshot.end is None:
        return "running"
    when = f" {output.short_time(snapshot.end.ended_ms)}" if snapshot.end.ended_ms else ""
    return f"finished{when} in run {snapshot.end.run}"


def _state_text(state: StateSize) -> str:
    rows = "" if state.rows is None else f"{output.several(state.rows, 'row')}, "
    return f"{state.name}  {rows}{output.size(state.bytes)} in {output.several(state.partitions, 'partition')}"


def _position_text(item: InputPosition) -> str:
    if item.channels:
        read = ", ".join(str(channel.batches) for _, channel in sorted(item.channels.items()))
        return f"{read} {'batch' if read == '1' else 'batches'}"
    if item.offset is None:
        return f"{output.several(item.files, 'file')}, {output.size(item.bytes)}"
    return json.dumps(item.offset, separators=(",", ":"))


def _snapshots(manifest: Manifest) -> Iterable[tuple[str, int, SubtaskSnapshot]]:
    for uid, snapshots in manifest.tasks.items():
        for index, snapshot in sorted(snapshots.items()):
            yield uid, index, snapshot
