"""A custom source of one subtask: what is needed to read it, before it is known where it stands."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from rekindle.channels.admission import AdmissionSizer
from rekindle.channels.custom_splits import CustomSplits
from rekindle.channels.inbox import Inbox
from rekindle.channels.split_feed import SplitFeed
from rekindle.ids import SubtaskId
from rekindle.runtime.definition import RunContext
from rekindle.sources import SplitSource
from rekindle.spark.inputs.reading import building
from rekindle.spark.inputs.split_reader import Reads, SplitReader
from rekindle.spark.inputs.split_reading import SplitReading
from rekindle.storage import read_layout
from rekindle.storage.documents.batch import InputPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class Custom:
    """A custom source of one subtask."""

    run: RunContext
    spark: SparkSession
    uid: str
    splits: CustomSplits
    subtask: SubtaskId

    def reading(self, position: InputPosition, inbox: Inbox, sizer: AdmissionSizer) -> SplitReading:
        """Return what reads it from where `position` says it stands.

        One that continues a history is asked for its splits at once, so that where they begin is fixed before the
        history is read, and not when it has been.
        """
        run, given = self.run, self.run.definition.sources[self.uid]
        spec = given.spec
        assert isinstance(spec, SplitSource)
        folder = read_layout.reads(run.folder(self.subtask), self.uid)
        of = Reads(
            uid=self.uid,
            subtask=self.subtask.subtask,
            spec=spec,
            spark=self.spark,
            storage=run.storage,
            folder=folder,
            run=run.run.run,
            steps=run.steps,
            available_now=run.run.available_now,
            splits=self.splits,
            feed=SplitFeed(inbox, position, sizer, run.storage, folder, self.splits, self.subtask.subtask),
            columns=columns_of(self.spark, self.uid, spec),
        )
        if given.source.follows is not None and not self.splits.discovered:
            SplitReader(of).discover()
        return SplitReading(of)


def columns_of(spark: SparkSession, uid: str, spec: SplitSource) -> T.StructType:
    """Return the columns that a source says it has."""
    schema = spec.schema
    if callable(schema):
        with building(uid, schema):
            return spark.createDataFrame([], schema(spark)).schema
    with building(uid):
        return schema if isinstance(schema, T.StructType) else spark.createDataFrame([], schema).schema
