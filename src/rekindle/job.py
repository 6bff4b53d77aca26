"""A job that begins, checkpoints, stops and ends properly: the composition root."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from rekindle.advice import advised
from rekindle.config import Config, texts
from rekindle.defining import DefinedJob
from rekindle.errors import ConfigError
from rekindle.handle import JobHandle
from rekindle.results import Checkpoint, JobResult, Savepoint, failure
from rekindle.runtime.signals import interrupt_on_signals, kept_signals, stop_on_signals
from rekindle.storage.job_storage import JobStorage
from rekindle.storage.open import open_store
from rekindle.storage.place import location_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rekindle.spark.plain.adoption import Adopted
    from rekindle.start.previews import StartPreview

Mode = Literal["streaming", "batch"]
ClaimMode = Literal["no-claim", "claim"]
Origin = str | int | Checkpoint | Savepoint
"""An origin of a start: the path of a checkpoint or savepoint, the name of a savepoint, the number of a checkpoint, or
a checkpoint or savepoint that a handle returned."""


class Job(DefinedJob):
    """A pipeline that begins, checkpoints, stops and ends properly.

    Args:
        name: stable identity; the folder of the job in its storage.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        #: handle of the last start; None: there was none
        self._handle: JobHandle | None = None

    def _is_running(self) -> bool:
        return self._handle is not None and self._handle.is_running()

    @advised
    def run(
        self,
        spark: SparkSession | None = None,
        *,
        storage: str | None = None,
        restore: Origin | None = None,
        mode: Mode = "streaming",
        available_now: bool = False,
        config: Mapping[str, Any] | None = None,
        spark_config: Mapping[str, str | bool | int | float] | None = None,
        claim_mode: ClaimMode = "no-claim",
        rewind_sinks: bool = False,
        allow_non_restored_state: bool = False,
        allow_drained: bool = False,
        allow_sink_ahead: bool = False,
        allow_other_name: bool = False,
        allow_shared_target: bool = False,
        allow_changed_files: bool = False,
    ) -> JobResult:
        """Run the job to its end. SIGTERM and Ctrl-C stop it, a second Ctrl-C cancels it; they cancel a batch run.

        While it is still starting they raise KeyboardInterrupt, and its run is recorded as CANCELED.

        The arguments are those of `start`. A job that was stopped, canceled, killed or failed resumes after its last
        recorded batches.

        Raises:
            RekindleError: raised by `start`; the error of a job that fails, or ``JOB_CANCELED``, with the result in the
                attribute `result`. ``start(...).wait()`` returns the result of a job that fails or is canceled.
        """
        with kept_signals() as missed:
            with interrupt_on_signals(missed):
                handle = self.start(
                    spark,
                    storage=storage,
                    restore=restore,
                    mode=mode,
                    available_now=available_now,
                    config=config,
                    spark_config=spark_config,
                    claim_mode=claim_mode,
                    rewind_sinks=rewind_sinks,
                    allow_non_restored_state=allow_non_restored_state,
                    allow_drained=allow_drained,
                    allow_sink_ahead=allow_sink_ahead,
                    allow_other_name=allow_other_name,
                    allow_shared_target=allow_shared_target,
                    allow_changed_files=allow_changed_files,
                )
            with stop_on_signals(handle, missed=missed):
                result = handle.wait()
        assert result is not None
        error = failure(result)
        if error is not None:
            raise error
        return result

    @advised
    def start(
        self,
        spark: SparkSession | None = None,
        *,
        storage: str | None = None,
        restore: Origin | None = None,
        mode: Mode = "streaming",
        available_now: bool = False,
        config: Mapping[str, Any] | None = None,
        spark_config: Mapping[str, str | bool | int | float] | None = None,
        claim_mode: ClaimMode = "no-claim",
        rewind_sinks: bool = False,
        allow_non_restored_state: bool = False,
        allow_drained: bool = False,
        allow_sink_ahead: bool = False,
        allow_other_name: bool = False,
        allow_shared_target: bool = False,
        allow_changed_files: bool = False,
    ) -> JobHandle:
        """Start the job and return at once.

        Args:
            spark: the session to use; None: that of this process, or else one is made, and stopped at the end.
            storage: the place where the job keeps its state; default ``REKINDLE_STORAGE``, else ``./rekindle-state``.
            restore: the origin of the start: a checkpoint (path or number), a savepoint (path, or its name if it is in
                the storage), or the result of `JobHandle.checkpoint` or `JobHandle.savepoint`; None: the job continues
                where it stopped.
            mode: ``"streaming"``; or ``"batch"``, if every source is bounded: each task is evaluated once, over all
                of its input, and everything is committed at the end.
            available_now: stop as `JobHandle.stop` does, once all is read that the sources had when the job started, or
                more; the next run continues there.
            config: settings, e.g. ``{"checkpoint.interval": "10 seconds"}``.
            spark_config: settings of the session that is made.
            claim_mode: ``"no-claim"``: the savepoint named by `restore` stays yours; ``"claim"``: it is the job's,
                which deletes it once it has as many checkpoints of its own as it retains.
            rewind_sinks: take back the commits of sinks after the checkpoint named by `restore`.
            allow_non_restored_state: drop state of tasks the job no longer has.
            allow_drained: continue from before the flush of a drained job.
            allow_sink_ahead: start from a checkpoint although a sink has committed after it.
            allow_other_name: start from a checkpoint or savepoint of a job with another name.
            allow_shared_target: write to targets that another job, or another copy of this one, has written to.
            allow_changed_files: read files of a history that were replaced since the job first started.

        Raises:
            RekindleError: the definition, a setting, the storage, the session, a source or the plan is wrong.
        """
        _check_rewind(rewind_sinks, restore)
        _check_claim(claim_mode, restore)
        settings = Config.of(config, available_now=available_now)
        definition, of_spark = self.definition(), texts(spark_config or {})
        # After the definition, which says that PySpark is missing.
        from rekindle.beginning import begin
        from rekindle.session.jvm import log_of_jvm
        from rekindle.spark.engine import SparkEngines
        from rekindle.start.permissions import Permissions
        from rekindle.start.running import launches

        permissions = Permissions(
            claim=claim_mode == "claim",
            rewind_sinks=rewind_sinks,
            shared_target=allow_shared_target,
            changed_files=allow_changed_files,
            non_restored_state=allow_non_restored_state,
            drained=allow_drained,
            sink_ahead=allow_sink_ahead,
            other_name=allow_other_name,
        )
        launched = launches(
            definition, location_of(storage), settings, permissions, mode=mode, available_now=available_now
        )
        launch = launched()
        ended = launch.prepare(None if restore is None else str(restore))
        if ended is not None:
            return JobHandle(launch.storage, mode=mode, ended=JobResult.of(self.name, ended, already_ended=True))
        self._handle = begin(
            definition,
            launch,
            SparkEngines(spark, self.name, of_spark),
            lambda since, failures: launched(since=since, engine_failures=failures),
            settings,
            mode=mode,
            spark_config=of_spark,
            spark_log=log_of_jvm,
        )
        return self._handle

    @advised
    def check(
        self,
        spark: SparkSession | None = None,
        *,
        storage: str | None = None,
        restore: Origin | None = None,
        mode: Mode = "streaming",
        config: Mapping[str, Any] | None = None,
        rewind_sinks: bool = False,
        allow_non_restored_state: bool = False,
        allow_drained: bool = False,
        allow_sink_ahead: bool = False,
        allow_other_name: bool = False,
        allow_shared_target: bool = False,
    ) -> StartPreview:
        """Return what `start` would do now, and start nothing: no session, no run, nothing is written.

        For a job that runs, this is what a start would do once it has ended. With a session the queries are examined,
        too: each is built, Spark compares it with the schemas of its state, and changes that alter the meaning of the
        state are reported. No row is read or computed for that. The targets of sinks are looked at, and with a session
        the columns of the rows compared with theirs.

        The arguments are those of `start` that the decision needs.

        Args:
            spark: a session to build the queries in; None: they are not examined.

        Raises:
            RekindleError: the definition, a setting or the storage is wrong, or the start would be refused.
        """
        from rekindle.start.permissions import Permissions
        from rekindle.start.running import launches

        _check_rewind(rewind_sinks, restore)
        permissions = Permissions(
            non_restored_state=allow_non_restored_state,
            drained=allow_drained,
            sink_ahead=allow_sink_ahead,
            other_name=allow_other_name,
            shared_target=allow_shared_target,
            rewind_sinks=rewind_sinks,
        )
        launched = launches(self.definition(), location_of(storage), Config.of(config), permissions, mode=mode)
        engine = None
        if spark is not None:
            from rekindle.session.session import prepare_session
            from rekindle.spark.engine import SparkEngine

            engine = SparkEngine(prepare_session(spark))
        return launched().preview(None if restore is None else str(restore), engine)

    @advised
    def adopt(
        self,
        checkpoint: str,
        task: str,
        *,
        spark: SparkSession | None = None,
        storage: str | None = None,
        spark_config: Mapping[str, str | bool | int | float] | None = None,
    ) -> Adopted:
        """Let a task begin where a plain Structured Streaming query has stopped for good.

        State, positions in the sources and watermark are taken over; the checkpoint itself is only read. The job must
        not have run. The next `start` begins there; tasks that adopt nothing begin at the beginning.

        Args:
            checkpoint: the ``checkpointLocation`` of the query.
            task: uid of a task that computes what the query computed. Its inputs are the query's streams, in their
                order, as ``rk.Stream``.
            spark: the session to use; None: that of this process, or else one is made, and stopped at the end.
            storage: the place where the job keeps its state; default ``REKINDLE_STORAGE``, else ``./rekindle-state``.
            spark_config: settings of the session that is made.

        Raises:
            RekindleError: the job, the storage, the checkpoint or the plan is wrong; nothing was changed.
        """
        definition = self.definition()
        from rekindle.runtime.elapsed import system_clock
        from rekindle.session.session import make_session, prepare_session, quiet
        from rekindle.session.sharing import Shared
        from rekindle.spark.plain.adoption import adopt, check_adoptable

        check_adoptable(definition, task)
        of_spark = texts(spark_config or {})
        shared = Shared(lambda: prepare_session(spark) if spark is not None else make_session(self.name, of_spark))
        try:
            with quiet(shared.spark):
                kept = JobStorage(open_store(location_of(storage)), self.name)
                return adopt(shared.spark, definition, kept, task, checkpoint, system_clock)
        finally:
            if shared.end(gone=False):
                shared.spark.stop()


def _check_rewind(rewind_sinks: bool, restore: Origin | None) -> None:
    """Refuse to rewind sinks without a checkpoint to go back to."""
    if rewind_sinks and restore is None:
        raise ConfigError("REWIND_TO_NOTHING")


def _check_claim(claim_mode: str, restore: Origin | None) -> None:
    """Refuse an unknown claim mode, and a claim without a savepoint."""
    if claim_mode not in ("no-claim", "claim"):
        raise ConfigError("CLAIM_MODE_UNKNOWN", mode=claim_mode)
    if claim_mode == "claim" and restore is None:
        raise ConfigError("CLAIM_OF_NOTHING")
