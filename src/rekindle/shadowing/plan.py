"""The plan of a shadow, made before anything is started: where it begins, and which of its sinks can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rekindle.errors import ControlError, RestoreError
from rekindle.graph.changes import renames
from rekindle.graph.job_graph import JobGraph
from rekindle.sinks.two_phase import TwoPhaseSink
from rekindle.storage import layout
from rekindle.storage.checkpoint_documents import CheckpointDocuments
from rekindle.storage.documents.checkpoint import Manifest
from rekindle.storage.documents.runs import SinkDescription
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from rekindle.storage.origin import find_origin
from rekindle.storage.savepoints import find_savepoint


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowPlan:
    """The checkpoint that a shadow begins with, and the job that it runs beside."""

    #: the savepoint or checkpoint, absolute
    origin: str
    since: Manifest
    #: the job that it is compared with
    original: CheckpointDocuments
    #: uid that a task of the original has → uid that it has in the shadow
    names: Mapping[str, str]
    #: sink → why its rows are not compared; None: they are
    unseen: Mapping[str, str | None]


def planned(graph: JobGraph, sinks: Mapping[str, TwoPhaseSink], storage: str, restore: str) -> ShadowPlan:
    """Find the original, and decide what can be compared. Nothing is written.

    Args:
        storage: of the original, absolute.
        restore: a savepoint or a checkpoint of it: a path, a name or a number.

    Raises:
        RestoreError: ``CHECKPOINT_UNKNOWN``.
        ControlError: ``SHADOW_ORIGINAL_UNKNOWN``, ``SHADOW_NOTHING_TO_COMPARE``.
    """
    if restore.isdigit():
        path = f"{storage.rstrip('/')}/{layout.checkpoint(graph.name, int(restore))}"
    else:
        path = find_savepoint(restore, storage)
    since = find_origin(path).manifest
    original = JobStorage(open_store(storage), since.job)
    identity = original.identity()
    if identity is None or identity.id != since.job_id:
        reason = f"{path} was not taken by a job in {storage}"
        raise ControlError("SHADOW_ORIGINAL_UNKNOWN", job=since.job, reason=reason)
    if since.mode != "streaming":
        raise RestoreError("MODE_FIXED", path=path, found=since.mode, mode="streaming")
    run = original.latest_run()
    described = run.description.sinks if run is not None and run.description is not None else ()
    unseen = comparable(sinks, described)
    if all(unseen.values()):
        reasons = "; ".join(f"{uid}: {reason}" for uid, reason in unseen.items())
        raise ControlError("SHADOW_NOTHING_TO_COMPARE", job=since.job, reasons=reasons)
    names = {old: now for now, old in renames(graph, since.graph).items()}
    return ShadowPlan(origin=path, since=since, original=original, names=names, unseen=unseen)


def comparable(sinks: Mapping[str, TwoPhaseSink], described: Sequence[SinkDescription]) -> dict[str, str | None]:
    """Return for each sink of both jobs why its rows are not compared; None: they are.

    Args:
        sinks: those of the new code.
        described: those that the original runs with.
    """
    kinds = {one.uid: one.kind for one in described}
    found: dict[str, str | None] = {}
    for uid, sink in sinks.items():
        if uid not in kinds:
            found[uid] = "the original does not have this sink"
        elif kinds[uid] != sink.kind:
            found[uid] = f"the original writes to {kinds[uid]}, the new code to {sink.kind}"
        else:
            found[uid] = sink.cannot_read_back
    return found | {uid: "the new code does not have this sink" for uid in kinds if uid not in sinks}
