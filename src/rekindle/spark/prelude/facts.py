"""The facts on a task's plan and inputs by which `rekindle.graph.prelude` decides."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame

from rekindle.graph.job_graph import Task
from rekindle.graph.prelude import PreludeFacts, PreludeInput
from rekindle.spark.inputs.input import Input
from rekindle.spark.inputs.watermark_rows import MARKER
from rekindle.spark.plan_text import PlanNode, nodes
from rekindle.spark.plans.plan import is_mark, readers_of
from rekindle.spark.prelude.closing import NotClosedError, Windows, below, windows_of

_NOW = re.compile(r"\b(?:current_(?:timestamp|date|time)|localtimestamp|now)\(")
"""The time at which a row is looked at: it is another one the second time."""


def facts_of(
    task: Task, frame: DataFrame, inputs: Sequence[Input], *, changed_files: bool
) -> tuple[PreludeFacts, Windows | None]:
    """Return what is known of a task, and where it makes its windows."""
    operators = frozenset(_operators(nodes(frame)))
    windows, problem, deterministic = None, None, True
    if "Aggregate" in operators:
        deterministic = all(map(_is_deterministic, below(frame)))
        try:
            windows = windows_of(frame)
        except NotClosedError as error:
            problem = str(error)
    facts = PreludeFacts(
        inputs=tuple(map(_input, inputs)),
        output_mode=task.output_mode,
        parallelism=task.parallelism,
        operators=operators,
        windows=problem,
        deterministic=deterministic,
        changed_files=changed_files,
    )
    return facts, windows


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


def _operators(plan: Sequence[PlanNode]) -> Iterator[str]:
    for node in plan:
        if node.is_streaming:
            children = node.plan.children()
            sides = [bool(children.apply(index).isStreaming()) for index in range(children.size())]
            yield "Join with a table" if node.name == "Join" and not all(sides) else node.name


def _is_deterministic(node: PlanNode) -> bool:
    if MARKER in node.text:  # ours, which drops the watermark rows
        return True
    expressions = node.plan.expressions()
    chance = any(not expressions.apply(index).deterministic() for index in range(expressions.size()))
    return not chance and not _NOW.search(node.text)
