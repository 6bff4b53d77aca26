"""Checks of what sinks have committed against the checkpoint from which a job begins."""

from __future__ import annotations

from rekindle.errors import ControlError, RestoreError
from rekindle.runtime.leftovers import may_be_rewound, refuse_sink_ahead
from rekindle.start.permissions import Permissions
from rekindle.start.resolve import Restore
from rekindle.storage.checkpoint_documents import CheckpointDocuments
from rekindle.storage.origin import Origin


def check_commits(storage: CheckpointDocuments, origin: Origin, decision: Restore, permissions: Permissions) -> None:
    """Refuse a place whose rows the sinks do not have, or have more than.

    Raises:
        RestoreError: ``CHECKPOINT_REWOUND``, ``SINK_AHEAD``.
        ControlError: ``CHECKPOINT_NOT_COMMITTED``.
    """
    manifest, identity = origin.manifest, storage.identity()
    is_ours = identity is not None and identity.id == manifest.job_id
    if is_ours and may_be_rewound(storage, manifest.checkpoint):
        raise RestoreError("CHECKPOINT_REWOUND", path=decision.path)
    if decision.repeated:
        return
    # Only the job that took it commits its rows, which a job of another target does not have anyway.
    if not is_ours and permissions.shared_target and not origin.is_committed():
        raise ControlError("CHECKPOINT_NOT_COMMITTED", checkpoint=manifest.checkpoint, job=manifest.job)
    if not permissions.sink_ahead and not decision.rewind_sinks:
        refuse_sink_ahead(storage, manifest, decision.path)
