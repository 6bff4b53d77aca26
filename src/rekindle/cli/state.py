"""``rekindle state``: what lies in the state of a checkpoint or savepoint, and how two of them differ."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from rekindle.cli import output
from rekindle.cli.app import example, with_json, with_storage
from rekindle.cli.options import ROWS, with_spark_settings
from rekindle.cli.running import stdout_for_result
from rekindle.progress.state_sizes import StateSize, state_sizes
from rekindle.progress.stored_state import StatefulOperator, StoredState, StoredTaskState, find_state
from rekindle.storage.savepoints import find_savepoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rekindle.spark.state import PartDifference, PartSummary

_SHOW = "show"


class _ShowUnlessNamed(click.Group):
    """``rekindle state PATH`` is ``rekindle state show PATH``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = [_SHOW, *args]
        return super().parse_args(ctx, args)


class _Part(NamedTuple):
    """A part of an operator's state; None: all of it."""

    task: str
    operator: StatefulOperator
    part: str | None


@click.group(cls=_ShowUnlessNamed, epilog=example("rekindle state PATH hourly\nrekindle state diff BEFORE AFTER"))
def state() -> None:
    """Show the state in a checkpoint or savepoint, or how the states of two differ.

    rekindle state PATH is short for rekindle state show PATH. Spark reads the state, and must be version 4.0 or newer.
    """


def _choosing(verb: Any) -> Any:
    for option in (
        with_json,
        with_storage,
        with_spark_settings,
        click.option(
            "--limit",
            type=ROWS,
            default=5,
            show_default=True,
            metavar="N",
            help="Show at most this many keys of each.",
        ),
        click.option("--part", metavar="NAME", help="Only this part: left, right, a state variable, timers."),
        click.option("--operator", type=int, metavar="N", help="Only this stateful operator, counted from 0."),
    ):
        verb = option(verb)
    return verb


@click.command(_SHOW, epilog=example("rekindle state show SAVEPOINT hourly --limit 20"))
@click.argument("path")
@click.argument("task", required=False)
@_choosing
def show(
    *,
    path: str,
    task: str | None,
    operator: int | None,
    part: str | None,
    limit: int,
    spark_config: dict[str, str],
    storage: str,
    as_json: bool,
) -> None:
    """Show the schema, counts, heaviest keys and a sample of the state in PATH.

    PATH is a checkpoint or savepoint, as for inspect, or the checkpoint location of a query without Rekindle; TASK is
    one of its tasks.
    """
    found = find_state(find_savepoint(path, storage))
    meant = list(_parts(found, task, operator, part))
    with _session(spark_config, found.path, as_json) as session:
        from rekindle.spark import state as reading

        parts = [
            (one, _size(found.task(one.task), one), reading.summary(_frame(session, found, one), limit))
            for one in meant
        ]
    if as_json:
        output.as_json(
            {"path": found.path, "state": [_json(one) | _size_json(size) | asdict(of) for one, size, of in parts]}
        )
        return
    for one, size, of in parts:
        for line in _lines(one, size, of):
            output.say(output.cut(line, output.width()))


@click.command(epilog=example("rekindle state diff SAVEPOINT1 SAVEPOINT2 hourly"))
@click.argument("before")
@click.argument("after")
@click.argument("task", required=False)
@_choosing
def diff(
    *,
    before: str,
    after: str,
    task: str | None,
    operator: int | None,
    part: str | None,
    limit: int,
    spark_config: dict[str, str],
    storage: str,
    as_json: bool,
) -> None:
    """Show which keys were added, removed and changed between the states in BEFORE and AFTER."""
    first, second = (find_state(find_savepoint(path, storage)) for path in (before, after))
    meant = [(one, _other(second, one)) for one in _parts(first, task, operator, part)]
    with _session(spark_config, f"{first.path} or {second.path}", as_json) as session:
        from rekindle.spark import state as reading

        found = [
            (one, reading.difference(_frame(session, first, one), _frame(session, second, other), limit))
            for one, other in meant
        ]
    if as_json:
        differing = [_json(one) | asdict(of) for one, of in found]
        output.as_json({"before": first.path, "after": second.path, "state": differing})
        return
    for one, of in found:
        for line in _difference_lines(one, of):
            output.say(output.cut(line, output.width()))


_VERBS = {show: "Show what lies in it.", diff: "Say which keys came, went and changed."}

for verb, summary in _VERBS.items():
    verb.short_help = summary
    state.add_command(verb)


@contextmanager
def _session(settings: dict[str, str], path: str, as_json: bool) -> Iterator[SparkSession]:
    with stdout_for_result(as_json):
        from rekindle.session.session import make_session, quiet
        from rekindle.spark.state import read_by_spark

        session = make_session("rekindle state", settings)
        with quiet(session), read_by_spark(path):
            yield session


def _parts(found: StoredState, task: str | None, operator: int | None, part: str | None) -> Iterator[_Part]:
    """Yield the parts that are meant: all, where nothing says which."""
    for uid in found.tasks if task is None and found.tasks else [task]:
        for one in found.task(uid).operators(operator):
            for name in [part] if part is not None else one.parts or [None]:
                yield _Part(uid or "", one, name)


def _other(found: StoredState, one: _Part) -> _Part:
    (operator,) = found.task(one.task).operators(one.operator.number)
    return one._replace(operator=operator)


def _frame(session: SparkSession, found: StoredState, one: _Part) -> Any:
    from rekindle.spark.state import state_frame

    return state_frame(session, found.task(one.task), one.operator, one.part)


def _size(task: StoredTaskState, one: _Part) -> StateSize:
    sizes = state_sizes(task.store, task.folder, task.batch)
    return next(size for size in sizes if size.operator == one.operator.number)


def _json(one: _Part) -> dict[str, Any]:
    return {"task": one.task or None, "operator": one.operator.number, "name": one.operator.name, "part": one.part}


def _size_json(size: StateSize) -> dict[str, int]:
    """Return the size of the whole operator: its parts share their files."""
    return {"operator_bytes": size.bytes, "operator_partitions": size.partitions}


def _title(one: _Part) -> str:
    task = f"{one.task}  " if one.task else ""
    return f"{task}operator {one.operator.number} {one.operator.name}" + (f"  {one.part}" if one.part else "")


def _lines(one: _Part, size: StateSize, of: PartSummary) -> Iterator[str]:
    yield _title(one)
    yield f"  key    {of.key_schema}"
    yield f"  value  {of.value_schema}"
    files = f"{output.size(size.bytes)} in {output.several(size.partitions, 'partition')}"
    yield f"  {output.several(of.rows, 'row')} of {output.several(of.keys, 'key')}; the operator keeps {files}"
    if of.rows > of.keys:
        yield "  heaviest keys"
        for heavy in of.heaviest:
            yield f"    {heavy.key}  {output.several(heavy.rows, 'row')}, {output.size(heavy.bytes)}"
    if of.sample:
        yield "  sample"
        for key, value in of.sample:
            yield f"    {key}  {value}"


def _difference_lines(one: _Part, of: PartDifference) -> Iterator[str]:
    yield _title(one)
    yield f"  {of.came:,} came, {of.went:,} went, {of.changed:,} changed, {of.same:,} the same"
    for change in of.examples:
        if not change.before:
            yield f"  + {change.key}  {', '.join(change.after)}"
        elif not change.after:
            yield f"  - {change.key}  {', '.join(change.before)}"
        else:
            yield f"  ~ {change.key}  {', '.join(change.before)} -> {', '.join(change.after)}"
