"""The checkpoints and savepoints of a job, as the pages and verbs show them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rekindle.errors import ControlError
from rekindle.history import statistics
from rekindle.history.statistics import Summary
from rekindle.monitoring import checkpoint_views, checkpoints
from rekindle.monitoring.checkpoints import Checkpoints
from rekindle.monitoring.watch import Watch
from rekindle.storage.open import open_store
from rekindle.storage.port import Store

if TYPE_CHECKING:
    from rekindle.monitoring.contents import ContentsView


class JobCheckpoints:
    """The checkpoints of each job of a storage."""

    def __init__(self, watch: Watch, opened: Callable[[str], Store] = open_store) -> None:
        self._watch = watch
        self._opened = opened

    def newest(self, name: str, limit: int = 50) -> checkpoint_views.CheckpointsView:
        """Return the overview of the checkpoints, and the newest ones."""
        return self._checkpoints(name).view(limit)

    def one(self, name: str, checkpoint: int) -> checkpoint_views.CheckpointView:
        """Return a checkpoint with its subtasks; ``CHECKPOINT_NOT_KNOWN`` where nothing is known of it."""
        found = self._checkpoints(name).one(checkpoint)
        if found is None:
            raise ControlError("CHECKPOINT_NOT_KNOWN", job=name, checkpoint=checkpoint)
        return found

    def all(self, name: str) -> list[checkpoint_views.CheckpointView]:
        """Return all checkpoints that anything is known of, with their subtasks, the newest first."""
        found = self._checkpoints(name)
        return [checkpoint_views.CheckpointView(overview=found.row(record), record=record) for record in found.records]

    def summary(self, name: str) -> Summary:
        """Return what the newest thousand completed checkpoints cost."""
        return statistics.summary(checkpoints.completed(self._checkpoints(name).records))

    def config(self, name: str) -> checkpoint_views.CheckpointConfig:
        """Return how checkpoints are taken."""
        facts, now = self._watch.now(name)
        return checkpoints.config(facts, dict(now.description.settings) if now.description else None)

    def savepoints(self, name: str) -> list[checkpoint_views.SavepointView]:
        """Return the savepoints that the history knows, the newest first."""
        return self._checkpoints(name).savepoints()

    def contents(self, name: str, checkpoint: int, savepoint: bool) -> ContentsView:
        """Return what is in a checkpoint, or in the savepoint that was made of it, if it is still there."""
        from rekindle.monitoring.contents import contents
        from rekindle.storage.origin import find_origin

        path = self.one(name, checkpoint).overview
        place = path.savepoint if savepoint else path.path
        if place is None:
            raise ControlError("CHECKPOINT_NOT_KNOWN", job=name, checkpoint=checkpoint)
        return contents(find_origin(place, self._opened), place)

    def _checkpoints(self, name: str) -> Checkpoints:
        return self._watch.fresh(("checkpoints", name), lambda: Checkpoints(*self._watch.now(name)))
