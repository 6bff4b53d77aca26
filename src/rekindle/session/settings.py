"""The table of Rekindle's decisions on each of Spark's settings of streaming queries and of reading files.

Every setting ``spark.sql.streaming.*`` and ``spark.sql.files.*`` of Spark 3.5 to 4.3, public or internal, has a
decision here. `session` obeys the table, `docs/configuration.md` is made from it, and a test asks the installed Spark
for a setting that the table lacks, so that no new version brings one unseen. The decisions:

- `SET`: the value is set on every session, the user's own too;
- `ONLY`: no query starts with another value, because rows would be lost, or come twice, or never come, and no error
  would say so;
- `ONLY_OF_JOBS`: no task of a job runs with another value; a query without a job may;
- `FREE`: the value is the user's. What it changes is Spark's own: speed, memory, what is logged, what Spark checks.

Nothing here imports PySpark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import NamedTuple


class Decision(Enum):
    """The kinds of decisions on a setting."""

    SET = "set"
    ONLY = "only"
    ONLY_OF_JOBS = "only of jobs"
    FREE = "free"


class Setting(NamedTuple):
    """One setting's decision."""

    decision: Decision
    #: the value that is set, or the only one it may have; empty where it is free
    value: str
    #: a sentence; where there is only one value, it continues "with which", and says what any other brings about
    why: str


STREAMING = "spark.sql.streaming."
FILES = "spark.sql.files."

BATCHES_KEPT = f"{STREAMING}minBatchesToRetain"
"""The setting of the number of batches that Spark keeps state and logs of; see `kept_batches`."""

STATE_COUNTED = f"{STREAMING}stateStore.rocksdb.trackTotalNumberOfRows"
"""The setting by which Spark counts the rows of its state; it reports 0 where it does not."""

FILE_MANAGER = f"{STREAMING}checkpointFileManagerClass"
"""The setting of the class that writes a query's files; see `own_files`."""

_REQUIRED: dict[str, Setting] = {
    BATCHES_KEPT: Setting(
        Decision.SET,
        "100",
        "Spark deletes what older batches needed. A query is started with more where a retained checkpoint needs it.",
    ),
    f"{STREAMING}statefulOperator.allowMultiple": Setting(
        Decision.SET, "true", "Windows over windows, joins before windows: the flush goes through all of them."
    ),
    f"{STREAMING}noDataMicroBatches.enabled": Setting(
        Decision.SET, "true", "After a watermark has moved, Spark emits what is due without waiting for more data."
    ),
    f"{STREAMING}verifyCheckpointDirectoryEmptyOnStart": Setting(
        Decision.SET,
        "false",
        "A driver killed in Spark's first write to a progress directory leaves half of it there, and Spark 4.3 would "
        "refuse that forever. The directory is Rekindle's: what lies there without a planned batch means nothing.",
    ),
    f"{STREAMING}fileSource.log.deletion": Setting(
        Decision.SET, "true", "Otherwise the log of a file stream is kept whole, and grows with the square of time."
    ),
    f"{STREAMING}fileSource.schema.forceNullable": Setting(
        Decision.SET, "true", "Rows that only carry a watermark have no values in the columns of the data."
    ),
    f"{STREAMING}fileSink.log.compactInterval": Setting(
        Decision.ONLY, "10", "Spark would misread the logs of inboxes, which are written for an interval of ten."
    ),
    f"{STREAMING}fileStreamSink.ignoreMetadata": Setting(
        Decision.ONLY, "false", "Spark would ignore the logs of inboxes, and read nothing, or everything at once."
    ),
    f"{STREAMING}multipleWatermarkPolicy": Setting(
        Decision.ONLY, "min", "rows of the slower input would be dropped as late."
    ),
    f"{STREAMING}stateStore.checkpointFormatVersion": Setting(
        Decision.ONLY,
        "1",
        "the names of state files have ids, by which checkpoints, savepoints and restores cannot go yet.",
    ),
    f"{STREAMING}offsetLog.formatVersion": Setting(
        Decision.ONLY_OF_JOBS, "1", "the sources of a query have names, and which input each belongs to cannot be seen."
    ),
    f"{STREAMING}queryEvolution.enableSourceEvolution": Setting(
        Decision.ONLY_OF_JOBS,
        "false",
        "the sources of a query have names, and which input each belongs to cannot be seen.",
    ),
    f"{STREAMING}queryEvolution.enableSinkEvolution": Setting(
        Decision.ONLY, "false", "a query's sink would need a name, and Rekindle's has none."
    ),
    f"{STREAMING}optimizeOneRowPlan.enabled": Setting(
        Decision.ONLY, "false", "Spark would take a batch of one row for an input of one row, with wrong results."
    ),
    f"{STREAMING}statefulOperator.incrementalCleanupFactor": Setting(
        Decision.ONLY,
        "0",
        "Spark would emit what is due little by little, by the number of input rows; the flush at the end of a job has "
        "none.",
    ),
    f"{STREAMING}useStreamlineAggregator": Setting(
        Decision.ONLY, "false", "aggregations would run as an experiment of Spark's developers."
    ),
    f"{STREAMING}internal.stateStore.partitions": Setting(
        Decision.ONLY, "", "Spark would go by it instead of state.partitions; it is Spark's own."
    ),
    "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan": Setting(
        Decision.ONLY, "false", "Spark would cut inputs out of a plan, and with them their watermarks and positions."
    ),
    f"{FILES}ignoreCorruptFiles": Setting(
        Decision.ONLY,
        "false",
        "what lies damaged between two tasks would be left out too. As an option of one source it is allowed.",
    ),
    f"{FILES}ignoreMissingFiles": Setting(
        Decision.ONLY, "false", "files that are gone, those between two tasks too, would be left out without an error."
    ),
    f"{FILES}ignoredPathSegmentRegex": Setting(
        Decision.ONLY, "^[._]", "Spark would leave out, or read, other files than Rekindle has listed."
    ),
}

_FREE: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Spark fixes it when a query first runs, and goes by that after a restart.",
        (
            f"{STREAMING}aggregation.stateFormatVersion",
            f"{STREAMING}flatMapGroupsWithState.stateFormatVersion",
            f"{STREAMING}join.stateFormatVersion",
            f"{STREAMING}sessionWindow.stateFormatVersion",
            f"{STREAMING}stateStore.compression.codec",
            f"{STREAMING}stateStore.encodingFormat",
            f"{STREAMING}stateStore.providerClass",
            f"{STREAMING}stateStore.rocksdb.formatVersion",
            f"{STREAMING}stateStore.rocksdb.mergeOperatorVersion",
            f"{STREAMING}stateStore.rowChecksum.enabled",
            f"{STREAMING}statefulOperator.alwaysNullableOutput.enabled",
            f"{STREAMING}statefulOperator.useStrictDistribution",
            f"{STREAMING}transformWithState.stateSchemaVersion",
        ),
    ),
    (
        "How state is kept, how fast and in how much memory; it is read back whatever the value was.",
        (
            f"{STREAMING}maxBatchesToRetainInMemory",
            f"{STREAMING}ratioExtraSpaceAllowedInCheckpoint",
            f"{STREAMING}stateStore.autoSnapshotRepair.enabled",
            f"{STREAMING}stateStore.autoSnapshotRepair.maxChangeFileReplay",
            f"{STREAMING}stateStore.autoSnapshotRepair.numFailuresBeforeActivating",
            f"{STREAMING}stateStore.coordinatorReportSnapshotUploadLag",
            f"{STREAMING}stateStore.fileChecksumThreadPoolSize",
            f"{STREAMING}stateStore.forceSnapshotUploadOnLag",
            f"{STREAMING}stateStore.maintenanceForceShutdownTimeout",
            f"{STREAMING}stateStore.maintenanceInterval",
            f"{STREAMING}stateStore.maintenanceProcessingTimeout",
            f"{STREAMING}stateStore.maintenanceShutdownTimeout",
            f"{STREAMING}stateStore.maxNumStateSchemaFiles",
            f"{STREAMING}stateStore.maxVersionsToDeletePerMaintenance",
            f"{STREAMING}stateStore.minDeltasForSnapshot",
            f"{STREAMING}stateStore.numStateStoreMaintenanceThreads",
            f"{STREAMING}stateStore.rocksdb.*",
            f"{STREAMING}stateStore.rowChecksum.readVerificationRatio",
            f"{STREAMING}stateStore.snapshotToCleanupThreadRatio",
            f"{STREAMING}stateStore.unloadOnCommit",
            f"{STREAMING}stateStore.valueStateSchemaEvolutionThreshold",
        ),
    ),
    (
        "How Spark writes its files. Where it is not set, a query writes at less cost (`spark/query/own_files.py`).",
        (FILE_MANAGER,),
    ),
    (
        "How Spark writes and checks its own files.",
        (
            f"{STREAMING}asyncLogPurge.enabled",
            f"{STREAMING}checkUnfinishedRepartitionOnRestart",
            f"{STREAMING}checkpoint.escapedPathCheck.enabled",
            f"{STREAMING}checkpoint.fileChecksum.enabled",
            f"{STREAMING}checkpoint.fileChecksum.skipCreationIfFileMissingChecksum",
            f"{STREAMING}checkpoint.renamedFileCheck.enabled",
            f"{STREAMING}checkpoint.verifyMetadataExists.enabled",
            f"{STREAMING}metadataCache.enabled",
            f"{STREAMING}stateStore.commitValidation.enabled",
            f"{STREAMING}stateStore.formatValidation.enabled",
            f"{STREAMING}stateStore.stateSchemaCheck",
        ),
    ),
    (
        "A query's plan and results are what Spark makes of it, in a job as without one.",
        (
            "spark.sql.adaptive.streaming.stateless.enabled",
            f"{STREAMING}flatMapGroupsWithState.skipEmittingInitialStateKeys",
            f"{STREAMING}sessionWindow.merge.sessions.in.local.partition",
            f"{STREAMING}stateStore.skipNullsForStreamStreamJoins.enabled",
            f"{STREAMING}statefulOperator.checkCorrectness.enabled",
            f"{STREAMING}unsupportedOperationCheck",
            f"{STREAMING}validateEventTimeWatermarkColumn",
        ),
    ),
    (
        "It is of streams that Spark reads itself; the inputs that Rekindle feeds name their schema and files.",
        (
            f"{STREAMING}disabledV2MicroBatchReaders",
            f"{STREAMING}fileSource.cleaner.numThreads",
            f"{STREAMING}fileSource.log.cleanupDelay",
            f"{STREAMING}fileSource.log.compactInterval",
            f"{STREAMING}kafka.useDeprecatedOffsetFetching",
            f"{STREAMING}schemaInference",
        ),
    ),
    (
        "It is of ways to run a query that Rekindle does not use.",
        (
            "spark.sql.connect.streaming.foreachBatch.useClonedSession",
            f"{STREAMING}checkpointLocation",
            f"{STREAMING}commitProtocolClass",
            f"{STREAMING}continuous.epochBacklogQueueSize",
            f"{STREAMING}continuous.executorPollIntervalMs",
            f"{STREAMING}continuous.executorQueueSize",
            f"{STREAMING}disabledV2Writers",
            f"{STREAMING}fileSink.log.cleanupDelay",
            f"{STREAMING}fileSink.log.deletion",
            f"{STREAMING}forceDeleteTempCheckpointLocation",
            f"{STREAMING}realTimeMode.allowlistCheck",
            f"{STREAMING}realTimeMode.asyncProgressTrackingByDefault.enabled",
            f"{STREAMING}realTimeMode.dangerouslyAllowCheckpointV1.enabled",
            f"{STREAMING}realTimeMode.minBatchDuration",
            f"{STREAMING}realTimeMode.transformWithState.ttlEvictionIntervalMs",
            f"{STREAMING}triggerAvailableNowWrapper.enabled",
        ),
    ),
    (
        "When a query looks, how it is stopped, and what is reported of it.",
        (
            f"{STREAMING}metricsEnabled",
            f"{STREAMING}noDataProgressEventInterval",
            f"{STREAMING}numRecentProgressUpdates",
            f"{STREAMING}pollingDelay",
            f"{STREAMING}stateStore.maxLaggingStoresToReport",
            f"{STREAMING}stateStore.multiplierForMinTimeDiffToLog",
            f"{STREAMING}stateStore.multiplierForMinVersionDiffToLog",
            f"{STREAMING}stateStore.numStateStoreInstanceMetricsToReport",
            f"{STREAMING}stateStore.snapshotLagReportInterval",
            f"{STREAMING}stopActiveRunOnRestart",
            f"{STREAMING}stopTimeout",
            f"{STREAMING}streamingQueryListeners",
            f"{STREAMING}ui.enabled",
            f"{STREAMING}ui.enabledCustomMetricList",
            f"{STREAMING}ui.retainedProgressUpdates",
            f"{STREAMING}ui.retainedQueries",
        ),
    ),
    (
        "How files are cut into partitions, and how their contents are read.",
        (
            f"{FILES}archive.reader.enabled",
            f"{FILES}ignoreInvalidPartitionPaths",
            f"{FILES}maxPartitionBytes",
            f"{FILES}maxPartitionNum",
            f"{FILES}maxRecordsPerFile",
            f"{FILES}minPartitionNum",
            f"{FILES}openCostInBytes",
            f"{FILES}supportSecondOffsetFormat",
        ),
    ),
)

SETTINGS: dict[str, Setting] = {
    **_REQUIRED,
    **{name: Setting(Decision.FREE, "", why) for why, names in _FREE for name in names},
}
"""Setting → decision. A name that ends in ``*`` is of all settings that begin so and have no row of their own."""


def decided(name: str) -> bool:
    """Return True if the table has a decision for a setting."""
    return name in SETTINGS or any(name.startswith(row[:-1]) for row in SETTINGS if row.endswith("*"))


def of(decision: Decision) -> dict[str, Setting]:
    """Return the settings with one decision."""
    return {name: setting for name, setting in SETTINGS.items() if setting.decision is decision}


def refused(values: Mapping[str, str | None]) -> Iterator[tuple[str, str, Setting]]:
    """Find the settings among `values` that have another value than the only one they may have.

    Yield name, value and row; what is not set is as Spark has it, which is right.
    """
    for name, setting in (of(Decision.ONLY) | of(Decision.ONLY_OF_JOBS)).items():
        value = values.get(name)
        if value is not None and value.strip().lower() != setting.value.lower():
            yield name, value, setting
