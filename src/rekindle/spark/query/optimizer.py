"""Settings under which a query is started: a batch must not be planned by what happens to be in it.

Spark plans each batch of a query by itself, and knows how much each source has brought. Some rules of its optimizer go
by that. It is right for this batch and wrong for the next: a filter on one side of a join, inferred because the other
side of the join has nothing else today, keeps rows from the state which tomorrow's would have met; and a join that is
done once in one batch and twice in another finds the state of something else. See docs/decisions/0028.

Only a join can be planned wrong in this way. A query without one keeps the rules: from a batch without watermark rows
Spark then drops their branch, and reads as fast as it would without them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from rekindle.session.session import SESSION
from rekindle.spark.plan_text import tree

EXCLUDED = "spark.sql.optimizer.excludedRules"

_PACKAGE = "org.apache.spark.sql.catalyst.optimizer."

RULES = {
    "PropagateEmptyRelation": "drops a branch of a union that has no rows in this batch",
    "OptimizeOneRowPlan": "drops an aggregation of one row at most",
    "EliminateLimits": "drops a limit that this batch does not reach",
    "PushDownJoinThroughUnion": "joins each branch of a union by itself if the other side is small in this batch",
    "PushDownLeftSemiAntiJoin": "joins below an aggregation if the other side is small in this batch",
    "CostBasedJoinReorder": "orders joins by the sizes of this batch",
    "InjectRuntimeFilter": "filters one side of a join by what the other has in this batch",
}
"""Rules that would plan a batch by its data, and what each does; a version of Spark ignores the names that it lacks."""

_JOIN = re.compile(r" *~?\w*Join\b")


def same_for_each_batch(frame: DataFrame) -> Mapping[str, str]:
    """Return the settings under which a query that joins is planned alike in each batch, none for another query.

    They exclude `RULES`, and what the user excludes.
    """
    if not any(_JOIN.match(line) for line in tree(frame)):
        return {}
    excluded = frame.sparkSession.conf.get(EXCLUDED, "") or ""
    own = [name.strip() for name in excluded.split(",") if name.strip()]
    return {EXCLUDED: ",".join(dict.fromkeys([*own, *(_PACKAGE + name for name in RULES)]))}


@contextmanager
def started_with(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set the session for a query that is started inside, which copies it; put it back after."""
    with SESSION, changed(spark, settings):
        yield


@contextmanager
def changed(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set the session inside, and put it back after. Queries that other threads start meanwhile have it too."""
    before = {key: spark.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)
