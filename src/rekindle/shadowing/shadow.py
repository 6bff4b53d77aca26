"""`shadow`: what a user calls to run the new code of a job beside the job, and to compare their rows."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rekindle.advice import advised
from rekindle.errors import ControlError, DefinitionError
from rekindle.handle import JobHandle
from rekindle.job import Job
from rekindle.results import JobResult, failure
from rekindle.runtime.signals import stop_on_signals
from rekindle.shadowing.capture import Captured
from rekindle.shadowing.comparison import Compared, ComparisonOptions, SinkRows, compare_sinks
from rekindle.shadowing.following import Following, standings
from rekindle.shadowing.plan import ShadowPlan, planned
from rekindle.shadowing.report import ShadowReport
from rekindle.shadowing.standing import covered
from rekindle.shadowing.watching import ShadowWatch
from rekindle.sinks import TwoPhaseSink
from rekindle.storage.disposal import Disposal, mark_shadow
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from rekindle.storage.place import location_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROOT = re.compile(r"[^/]*//[^/]*")


@advised
def shadow(
    job: Job,
    restore: str | os.PathLike[str],
    *,
    storage: str | None = None,
    target: str | os.PathLike[str] | None = None,
    key: Sequence[str] = (),
    ignore: Sequence[str] = (),
    tolerance: float = 0.0,
    examples: int = 10,
    for_s: float | None = None,
    until_checkpoint: int | None = None,
    keep: bool = False,
    spark: SparkSession | None = None,
    config: Mapping[str, Any] | None = None,
    spark_config: Mapping[str, str] | None = None,
    wait: Callable[[JobHandle], JobResult] | None = None,
    allow_non_restored_state: bool = False,
    allow_drained: bool = False,
    allow_other_name: bool = False,
    allow_changed_files: bool = False,
) -> ShadowReport:
    """Run the new code of a job from a cut of the job that runs, and compare the rows of both.

    The shadow reads what the original reads, with positions and state of its own, and writes all rows to Parquet files
    in a new folder below `target`. It runs until it is stopped, as any job: by a signal, by ``rekindle stop`` in its
    own storage, after `for_s`, or once it has all that the original had at `until_checkpoint`. Of the original only its
    storage and what it has committed are read; it need not run any more.

    Args:
        job: with the new code; its sinks are those of the original, and are not opened.
        restore: a savepoint (path or name) or a checkpoint (path or number) of the original.
        storage: of the original; default ``REKINDLE_STORAGE``, else ``./rekindle-state``.
        target: a directory or prefix in which the shadow gets a folder; default: the storage's, with ``-shadow`` after
            its name.
        key: columns that tell which rows are to be the same; none: rows are compared as a whole.
        ignore: columns that are not compared.
        tolerance: by what part two numbers of type float or double may differ; goes with `key`.
        examples: so many rows that differ are in the report, for each sink.
        for_s: stop it after so many seconds.
        until_checkpoint: number of a checkpoint of the original.
        keep: keep the folder also where all is equal.
        spark: the session to use; None: one is made for the job, and one for the comparison.
        config: settings of the shadow.
        spark_config: settings of the sessions that are made.
        wait: waits until the shadow has ended; None: `JobHandle.wait`, with the signals that `Job.run` hears.
        allow_non_restored_state, allow_drained, allow_other_name, allow_changed_files: as `Job.start` takes them.

    Raises:
        ControlError: ``SHADOW_ORIGINAL_UNKNOWN``, ``SHADOW_NOTHING_TO_COMPARE``, ``SHADOW_COLUMN_UNKNOWN``,
            ``SHADOW_NOT_FINISHED``.
        DefinitionError: ``ARGUMENT_INVALID``, a tolerance without a key, or a storage that has no place beside it.
        RekindleError: what `Job.start` raises, and why the shadow has failed.
    """
    if tolerance and not key:
        raise DefinitionError(
            "ARGUMENT_INVALID",
            what="rk.shadow",
            argument="tolerance",
            value=tolerance,
            reason="Without a key no two rows belong together that are not the same.",
            hint="Name the columns of a key (--key), or leave the tolerance out.",
        )
    location = open_store(location_of(storage)).location.rstrip("/")
    sinks: dict[str, TwoPhaseSink] = {}

    def noted(uid: str, sink: TwoPhaseSink) -> TwoPhaseSink:
        sinks[uid] = sink
        return sink

    graph = job.with_sinks(noted).graph()
    plan = planned(graph, sinks, location, os.fspath(restore))
    folder = _folder(plan, location, target)
    captured = {uid: Captured(f"{folder}/rows/{uid}") for uid in sinks}
    ours = Following(storage=plan.original, last=plan.since.checkpoint)
    theirs = Following(storage=JobStorage(open_store(f"{folder}/state"), graph.name), last=0)
    ours.look()
    ours.line(plan.since)  # what is lost already is not worth a session
    mark_shadow(folder, job.name)  # `rekindle dispose` finds it by that, whatever becomes of this process
    handle = job.with_sinks(lambda uid, _: captured[uid]).start(
        spark,
        storage=f"{folder}/state",
        restore=plan.origin,
        config=config,
        spark_config=spark_config,
        allow_non_restored_state=allow_non_restored_state,
        allow_drained=allow_drained,
        allow_other_name=allow_other_name,
        allow_changed_files=allow_changed_files,
    )
    with ShadowWatch(plan, ours, theirs, handle, for_s=for_s, until_checkpoint=until_checkpoint):
        result = (wait or _wait)(handle)
    error = failure(result)
    if error is not None and result.state == "CANCELED":
        raise ControlError("SHADOW_NOT_FINISHED", job=job.name, folder=folder)
    if error is not None:
        raise error
    compared = _compared(plan, ours, theirs)
    rows = {
        uid: SinkRows(original=sinks[uid], shadow=captured[uid]) for uid, reason in plan.unseen.items() if not reason
    }
    options = ComparisonOptions(key=key, ignore=ignore, tolerance=tolerance, examples=examples)
    with _session(spark, spark_config or {}) as session:
        found = compare_sinks(session, compared, rows, plan.unseen, options)
    report = ShadowReport(
        job=job.name,
        origin=plan.origin,
        original_checkpoint=compared.ours[-1].checkpoint if compared.ours else None,
        original_comparable=compared.ours[compared.our_due - 1].checkpoint if compared.our_due else None,
        shadow_checkpoint=compared.theirs[-1].checkpoint if compared.theirs else None,
        shadow_comparable=compared.theirs[compared.their_due - 1].checkpoint if compared.their_due else None,
        sinks=tuple(found),
        state=result.state,
        folder=folder,
    )
    if keep or report.verdict != "equal":
        return report
    Disposal(folder).run()
    return replace(report, folder=None)


@contextmanager
def _session(spark: SparkSession | None, spark_config: Mapping[str, str]) -> Iterator[SparkSession]:
    """Hold the session to compare in; one that is made here ends here."""
    from rekindle.session.session import make_session, prepare_session

    if spark is not None:
        yield prepare_session(spark)
        return
    made = make_session("rekindle shadow", spark_config)
    try:
        yield made
    finally:
        made.stop()


def _wait(handle: JobHandle) -> JobResult:
    with stop_on_signals(handle):
        result = handle.wait()
    assert result is not None, "it has waited without a limit"
    return result


def _folder(plan: ShadowPlan, location: str, target: str | os.PathLike[str] | None) -> str:
    """Name a new folder for one shadow, that no other shadow has."""
    name = f"{plan.since.job}-{plan.since.checkpoint:09d}-{secrets.token_hex(3)}"
    return f"{beside(location, target).rstrip('/')}/{name}"


def beside(location: str, target: str | os.PathLike[str] | None) -> str:
    """Return where shadows of jobs in the storage at `location` get their folders.

    Raises:
        DefinitionError: ``ARGUMENT_INVALID``, there is no place beside the storage.
    """
    if target is not None:
        return open_store(os.fspath(target)).location
    if _ROOT.fullmatch(location):
        raise DefinitionError(
            "ARGUMENT_INVALID",
            what="rk.shadow",
            argument="target",
            value=target,
            reason=f"The storage {location} is a whole bucket, beside which there is no place for a shadow.",
            hint="Name one: --target.",
        )
    return f"{location}-shadow"


def _compared(plan: ShadowPlan, ours: Following, theirs: Following) -> Compared:
    ours.look()
    theirs.look()
    our_line, their_line = ours.line(plan.since), theirs.whole()
    our_standings = standings(plan.original, our_line, plan.names)
    their_standings = standings(theirs.storage, their_line, {})
    return Compared(
        ours=our_line,
        theirs=their_line,
        our_due=covered(our_standings, their_standings),
        their_due=covered(their_standings, our_standings),
    )
