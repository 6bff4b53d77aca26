"""Files of one idea, classes that fit in a head: numbers that hold, so that they stay.

A table may be as long as what it lists.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "rekindle"

LINES = 300
POSITIONS = 7
NAMES = 12
METHODS_OF_A_RECORD = 3
SHARE = 15
"""Percent of all lines that one package may have."""

TABLES = {
    "errors/conditions.py": "the table of errors",
    "testing/words.py": "events and commands in words",
    "session/settings.py": "the table of Spark's settings",
}


@cache
def files() -> dict[str, str]:
    return {str(file.relative_to(SOURCE)): file.read_text() for file in sorted(SOURCE.rglob("*.py"))}


def test_no_file_is_longer_than_one_idea_takes_but_tables() -> None:
    sizes = {name: len(text.splitlines()) for name, text in files().items() if name not in TABLES}
    assert len(sizes) > 100
    too_long = {name: size for name, size in sizes.items() if size > LINES}
    assert too_long == {}, "part them by ideas"


def test_no_package_is_so_large_that_it_is_several() -> None:
    lines = Counter[str]()
    for name, text in files().items():
        lines[name.partition("/")[0]] += len(text.splitlines())
    largest, size = lines.most_common(1)[0]
    assert size * 100 < SHARE * lines.total(), f"a wing of {largest} that is a room of its own moves out"


@pytest.mark.parametrize("name", files())
def test_no_function_takes_many_parameters_by_position(name: str) -> None:
    for node in ast.walk(ast.parse(files()[name])):
        if isinstance(node, ast.FunctionDef):
            taken = [one.arg for one in (*node.args.posonlyargs, *node.args.args) if one.arg not in ("self", "cls")]
            # A verb of the command line gets its options from click, by name.
            assert len(taken) <= POSITIONS or name.startswith("cli/"), f"{node.name}({', '.join(taken)})"


def test_the_rules_of_a_job_change_no_field_of_its_parts() -> None:
    """A part has a method for each of its transitions: `job.stop.overtake()`, not `job.stop.unaligned = True`."""
    changed = []
    for name in ("job", "job_parts", "handlers", "rules", "results"):
        for node in ast.walk(ast.parse((SOURCE / "protocol" / f"{name}.py").read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                owner = ast.unparse(node.value)
                changed += [] if owner in ("self", "job") else [f"{name}: {ast.unparse(node)}"]
    assert changed == []


PORTS = {
    "storage/port.py:Store": "what a storage can do",
    "storage/forwarding.py:ForwardingStore": "a store",
    "storage/local.py:LocalStore": "a store",
    "storage/hdfs.py:HdfsStore": "a store",
    "storage/objects.py:ObjectStore": "a store",
    "testing/memory_store.py:MemoryStore": "a store",
    "sources/split_source.py:SplitSource": "what a user's source can do",
    "sinks/two_phase.py:TwoPhaseSink": "what a user's sink can do",
    "sinks/parquet.py:Parquet": "a sink",
    "sinks/delta.py:Delta": "a sink",
    "sinks/iceberg.py:Iceberg": "a sink",
    "sinks/kafka/sink.py:Kafka": "a sink",
    "sinks/postgres/sink.py:Postgres": "a sink",
    "testing/fake_sink.py:FakeSink": "a sink",
    "spark/streaming/task.py:SparkTask": "what a driver orders of a task",
    "testing/fake_runner.py:FakeRunner": "what a driver orders of a task",
    "testing/sink_contract.py:SinkContract": "its tests are its methods",
    "testing/harness/harness.py:JobHarness": "what a user's test can do",
}
"""Classes as wide as the interface that others know."""

INHERITED = {
    "runtime/ports.py:StreamRunner": "what a driver orders of a task",
    "protocol/job.py:JobMachine": "its parts, which the rules read, and its one door",
    "channels/split_feed.py:SplitFeed": "a feed; its ports are two classes",
    "storage/batch_documents.py:BatchDocuments": "documents of a job",
    "storage/checkpoint_documents.py:CheckpointDocuments": "documents of a job",
    "storage/control_documents.py:ControlDocuments": "documents of a job",
    "storage/fence.py:Fence": "documents of a job",
    "storage/job_storage.py:JobStorage": "documents of a job",
    "storage/run_documents.py:RunDocuments": "documents of a job",
    "monitoring/facts.py:ReadAgain": "documents of a job",
}
"""Classes that are wide with what they inherit but from `PORTS`; docs/decisions/0055 says why documents are."""

WHOLE = 27
"""Places that take all documents of a job, where others take those that they need. Lower it where there are fewer."""

TO_BE_NARROWED: dict[str, int] = {}
"""Class → the most public methods and attributes that it may have meanwhile."""


@cache
def classes() -> dict[str, ast.ClassDef]:
    return {
        f"{name}:{node.name}": node
        for name, text in files().items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
    }


def methods_of(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [one for one in node.body if isinstance(one, ast.FunctionDef)]


def public_names(node: ast.ClassDef) -> set[str]:
    """What others can call, read or set: methods, fields, and what ``__init__`` sets."""
    names = {method.name for method in methods_of(node)}
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign | ast.Assign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    made = [part for method in methods_of(node) if method.name == "__init__" for part in ast.walk(method)]
    names |= {
        part.attr
        for part in made
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) and ast.unparse(part.value) == "self"
    }
    return {name for name in names if not name.startswith("_")}


@cache
def by_name() -> dict[str, ast.ClassDef]:
    """Classes by the names that others inherit from."""
    return {name.rpartition(":")[2]: node for name, node in classes().items()}


def bases_of(node: ast.ClassDef) -> list[ast.ClassDef]:
    """Those of this project's."""
    names = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
    return [by_name()[name] for name in names if name != node.name and name in by_name()]


def all_names(node: ast.ClassDef) -> set[str]:
    """Those of a class and of all that it inherits from."""
    return public_names(node).union(*map(all_names, bases_of(node)))


def of_ports(node: ast.ClassDef) -> set[str]:
    """Those that it inherits from one of `PORTS`."""
    ports = {name.rpartition(":")[2] for name in PORTS}
    return set[str]().union(*(all_names(base) if base.name in ports else of_ports(base) for base in bases_of(node)))


def is_record(node: ast.ClassDef) -> bool:
    """Whether it is a table of fields, which may be as long as what it lists."""
    decorated = any("dataclass" in ast.unparse(one) for one in node.decorator_list)
    listed = any(ast.unparse(base).rsplit(".", 1)[-1] in ("NamedTuple", "Enum", "Struct") for base in node.bases)
    listed = listed or any(map(is_record, bases_of(node)))
    public = [method for method in methods_of(node) if not method.name.startswith("_")]
    return (decorated or listed) and len(public) <= METHODS_OF_A_RECORD


def test_no_class_has_more_names_than_fit_in_a_head() -> None:
    found = {name: len(public_names(node)) for name, node in classes().items() if not is_record(node)}
    assert len(found) > 100
    too_wide = {
        name: width for name, width in found.items() if name not in PORTS and width > TO_BE_NARROWED.get(name, NAMES)
    }
    assert too_wide == {}, "give each idea a class"


def test_what_a_class_inherits_counts_too() -> None:
    found = {name: len(all_names(node) - of_ports(node)) for name, node in classes().items() if not is_record(node)}
    too_wide = {name for name, width in found.items() if name not in PORTS and width > NAMES}
    assert too_wide == INHERITED.keys(), "take a part as an argument, or keep it in a field"


def test_what_needs_some_documents_of_a_job_takes_the_class_that_has_these() -> None:
    nodes = (node for text in files().values() for node in ast.walk(ast.parse(text)))
    annotations = (node.annotation for node in nodes if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation)
    found = sum("JobStorage" in ast.unparse(one) for one in annotations)
    assert found <= WHOLE, "take RunDocuments, CheckpointDocuments, ControlDocuments, BatchDocuments or JobDocuments"
    assert found > WHOLE - 3, "there are fewer: lower the number"


def test_what_was_narrowed_stays_so() -> None:
    found = {name: len(public_names(node)) for name, node in classes().items()}
    assert [name for name in TO_BE_NARROWED if found.get(name, 0) <= NAMES] == [], "they need no exception any more"
    assert [name for name in PORTS if found.get(name, 0) <= NAMES] == []


def test_the_names_of_a_class_are_its_methods_fields_and_what_it_sets() -> None:
    text = "class A:\n  b: int\n  c = 1\n  def __init__(self):\n    self.d = self._e = 1\n  def f(self): self.g = 1"
    (node,) = ast.parse(text).body
    assert isinstance(node, ast.ClassDef)
    assert public_names(node) == {"b", "c", "d", "f"}


def test_the_names_of_a_store_that_counts_its_steps_are_those_of_a_store() -> None:
    named = classes()
    store = public_names(named["storage/port.py:Store"])
    assert store <= all_names(named["runtime/steps.py:SteppedStore"])
    assert len(public_names(named["runtime/steps.py:SteppedStore"])) < len(store)


def test_no_two_classes_have_one_name() -> None:
    named: dict[str, list[str]] = {}
    for file, text in files().items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef):
                named.setdefault(node.name, []).append(file)
    assert len(named) > 500
    assert {name: where for name, where in named.items() if len(where) > 1} == {}, "one noun, one meaning"


NO_NAMES = {"told", "anew", "nobody", "somebody", "whoever", "behind", "wish"}
"""Words that no name is made of: they mean nothing here, or two things."""

NAMED_SO = {
    "FINISHED_BEHIND_UNFINISHED",
    "test_a_repeated_commit_changes_nothing_whoever_repeats_it_and_however_late",
}
"""A code and a test of the sinks' contract, which users know by their names."""


def test_no_name_has_a_word_that_a_reader_may_not_know() -> None:
    found = set()
    for file, text in files().items():
        for token in re.findall(r"\b[A-Za-z_]\w*\b", _without_text(text)):
            words = {word.lower() for part in token.split("_") for word in re.findall("[A-Z]?[a-z]+|[A-Z]+", part)}
            if words & NO_NAMES and token not in NAMED_SO:
                found.add(f"{file}: {token}")
    assert found == set()


def _without_text(source: str) -> str:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return " ".join(token.string for token in tokens if token.type == tokenize.NAME)
