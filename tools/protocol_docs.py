"""The generated parts of docs/protocol.md: the machines of the protocol, the stories, and which test cites which paper.

The machines are drawn from the tables that the protocol goes by; tests/docs compares them with the steps that it takes
in the scenario scripts and in random walks.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from rekindle.protocol import events as e
from rekindle.protocol.life import ACTS, OPERATOR_CALLS, Act, Ending, OperatorStatus, TaskKind
from rekindle.protocol.pending_checkpoint import PHASE_STEPS, Phase
from rekindle.protocol.states import JOB_EVENTS, JOB_STEPS, ORDER_STEPS, TASK_STEPS, JobState, TaskStatus
from tools.markdown import table

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"

# --- the protocol's machines ------------------------------------------------------------------------------------------

_T = TaskStatus

Arrow = tuple[str, str, str]
"""Before, after, what takes it there; before the first and after the last: ``[*]``."""


def machine(name: str) -> str:
    """Return the diagrams of one machine, and the same as a table."""
    drawn, states = arrows(name), _APART.get(name, ())
    rows = [(_state(before), _state(after), words) for before, after, words in drawn]
    apart = [arrow for arrow in drawn if not {*arrow[:2]}.isdisjoint(states)]
    parts = [_diagram([arrow for arrow in drawn if arrow not in apart])]
    if apart:
        parts += ["Where something goes wrong:", _diagram(apart, "direction LR")]
    return "\n\n".join([*parts, table(("from", "to", "by"), rows)])


def arrows(name: str) -> list[Arrow]:
    """Return the arrows that are drawn of a machine."""
    return _MACHINES[name]()


def _state(name: str) -> str:
    return "" if name == "[*]" else f"`{name}`"


_APART = {
    "task": (_T.RESTARTING.value,),
    "job": (JobState.CANCELED.value, JobState.FAILED.value),
}
"""States that have a diagram of their own: labels meet each other where all is drawn in one, and are small."""


def _diagram(drawn: list[Arrow], *options: str) -> str:
    lines = [
        f"    {line}" for line in (*options, *(f"{before} --> {after}: {words}" for before, after, words in drawn))
    ]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


def _task_arrows() -> list[Arrow]:
    found: dict[tuple[TaskStatus, TaskStatus], list[str]] = {}
    for kind, moves in (*ORDER_STEPS.items(), *TASK_STEPS.items()):
        for before, after in moves.items():
            if before is not after:
                found.setdefault((before, after), []).append(kind.__name__)
    order = list(TaskStatus)
    pairs = sorted(found, key=lambda pair: (order.index(pair[0]), order.index(pair[1])))
    begins = [
        ("[*]", _T.STARTING.value, "StartTask"),
        ("[*]", _T.WAITING.value, "it had ended before the driver started"),
        ("[*]", _T.CLOSED.value, "it had finished, as a checkpoint says"),
    ]
    return [*begins, *((a.value, b.value, ", ".join(found[a, b])) for a, b in pairs)]


def _checkpoint_arrows() -> list[Arrow]:
    begin = ("[*]", Phase.ACKNOWLEDGING.value, "triggered")
    return [begin, *((before.value, after.value, words) for (before, after), words in PHASE_STEPS.items())]


def _job_arrows() -> list[Arrow]:
    begin = ("[*]", JobState.CREATED.value, "a driver has claimed a run")
    return [begin, *((before.value, after.value, words) for (before, after), words in JOB_STEPS.items())]


def _operator_arrows() -> list[Arrow]:
    changes = [
        (before.value, after.value, call.value)
        for call, moves in OPERATOR_CALLS.items()
        for before, after in moves.items()
        if before is not after
    ]
    return [("[*]", OperatorStatus.RUNNING.value, "an attempt begins"), *changes]


_MACHINES: dict[str, Callable[[], list[Arrow]]] = {
    "task": _task_arrows,
    "checkpoint": _checkpoint_arrows,
    "job": _job_arrows,
    "operator": _operator_arrows,
}


def legal_table(name: str) -> str:
    """Return the table of legal events, calls or facts by state, those without effect too."""
    if name == "job":
        rows = [(f"`{state.value}`", _all_but(legal)) for state, legal in JOB_EVENTS.items()]
        return table(("a job that is", "takes"), rows)
    if name == "operator":
        calls = {
            status: [call for call, moves in OPERATOR_CALLS.items() if status in moves] for status in OperatorStatus
        }
        rows = [(f"`{status.value}`", ", ".join(call.value for call in legal)) for status, legal in calls.items()]
        return table(("an operator that is", "takes"), rows)
    facts = [(f"`{kind.__name__}`", _first_line(kind), _all_but_statuses(moves)) for kind, moves in TASK_STEPS.items()]
    return table(("fact", "meaning", "illegal while the task is"), facts)


def _all_but(legal: tuple[type[e.Event], ...]) -> str:
    missing = [kind for kind in e.ALL if kind not in legal]
    if len(missing) < len(legal):
        return "every event but " + ", ".join(f"`{kind.__name__}`" for kind in missing)
    return ", ".join(f"`{kind.__name__}`" for kind in legal)


def _all_but_statuses(moves: dict[TaskStatus, TaskStatus]) -> str:
    return ", ".join(f"`{status.value}`" for status in TaskStatus if status not in moves)


def _first_line(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0]


def acts_table(_: str) -> str:
    """Join FLIP-147's two tables: each act, and its place in the order of each kind of task and ending."""
    columns = {f"{kind.value}, {ending.value}": ACTS[kind][ending] for kind in TaskKind for ending in Ending}
    rows = [(act.value, *(str(acts.index(act) + 1) if act in acts else "" for acts in columns.values())) for act in Act]
    return table(("act", *columns), rows)


# --- stories and papers -----------------------------------------------------------------------------------------------


def scenario_list(_: str) -> str:
    """List every scenario script by its title, with a link."""
    scripts = sorted((TESTS / "scenarios").glob("*.txt"))
    titles = {script: script.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ") for script in scripts}
    return "\n".join(f"- [{titles[script]}](../{script.relative_to(ROOT).as_posix()})" for script in scripts)


SECTIONS: dict[str, tuple[str, ...]] = {
    "FLIP-147, Motivation": ("Motivation",),
    "FLIP-147, Overall Design": ("Option", "Overall", "Source Operators", "Non-source Operators"),
    "FLIP-147, Operator state": ("Operator state",),
    "FLIP-147, Feature flag": ("Feature flag",),
    "FLIP-147, Checkpoint Format with Finished Tasks": ("Checkpoint Format",),
    "FLIP-147, Triggering Checkpoints After Tasks Finished": ("Triggering", "figure 2"),
    "FLIP-147, Make CheckpointBarrierHandler Support EndOfPartition": ("Barriers", "Make CheckpointBarrierHandler"),
    "FLIP-147, All the Precedent Tasks are Finished": ("All the Precedent",),
    "FLIP-147, Some of the Precedent Tasks are Finished": ("Some of the Precedent",),
    "FLIP-147, Do Not Cancel Pending Checkpoint on Finish": ("Do Not Cancel",),
    "FLIP-147, Failover and Recovery": ("Failover",),
    "FLIP-147, Changes the Operator APIs Related to Finish": (
        "Change",
        "API",
        "finish()",
        "close()",
        "termination",
        "",
    ),
    "FLIP-147, Final Checkpoint and Stopping Job With Savepoint": ("Final Checkpoint", "the tables", "42/43/44"),
    "FLIP-147, Appendix 1": ("appendix 1",),
    "FLIP-76, What it is against": ("What it is against",),
    "FLIP-76, Key points": ("Key point", "thread", "As above", "All of it"),
    "FLIP-76, Key idea": ("Key idea",),
    "FLIP-45, Checkpoint": ("Checkpoint",),
    "FLIP-45, Savepoint": ("Savepoint",),
    "FLIP-45, Conclusion": ("Conclusion",),
    "FLIP-45, Implementation": ("Implementation",),
}
"""Every section that a test may cite, in the order of the papers → how citations of it begin."""


def papers_table(_: str) -> str:
    """Return the table of the FLIPs' sections and the tests that cite each."""
    found: dict[str, list[str]] = {section: [] for section in SECTIONS}
    for module, test, citation in citations():
        words = test.removeprefix("test_").replace("_", " ")
        found.setdefault(section_of(citation), []).append(f"`{module}`: {words}")
    return table(("section", "tests"), [(section, "<br>".join(tests)) for section, tests in found.items() if tests])


def citations(tests: Path = TESTS) -> Iterator[tuple[str, str, str]]:
    """Yield module, name and citation of each test of the pure core that cites a FLIP.

    A test cites by the beginning of its docstring. Where that of its module begins with the name of a FLIP, it need not
    repeat the name.
    """
    for folder in ("graph", "protocol", "testing"):
        for path in sorted((tests / folder).glob("test_*.py")):
            module = ast.parse(path.read_text(encoding="utf-8"))
            paper = re.match(r"FLIP-\d+", ast.get_docstring(module) or "")
            for node in (one for one in module.body if isinstance(one, ast.FunctionDef)):
                doc = ast.get_docstring(node)
                if doc is None or doc.startswith(("Architecture", "Flink")) or not node.name.startswith("test_"):
                    continue
                if not doc.startswith("FLIP-") and paper:
                    doc = f"{paper[0]}, {doc}"
                if doc.startswith("FLIP-"):
                    yield path.relative_to(tests).as_posix(), node.name, " ".join(doc.split())


def section_of(citation: str) -> str:
    """Return the section of `SECTIONS` that is cited, or the citation itself where there is none."""
    paper, _, words = citation.partition(" ")
    paper = paper.rstrip(",:")
    words = re.split(r"[:;\"]", words)[0].strip(" `")
    for section, beginnings in SECTIONS.items():
        if section.startswith(f"{paper},") and any(words.startswith(one) if one else not words for one in beginnings):
            return section
    return f"{paper}, {words}"


MAKERS: dict[str, Callable[[str], str]] = {
    "machine": machine,
    "legal": legal_table,
    "acts": acts_table,
    "scenarios": scenario_list,
    "papers": papers_table,
}
"""Kind of a generated part → what makes it from its argument."""
