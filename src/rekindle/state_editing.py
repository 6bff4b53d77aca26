"""The function `rewrite_state`, which changes the state in a savepoint."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rekindle.advice import advised
from rekindle.errors import RestoreError
from rekindle.errors.needing import needing_pyspark
from rekindle.ids import SubtaskId
from rekindle.progress.stored_state import StoredTaskState, find_state
from rekindle.results import Savepoint
from rekindle.runtime.rewriting import rewritten
from rekindle.storage.origin import find_origin
from rekindle.storage.port import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@advised
def rewrite_state(
    savepoint: str | os.PathLike[str],
    task: str | None,
    fn: Callable[[DataFrame], DataFrame],
    *,
    target: str | os.PathLike[str] | None = None,
    operator: int = 0,
    part: str | None = None,
    evolve: bool = False,
    spark: SparkSession | None = None,
    spark_config: Mapping[str, str] | None = None,
) -> Savepoint:
    """Make a new savepoint in which `fn` has rewritten the state of a task's stateful operator.

    The savepoint is only read. `fn` is called once, with the DataFrame that `rekindle.state` gives, and returns one
    with the columns ``key`` and ``value``: rows left out are deleted, changed ones replaced, new ones inserted. Its
    result is computed once, checked, written by Spark on the executors, read back and compared. The new savepoint is
    complete after that, and not before.

    Args:
        savepoint: the folder of the savepoint.
        task: uid of the task; None: the only task that has state.
        fn: makes the new state from the old one.
        target: the directory in which the new savepoint gets a folder; None: the directory of `savepoint`.
        operator: number of the operator in the query, counted from 0.
        part: ``"left"`` or ``"right"`` of a join, whose rows have a column ``matched`` beside key and value: True if an
            outer join has found a partner for them; or the name of a state variable of ``transformWithState``.
        evolve: True if the value may have other columns: some added, dropped, or of another type. Only a query that
            keeps exactly these columns continues from there.
        spark: the session to use; None: the active one, or one that is made and stays.
        spark_config: settings of the session that is made.

    Returns:
        The new savepoint.

    Raises:
        RestoreError: ``SAVEPOINT_NEEDED``; there is no such state; ``STATE_REWRITE_UNSUPPORTED``: this Spark, or
            Rekindle, cannot write such state; ``STATE_REWRITE_REFUSED``: the result of `fn` cannot be this state;
            ``STATE_REWRITE_FAILED``.
        DefinitionError: ``PYSPARK_TOO_OLD``: Spark can read state since version 4.0.
    """
    path = os.fspath(savepoint)
    kept = find_state(path)
    if "" in kept.tasks:
        raise RestoreError("SAVEPOINT_NEEDED", path=path, found="the checkpoint of a query without a job")
    origin = find_origin(path)
    if not origin.manifest.savepoint:
        raise RestoreError("SAVEPOINT_NEEDED", path=path, found="a checkpoint, which belongs to its job")
    source = kept.task(task)
    uid = next(uid for uid, state in kept.tasks.items() if state is source)
    (found,) = source.operators(operator)
    with needing_pyspark():
        from rekindle.session.classic import check_classic
        from rekindle.session.session import active_or_made
        from rekindle.state_rewriting import prepare
    session = spark or active_or_made("rekindle rewrite_state", spark_config or {})
    check_classic(session)
    prepared = prepare(session, source, found, part, fn, evolve=evolve)

    def write(store: Store, folder: str) -> None:
        prepared.write(StoredTaskState(store=store, folder=folder, batch=source.batch))

    directory = os.fspath(target) if target is not None else origin.store.location
    made = rewritten(origin, directory, SubtaskId(uid, 0), operator, write)
    return Savepoint(made, origin.manifest.checkpoint)
