"""The pages are true: what can be compared with the code is compared with it."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

import rekindle as rk
from rekindle.cli.verbs import rekindle
from rekindle.config import SETTINGS
from rekindle.errors.conditions import CONDITIONS
from rekindle.protocol.commit import CommitPermit
from rekindle.runtime import steps
from rekindle.sinks import SinkBatch
from tools import make_docs

ROOT = make_docs.ROOT
DOCS = make_docs.DOCS
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
GUIDE = DOCS / "guide.md"
CODE = ("src", "tests", "examples", "bench")

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_COLLEAGUES = ("benchmarks.md", "crash-tests.md")
"""Pages that `make bench` and `make crash` write; a checkout may not have them yet."""

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def blocks(page: Path, *languages: str) -> list[str]:
    """The code blocks of a page in one of `languages`."""
    return [match[2] for match in _BLOCK.finditer(page.read_text()) if match[1] in languages]


def anchors(page: Path) -> set[str]:
    """What ``#…`` may lead to: headings as GitHub names them, and ids."""
    text = re.sub(_BLOCK, "", page.read_text())
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'id="([^"]+)"', text))


def named_files(text: str) -> Iterator[str]:
    """Files of this project in backticks: ``protocol/job.py``, ``tests/jobs/kit.py``."""
    yield from re.findall(r"`([\w./-]+/[\w.-]+\.py|[a-z_]+\.py)`", text)


# --- generated parts --------------------------------------------------------------------------------------------------


def test_the_generated_parts_of_the_pages_are_up_to_date() -> None:
    assert not [str(page.relative_to(ROOT)) for page in make_docs.stale()], "run: python tools/make_docs.py"


def test_a_generated_part_that_is_out_of_date_is_noticed_and_made_again(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("above\n<!-- generated: settings -->\n| old |\n<!-- end generated -->\nbelow\n")

    made = make_docs.stale(tmp_path)[page]

    assert made.startswith("above\n")
    assert made.endswith("\nbelow\n")
    assert "`checkpoint.interval`" in made
    assert "| old |" not in made
    page.write_text(made)
    assert make_docs.stale(tmp_path) == {}


# --- everything is there ----------------------------------------------------------------------------------------------


def test_every_public_name_is_in_the_guide() -> None:
    guide = GUIDE.read_text()
    assert [name for name in rk.__all__ if not re.search(rf"\b{name}\b", guide)] == []
    assert [name for name in rk.sinks.__all__ if not re.search(rf"\b{name}\b", guide)] == []


@pytest.mark.parametrize("kind", [rk.Job, rk.JobHandle], ids=lambda kind: kind.__name__)
def test_every_public_method_is_in_the_guide(kind: type) -> None:
    guide = GUIDE.read_text()
    methods = [name for name in vars(kind) if not name.startswith("_")]
    assert [name for name in methods if f".{name}(" not in guide and name != "graph"] == []


def test_every_verb_is_on_its_page() -> None:
    page = (DOCS / "cli.md").read_text()
    groups = {name: verb for name, verb in rekindle.commands.items() if isinstance(verb, click.Group)}
    names = [*rekindle.commands, *(f"{name}/{below}" for name, group in groups.items() for below in group.commands)]
    parts = {name: f"## {name.replace('/', ' ')}\n\n<!-- generated: help {name} -->" for name in names}
    assert [name for name, part in parts.items() if part not in page] == []


def test_every_setting_error_document_and_step_is_on_its_page() -> None:
    configuration, errors, storage, crashes = (
        (DOCS / f"{name}.md").read_text() for name in ("configuration", "errors", "storage", "crash-tests")
    )
    assert [key for key in SETTINGS if f"| `{key}` |" not in configuration] == []
    assert [code for code in CONDITIONS if f"`{code}` |" not in errors] == []
    assert [step for step in steps.ALL if f"| `{step}` |" not in storage] == []
    explained = crashes.partition("## In `make test`")[0]
    assert [step for step in steps.ALL if f"`{step}`" not in explained] == []
    for kind in make_docs.document_classes():
        assert f"<!-- generated: document {kind.__name__} -->\n{kind.__doc__}" in storage
        assert make_docs.document_table(kind.__name__) in storage


def test_every_variable_of_the_environment_is_on_the_page_of_settings() -> None:
    # One is set for the JVM by Rekindle itself, the others are words in errors of Spark.
    ours = {"REKINDLE_SPARK_LOG", "REKINDLE_EVENT_TIME_BEFORE_EPOCH", "REKINDLE_EVENT_TIME_AFTER_9999"}
    read = {
        name
        for path in (ROOT / "src").rglob("*.py")
        for name in re.findall(r"^_?[A-Z_]+ = \"(REKINDLE_[A-Z_]+)\"", path.read_text(), re.MULTILINE)
    }
    assert "REKINDLE_STORAGE" in read
    page = (DOCS / "configuration.md").read_text()
    assert [name for name in sorted(read - ours) if f"| `{name}` |" not in page] == []


def test_every_package_is_on_the_map_and_nothing_else_is() -> None:
    source = ROOT / "src" / "rekindle"
    there = {path.stem for path in source.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    mapped = re.findall(r"^\| `rekindle\.(\w+)` \|", (DOCS / "architecture.md").read_text(), re.MULTILINE)
    assert set(mapped) == there - {"__init__", "__main__"}


def test_decisions_are_numbered_without_gaps_and_listed() -> None:
    pages = sorted(page.name for page in (DOCS / "decisions").glob("0*.md"))
    assert [int(name[:4]) for name in pages] == list(range(1, len(pages) + 1))
    index = (DOCS / "decisions" / "README.md").read_text()
    for name in pages:
        text = (DOCS / "decisions" / name).read_text()
        title = text.splitlines()[0].partition(": ")[2]
        assert f"| [{name[:4]}]({name}) | {title} |" in index
        for part in ("Context", "Decision", "Considered", "Consequences"):
            assert f"\n**{part}.** " in text, f"{name} has no {part}"


# --- nothing is made up -----------------------------------------------------------------------------------------------


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(re.sub(_BLOCK, "", page.read_text())):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists() or target.name in _COLLEAGUES, f"{link} leads nowhere"
        assert not anchor or anchor in anchors(target), f"{link}: there is no such heading"


def test_code_cites_pages_of_this_repository_only() -> None:
    cited = re.compile(r"\b((?:docs/)?[\w/-]+\.md)(?:#([\w-]+))?")
    files = [path for folder in CODE for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".sh", ".txt")]
    assert files
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert path.parent == ROOT / "tests" / "docs" or not re.search(r"\bDESIGN \d", text), f"{path} cites DESIGN"
        for name, anchor in cited.findall(text) if path.is_relative_to(ROOT / "src") else ():
            page = ROOT / name
            if name.startswith("docs/"):
                assert page.exists(), f"{path} cites {name}, which does not exist"
                assert not anchor or anchor in anchors(page), f"{path} cites {name}#{anchor}: there is no such heading"


@every_page
def test_python_in_the_pages_compiles(page: Path) -> None:
    for code in blocks(page, "python", "py"):
        compile(code, str(page), "exec")


@every_page
def test_modules_and_tests_that_are_named_exist(page: Path) -> None:
    places = [ROOT, ROOT / "src", ROOT / "src" / "rekindle", ROOT / "tests", ROOT / "examples", ROOT / "deploy/airflow"]
    users = {
        "hourly_bids.py",
        "hourly.py",
        "hourly_job.py",
        "auctions.py",
        "make_bids.py",
        "daily_bids.py",
        "pipeline.py",
    }
    for name in named_files(page.read_text()):
        assert name in users or any((place / name).exists() for place in places), f"there is no {name}"


@every_page
def test_commands_in_the_pages_are_commands(page: Path) -> None:
    for command in commands(page):
        verb, rest = rekindle.commands.get(command[0]), command[1:]
        if isinstance(verb, click.Group) and rest:
            verb, rest = verb.commands.get(rest[0]), rest[1:]
        assert verb is not None, f"there is no verb {shlex.join(command)}"
        context = click.Context(verb, info_name=verb.name)
        words = [word for word in rest if word not in ("[DIR]", "[CHECKPOINT]", "[PATH]", "PATH")]
        try:
            verb.make_parser(context).parse_args(words)
        except click.UsageError as error:
            pytest.fail(f"rekindle {shlex.join(command)}: {error.format_message()}")


def commands(page: Path) -> Iterator[list[str]]:
    """``rekindle …`` in shell blocks and in backticks, as words, without comments and what follows ``&&``."""
    text = page.read_text()
    inline = re.findall(r"`rekindle ([a-z][^`]*)`", re.sub(_BLOCK, "", text))
    in_blocks = [line[9:] for code in blocks(page, "sh") for line in code.splitlines() if line.startswith("rekindle ")]
    for line in (*inline, *in_blocks):
        yield shlex.split(line.partition(" && ")[0], comments=True)


def test_states_and_kinds_that_the_manual_names_are_those_of_the_code() -> None:
    from rekindle.protocol.reasons import CheckpointKind
    from rekindle.protocol.states import JobState, TaskStatus

    page = (DOCS / "cli.md").read_text()
    for word in (
        *(state.value for state in JobState),
        *(s.value for s in TaskStatus),
        *(k.value for k in CheckpointKind),
    ):
        assert f"`{word}`" in page, f"{word} is not explained"


# --- the sink of the guide works --------------------------------------------------------------------------------------


class Rows:
    """As much of a DataFrame as the sink needs."""

    def __init__(self, *rows: dict[str, Any]) -> None:
        self.rows = rows

    def collect(self) -> list[Any]:
        return [SimpleNamespace(asDict=lambda recursive, row=row: row) for row in self.rows]


@pytest.fixture
def json_lines(tmp_path: Path) -> Any:
    """The sink that the guide shows how to write, opened."""
    code = next(code for code in blocks(GUIDE, "python") if "class JsonLines" in code)
    names: dict[str, Any] = {}
    exec(code, names)
    sink = names["JsonLines"](tmp_path / "out")
    assert isinstance(sink, rk.sinks.TwoPhaseSink)
    sink.open("bids-1", "lines")
    return sink


def batch(number: int, attempt: str, run: int = 1) -> SinkBatch:
    return SinkBatch(job="bids", sink="lines", task="t", subtask=0, lineage=1, batch=number, run=run, attempt=attempt)


def visible(sink: Any) -> list[str]:
    return [line for file in sorted(sink.path.glob("*.jsonl")) for line in file.read_text().splitlines()]


def test_the_sink_of_the_guide_shows_rows_once_they_are_committed_and_only_once(json_lines: Any) -> None:
    committables = json_lines.prepare(Rows({"a": 1}, {"a": 2}), batch(0, "x"))
    assert visible(json_lines) == []

    json_lines.commit(committables, CommitPermit(1))
    json_lines.commit(committables, CommitPermit(1))

    assert visible(json_lines) == ['{"a": 1}', '{"a": 2}']
    assert json_lines.prepare(Rows(), batch(1, "y")) == []


def test_the_sink_of_the_guide_removes_only_what_no_one_names(json_lines: Any) -> None:
    named = json_lines.prepare(Rows({"a": 1}), batch(0, "named"))
    json_lines.prepare(Rows({"a": 2}), batch(0, "orphan"))
    later = json_lines.prepare(Rows({"a": 3}), batch(0, "later", run=2))
    aborted = json_lines.prepare(Rows({"a": 4}), batch(0, "aborted"))

    json_lines.abort(aborted)
    json_lines.abort(aborted)
    json_lines.clean(named, lambda _: False)
    assert len(list(json_lines.staging.iterdir())) == 3
    json_lines.clean(named, lambda attempt: attempt.run == 1)

    json_lines.commit([*named, *later], CommitPermit(1))
    assert visible(json_lines) == ['{"a": 1}', '{"a": 3}']
    assert list(json_lines.staging.iterdir()) == []


def test_pages_do_not_speak_of_the_machine_they_were_written_on() -> None:
    for page in PAGES:
        assert not re.search(r"/(work|root|home)/\w", page.read_text()), page


def test_the_guide_lists_its_sections_in_order() -> None:
    text = re.sub(_BLOCK, "", GUIDE.read_text())
    listed = re.findall(r"^- \[(.*)\]\(#", text, re.MULTILINE)
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert listed == headings
    assert all(text.index(f"\n## {a}\n") < text.index(f"\n## {b}\n") for a, b in pairwise(headings))


def test_every_function_of_the_walks_is_there() -> None:
    page = (make_docs.DOCS / "architecture.md").read_text()
    walks = page[page.index("## Three walks") : page.index("## A batch")]
    named = re.findall(r"`([a-z_.]+):([A-Za-z_.]+)`", walks)
    assert len(named) > 20
    missing = [f"{module}:{path}" for module, path in named if not _resolves(module, path)]
    assert missing == []


def _resolves(module: str, path: str) -> bool:
    found: object = importlib.import_module(f"rekindle.{module}")
    for name in path.split("."):
        found = getattr(found, name, None)
    return found is not None
