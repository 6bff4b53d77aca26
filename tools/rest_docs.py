"""The generated parts of docs/rest.md and docs/metrics.md: routes, the classes of their answers, names of metrics."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

from rekindle.history import statistics
from rekindle.logs import lines
from rekindle.monitoring import checkpoint_views, contents, recent, views
from rekindle.progress import state_sizes
from rekindle.ui import actions, api, flink, metrics
from tools.markdown import table

_FIELD = re.compile(r"^    (\w+): ")


def routes_table(_: str) -> str:
    """Return the table of the addresses that can be read."""
    rows = [
        (
            f"`GET {api.PREFIX}{route.path}`",
            "".join(f"`{one.name}` " for one in route.parameters).strip() or "-",
            _kind(route.answer),
            route.what,
        )
        for route in api.ROUTES
    ]
    return table(("address", "parameters", "answer", "what"), rows)


def _kind(kind: Any) -> str:
    parts = getattr(kind, "__args__", None)
    name = (parts[0] if parts else kind).__name__
    return f"list of [{name}](#{name.lower()})" if parts else f"[{name}](#{name.lower()})"


def classes(_: str) -> str:
    """Return the fields of each class of an answer."""
    found = [
        kind
        for module in (views, recent, checkpoint_views, contents, statistics, state_sizes, lines, actions)
        for kind in vars(module).values()
        if inspect.isclass(kind) and is_dataclass(kind) and kind.__module__ == module.__name__
    ]
    return "\n\n".join(f"### {kind.__name__}\n\n{kind.__doc__}\n\n{_fields(kind)}" for kind in found)


def _fields(kind: type) -> str:
    meanings: dict[str, str] = {}
    comment: list[str] = []
    for line in inspect.getsource(kind).splitlines():
        if line.strip().startswith("#:"):
            comment.append(line.strip()[2:].strip())
        elif match := _FIELD.match(line):
            meanings[match[1]], comment = " ".join(comment), []
    rows = [
        (f"`{one.name}`", f"`{str(one.type).replace('|', 'or')}`", _cell(meanings[one.name])) for one in fields(kind)
    ]
    return table(("field", "type", "meaning"), rows)


def _cell(text: str) -> str:
    return text.replace("|", ",").replace("<", "&lt;") or "-"


def flink_table(_: str) -> str:
    """Return the table of the addresses of Flink's REST API that are answered."""
    reads = [(f"`GET {path.replace(':int', '')}`",) for path in flink.READ]
    asks = [
        ("`POST /jobs/{job}/savepoints`",),
        ("`POST /jobs/{job}/checkpoints`",),
        ("`POST /jobs/{job}/stop`",),
        ("`PATCH /jobs/{job}`, which cancels",),
    ]
    return table(("address",), [*reads, *asks])


def metrics_table(_: str) -> str:
    """Return the table of metrics that Flink has no name for."""
    rows = [(f"`{name}`", text) for name, (text, _) in {**metrics.OF_JOB, **metrics.OF_JOB_PLAIN}.items()]
    rows.append((f"`{metrics.UNREAD[0]}`", metrics.UNREAD[1]))
    own = [
        ("`rekindle_storage_up`", "1 for a storage that can be read, else 0."),
        ("`rekindle_job_state`", "With the label `state`: 1 for the state the job is in, 0 for the others."),
    ]
    return table(("metric", "meaning"), [*own, *rows])


MAKERS: dict[str, Callable[[str], str]] = {
    "routes": routes_table,
    "views": classes,
    "flink": flink_table,
    "metrics": metrics_table,
}
