"""Fill the generated parts of the pages in docs/ from the code, so that the two cannot differ.

    python tools/make_docs.py            rewrite what is out of date
    python tools/make_docs.py --check    only say what is out of date; exit code 1 if anything is

A page marks a part with ``<!-- generated: KIND ARGUMENT -->`` and ``<!-- end generated -->``; everything between them
is made by the function for KIND in `MAKERS`. What stands outside of the marks is written by hand.

Nothing here imports PySpark: the table `CHOSEN` is read from the source of `rekindle.session.session`.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any

import msgspec
from click.testing import CliRunner

from rekindle import config, errors, sinks
from rekindle.cli.verbs import rekindle
from rekindle.errors.conditions import CONDITIONS, NEXT_STEPS
from rekindle.graph import queries
from rekindle.graph.changes import RULES, ChangeRule, Outcome
from rekindle.history import events
from rekindle.runtime import steps
from rekindle.session import settings as spark_settings
from rekindle.storage import documents, layout

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where this file is run and not imported

from tools import protocol_docs, rest_docs
from tools.markdown import table

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SESSION = ROOT / "src" / "rekindle" / "session" / "session.py"

_PART = re.compile(r"(<!-- generated: (\S+)(?: (\S+))? -->\n).*?(<!-- end generated -->)", re.DOTALL)


def filled(page: str) -> str:
    """Return a page's text with every generated part made again; KeyError for a kind that has no maker."""
    return _PART.sub(lambda part: f"{part[1]}{MAKERS[part[2]](part[3] or '')}\n{part[4]}", page)


# --- settings ---------------------------------------------------------------------------------------------------------


def settings_table(_: str) -> str:
    """Return the table of a job's settings."""
    rows = [
        (f"`{key}`", f"`{_setting_default(setting)}`", _setting_values(key, setting), setting.metadata["doc"])
        for key, setting in config.SETTINGS.items()
    ]
    return table(("setting", "default", "values", "meaning"), rows)


def _setting_default(setting: Field[Any]) -> str:
    return config.shown(setting.name, setting.default)


def _setting_values(key: str, setting: Field[Any]) -> str:
    parse = setting.metadata["parse"]
    if parse is config.duration_ms or (setting.default is None and setting.name.endswith("_ms")):
        return "duration"
    if setting.default is None:
        return "whole number from 0 up, or unlimited"
    if setting.name.endswith("_ms"):
        return "duration above 0"
    if setting.name.endswith("_bytes"):
        return "size" if parse is config.size_bytes else "size from 1 byte up"
    try:
        parse(key, "a value that nothing takes")
    except errors.ConfigError as error:
        # "not one of a, b", "not a whole number from 0 up", "neither true nor false"
        return re.sub("^(not one of|not an?|neither) ", "", str(error.parameters["reason"])).replace(" nor ", " or ")
    raise AssertionError(f"{key} takes anything")


def spark_table(name: str) -> str:
    """Return the Spark settings in the table `name` of the session module, with the comments above them."""
    source = SESSION.read_text()
    module = ast.parse(source)
    constants = {
        target.id: node.value.value
        for node in module.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found = _annotated(module, name)
    assert isinstance(found, ast.Dict)
    lines = source.splitlines()
    rows = []
    for key, value in zip(found.keys, found.values, strict=True):
        assert isinstance(key, ast.Constant)
        assert isinstance(key.value, str)
        text: Any = constants[value.id] if isinstance(value, ast.Name) else ast.literal_eval(value)
        rows.append((f"`{key.value}`", f"`{text}`", _comment_above(lines, key.lineno - 1)))
    return table(("setting", "value", "why"), rows)


def decisions_table(name: str) -> str:
    """Return the table of Spark settings with the decision `name`; free ones are grouped by their reason."""
    decision = spark_settings.Decision[name]
    rows = spark_settings.of(decision)
    if decision is not spark_settings.Decision.FREE:
        cells = [
            (f"`{setting}`", f"`{row.value}`" if row.value else "not set", row.why) for setting, row in rows.items()
        ]
        return table(("setting", "value", "why" if decision is spark_settings.Decision.SET else "otherwise"), cells)
    names: dict[str, list[str]] = {}
    for setting, row in rows.items():
        names.setdefault(row.why, []).append(f"`{setting}`")
    return table(("settings", "why"), [(", ".join(settings), why) for why, settings in names.items()])


def _annotated(module: ast.Module, name: str) -> ast.expr:
    """Return the value assigned to the annotated name at the top level of `module`."""
    return next(
        node.value
        for node in module.body
        if isinstance(node, ast.AnnAssign)
        and node.value
        and isinstance(node.target, ast.Name)
        and node.target.id == name
    )


def _comment_above(lines: list[str], line: int) -> str:
    """Join the ``#`` lines that end just above `line` (0-based)."""
    comment: list[str] = []
    while line and (text := lines[line - 1].strip()).startswith("#"):
        comment.insert(0, text.lstrip("#: "))
        line -= 1
    return " ".join(comment)


# --- sinks ------------------------------------------------------------------------------------------------------------


def read_back_table(_: str) -> str:
    """Return the table of sinks: whether each can read back what it has committed, and how."""
    rows: list[tuple[str, str]] = []
    for name in sinks.__all__:
        kind = getattr(sinks, name)
        if kind in (sinks.TwoPhaseSink, sinks.SinkBatch, sinks.CommitPermit):
            continue
        if kind.read_back is sinks.TwoPhaseSink.read_back:
            rows.append((f"`rk.sinks.{name}`", "not compared: its rows cannot be read back"))
        else:
            rows.append((f"`rk.sinks.{name}`", (inspect.getdoc(kind.read_back) or "").partition("\n")[0]))
    return table(("sink", "rows of the original"), rows)


# --- errors -----------------------------------------------------------------------------------------------------------


def error_table(kind: str) -> str:
    """Return the table of errors of one class."""
    rows = [
        (f'<a id="{code.lower()}"></a>`{code}`', _plain(condition.message), _next_steps(code, condition.next_step))
        for code, condition in CONDITIONS.items()
        if condition.kind == kind
    ]
    return table(("code", "message", "what to do"), rows)


def _next_steps(code: str, usual: str) -> str:
    """Return the next step of an error, with those that depend on the state of the job."""
    by_state = [f"{state}: {_plain(step)}." for state, step in NEXT_STEPS.get(code, {}).items()]
    return " ".join([f"{_plain(usual)}.", *by_state] if by_state else [_plain(usual)])


def _plain(template: str) -> str:
    """Return a message with its parameters in italics: ``There is no job *job*``."""
    text = re.sub(r"\{(\w+)(![rs])?\}", r"*\1*", template.replace("{{", "\x00").replace("}}", "\x01"))
    return text.replace("\x00", "{").replace("\x01", "}").replace("\nStory:\n", " Story: ")


# --- the command line -------------------------------------------------------------------------------------------------


def help_text(verb: str) -> str:
    """Return what ``rekindle VERB --help`` prints, 80 columns wide; ``a/b`` is the verb b of the group a."""
    command = [*verb.split("/"), "--help"] if verb else ["--help"]
    result = CliRunner().invoke(rekindle, command, prog_name="rekindle", terminal_width=80)
    assert result.exit_code == 0, result.output
    return f"```text\n{result.output.rstrip()}\n```"


# --- the storage ------------------------------------------------------------------------------------------------------


def layout_tree(_: str) -> str:
    """Return the tree in the docstring of the layout module."""
    doc = inspect.getdoc(layout) or ""
    lines = [line for line in doc.splitlines() if line.startswith("    ") or not line.strip()]
    return f"```text\n{inspect.cleandoc(chr(10).join(lines))}\n```"


def steps_table(_: str) -> str:
    """Return the table of all durable steps."""
    rows = [(f"`{name}`", f"`{pattern}`") for name, pattern in layout.STEPS.items()]
    rows += [(f"`{name}`", "") for name in steps.BEYOND_STORAGE]
    return table(("step", "paths it writes, as a regular expression"), rows)


def document_table(name: str) -> str:
    """Return the fields of one document class: the ``#:`` comment above each is its meaning."""
    kind = next(kind for kind in document_classes() if kind.__name__ == name)
    lines = inspect.getsource(kind).splitlines()
    meanings = {}
    for number, line in enumerate(lines):
        if match := re.match(r"    (\w+): ", line):
            meanings[match[1]] = _comment_above(lines, number)
    rows = [(f"`{item.name}`", f"`{item.type}`", _document_default(item), meanings[item.name]) for item in fields(kind)]
    return f"{inspect.getdoc(kind)}\n\n{table(('field', 'type', 'default', 'meaning'), rows)}"


def _document_default(item: Field[Any]) -> str:
    if item.default_factory is not MISSING:
        return "`{}`"
    if item.default is MISSING:
        return ""
    return f"`{msgspec.json.encode(item.default).decode()}`"


def events_table(_: str) -> str:
    """Return the table of the kinds of events in a job's history."""
    return table(("kind", "what it says"), [(f"`{kind}`", words) for kind, words in events.KINDS.items()])


def document_classes() -> Iterator[type]:
    """Yield every class of a stored document, or of a part of one."""
    for found in pkgutil.iter_modules(documents.__path__, f"{documents.__name__}."):
        for thing in vars(importlib.import_module(found.name)).values():
            if inspect.isclass(thing) and is_dataclass(thing) and thing.__module__ == found.name:
                yield thing
    yield from (queries.Operator, queries.QueryDescription)


# --- changes ----------------------------------------------------------------------------------------------------------


def changes_table(_: str) -> str:
    """Return the table of a job's changes, and how a start decides on each."""
    rows = [
        (kind.value, _outcome(rule, rule.in_place), _outcome(rule, rule.restored), rule.then)
        for kind, rule in RULES.items()
    ]
    return table(("change", "in place", "with `--from`", "what becomes of it"), rows)


def queries_table(_: str) -> str:
    """Return the table of a query's changes, and how a start decides on each."""
    rows = [
        (aspect.value, f"refused: [`{rule.code}`](errors.md#{rule.code.lower()})" if rule.code else "named", rule.then)
        for aspect, rule in queries.RULES.items()
    ]
    return table(("what is another", "a start", "because"), rows)


def _outcome(rule: ChangeRule, outcome: Outcome) -> str:
    if outcome is Outcome.REFUSED:
        return f"refused: [`{rule.code}`](errors.md#{str(rule.code).lower()})"
    if rule.allow is not None and outcome is not Outcome.NEVER:
        return f"{outcome.value}, with `--{rule.allow.replace('_', '-')}`"
    return str(outcome.value)


# --- pages ------------------------------------------------------------------------------------------------------------


MAKERS: dict[str, Callable[[str], str]] = {
    "changes": changes_table,
    "queries": queries_table,
    "settings": settings_table,
    "spark": spark_table,
    "decisions": decisions_table,
    "read_back": read_back_table,
    "errors": error_table,
    "events": events_table,
    "help": help_text,
    "layout": layout_tree,
    "steps": steps_table,
    "document": document_table,
    **protocol_docs.MAKERS,
    **rest_docs.MAKERS,
}
"""Kind of a generated part → what makes it from its argument."""


def stale(docs: Path = DOCS) -> dict[Path, str]:
    """Return the pages whose generated parts are out of date → their right text."""
    pages = {page: page.read_text(encoding="utf-8") for page in sorted(docs.rglob("*.md"))}
    return {page: made for page, text in pages.items() if (made := filled(text)) != text}


def main() -> int:
    parser = argparse.ArgumentParser(description="Fill the generated parts of the pages in docs/.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 if a page is out of date")
    check = parser.parse_args().check
    out_of_date = stale()
    for page, text in out_of_date.items():
        if not check:
            page.write_text(text, encoding="utf-8")
        print(f"{page.relative_to(ROOT)} {'is out of date' if check else 'written'}")
    return 1 if check and out_of_date else 0


if __name__ == "__main__":
    sys.exit(main())
