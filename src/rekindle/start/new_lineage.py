"""The document of a lineage that a start opens."""

from __future__ import annotations

from rekindle.graph.job_graph import JobGraph
from rekindle.storage.documents.lineage import Lineage
from rekindle.storage.documents.runs import Run
from rekindle.storage.origin import Origin


def new_lineage(run: Run, graph: JobGraph, origin: Origin | None, *, rewound_from: int | None, now_ms: int) -> Lineage:
    """Return the document of the lineage that `run` opens.

    Args:
        origin: checkpoint or savepoint that it starts from; None: it starts from the beginning.
        rewound_from: the highest number of a checkpoint, where sinks go back to an earlier one; None: they do not.
    """
    manifest = origin.manifest if origin is not None else None
    return Lineage(
        lineage=run.lineage,
        run=run.run,
        created_ms=now_ms,
        restored_from=run.restore_from,
        claimed=run.claim,
        restored_checkpoint=manifest.checkpoint if manifest else None,
        restored_ms=manifest.completed_ms if manifest else None,
        rewound_from=rewound_from,
        graph={task.uid: list(task.inputs) for task in graph.tasks},
        chains={vertex.uid: list(vertex.chain) for vertex in graph.topology.vertices},
        parallelism={task.uid: task.parallelism for task in graph.tasks if task.parallelism != 1},
        unread=manifest.unread if manifest else {},
        operator_state=manifest.operator_state if manifest else {},
        mode=run.mode,
    )
