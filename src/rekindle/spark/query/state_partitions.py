"""The number of partitions of a task's state: chosen when its query first runs, changed while no query runs on it.

Spark writes the number into every planned batch and goes by that ever after, whatever the session says. It can write
the state again, in another number of partitions, as a batch of its own: that batch reads nothing and emits nothing, its
state is that of the batch before, only laid out differently. So it is done to the copy a restore has made, before that
is in force, and gets a batch record like any other. Whatever goes wrong meanwhile, no run resumes from that copy.

Spark has this in a private attribute of the session, since 4.2 and for RocksDB alone; nothing else here knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rekindle.errors import RestoreError
from rekindle.progress.directory import read_offsets
from rekindle.progress.partitions import SHUFFLE_PARTITIONS, state_partitions
from rekindle.session.failures import brief
from rekindle.storage import layout
from rekindle.storage.batch_documents import BatchDocuments
from rekindle.storage.documents.batch import BatchRecord
from rekindle.storage.port import Store


def first_run_in(count: int) -> Mapping[str, str]:
    """Return the settings under which a query that has never run keeps its state in `count` partitions; 0: as set."""
    return {SHUFFLE_PARTITIONS: str(count)} if count else {}


def repartition(spark: SparkSession, storage: BatchDocuments, folder: str, task: str, count: int) -> None:
    """Let a new lineage of `task` continue with its state in `count` partitions, after one more recorded batch.

    Nothing is done to a task without state, nor where `count` is 0 or what it is already.

    Args:
        folder: of the subtask; its progress directory and the record of the batch it resumes after are written.

    Raises:
        RestoreError: ``STATE_PARTITIONS_UNCHANGEABLE``.
    """
    store, progress_dir = storage.store, layout.spark_progress_dir(folder)
    found = state_partitions(store, progress_dir)
    record = storage.last_record(folder)
    if record is None or found is None or count in (0, found):
        return
    # Of a private attribute nothing is promised, its being there least of all.
    manager = getattr(spark, "_streamingCheckpointManager", None)
    if manager is None:
        reason = f"Spark {spark.version} cannot do it, Spark 4.2 can"
        raise RestoreError("STATE_PARTITIONS_UNCHANGEABLE", task=task, found=found, wanted=count, reason=reason)
    try:
        manager.repartition(store.spark_path(progress_dir), count)
    except (PySparkException, Py4JError) as error:
        raise RestoreError(
            "STATE_PARTITIONS_UNCHANGEABLE", task=task, found=found, wanted=count, reason=brief(error)
        ) from error
    _forget_others(store, progress_dir, count)
    storage.create(layout.batch(folder, record.batch + 1), _of_repartition(store, progress_dir, record))


def _forget_others(store: Store, progress_dir: str, count: int) -> None:
    """Delete the partitions that are no more; else they would be kept, and copied into savepoints, forever."""
    for operator in store.names(f"{progress_dir}/state"):
        for name in store.names(f"{progress_dir}/state/{operator}"):
            if name.isascii() and name.isdigit() and int(name) >= count:
                store.delete_tree(f"{progress_dir}/state/{operator}/{name}")


def _of_repartition(store: Store, progress_dir: str, before: BatchRecord) -> BatchRecord:
    """Return the record of the extra batch: it stands where the batch before stood, and wrote to no channel."""
    batch = before.batch + 1
    return replace(before, batch=batch, offsets_hash=read_offsets(store, progress_dir, batch).hash, segments=())
