"""The facts on a task's plan and inputs by which `rekindle.graph.prelude` decides."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from rekindle.graph.job_graph import Task
from rekindle.graph.prelude import FIRST_READS, PreludeFacts, PreludeInput
from rekindle.spark.inputs.input import Input
from rekindle.spark.inputs.watermark_rows import MARKER
from rekindle.spark.plan_text import PlanNode, nodes
from rekindle.spark.plans.join_bounds import joins_streams
from rekindle.spark.plans.plan import is_mark, readers_of, removes_files, shares_a_source
from rekindle.spark.plans.session_filters import makes_sessions
from rekindle.spark.prelude.keeping import Kept, kept_from, kept_of
from rekindle.spark.prelude.windows import NotClosedError

_NOW = re.compile(r"\b(?:current_(?:timestamp|date|time)|localtimestamp|now)\(")
"""The time at which a row is looked at: it is another one the second time."""


def facts_of(
    task: Task, frame: DataFrame, inputs: Sequence[Input], *, changed_files: bool
) -> tuple[PreludeFacts, Kept | None]:
    """Return what is known of a task, and what its query keeps; None: nothing is known of that."""
    facts = PreludeFacts(
        inputs=tuple(map(_input, inputs)),
        output_mode=task.output_mode,
        parallelism=task.parallelism,
        operators=frozenset(_operators(nodes(frame))),
        kept=None,
        changed_files=changed_files,
    )
    if not (facts.has_history and facts.keeping in FIRST_READS):
        return facts, None
    kept, problem = None, None
    try:
        kept = kept_of(frame, facts.keeping)
    except NotClosedError as error:
        problem = str(error)
    numbered = sum(len(item.spark_sources) + len(item.mark_sources) for item in inputs)
    return replace(
        facts,
        kept=problem,
        deterministic=all(map(_is_deterministic, kept_from(frame, facts.keeping))),
        reads_twice=shares_a_source(frame) or len(readers_of(frame)) > numbered,
    ), kept


def _input(item: Input) -> PreludeInput:
    return PreludeInput(
        uid=item.uid,
        bounded=item.bounded,
        is_channel=item.is_channel,
        timed=item.event_time is not None,
        overlaps=item.bounded and item.delay_ms is not None,
        may_be_idle=item.idle_timer is not None,
        reads=frozenset(_reads(item)),
    )


def _reads(item: Input) -> Iterator[str]:
    if item.reading is not None:
        yield "a custom source"
    elif not (item.bounded or item.is_channel):
        yield from (one.kind for one in readers_of(item.frame) if not is_mark(one, [item]))
        if removes_files(item.frame):
            yield "a stream with cleanSource"  # the copy would have its files removed, before the stream reads them


def _operators(plan: Sequence[PlanNode]) -> Iterator[str]:
    for node in plan:
        if node.is_streaming:
            if node.name == "Join" and not joins_streams(node.plan):
                yield "Join with a table"
            elif node.name == "Aggregate" and makes_sessions(node.plan):
                yield "Session"
            else:
                yield node.name


def _is_deterministic(node: PlanNode) -> bool:
    if MARKER in node.text:  # ours, which drops the watermark rows
        return True
    expressions = node.plan.expressions()
    chance = any(not expressions.apply(index).deterministic() for index in range(expressions.size()))
    return not chance and not _NOW.search(node.text)
