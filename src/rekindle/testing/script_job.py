"""The job block of a scenario script: sources, tasks, sinks and settings, a line each."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rekindle.config import Config
from rekindle.graph.job_graph import JobGraph, Sink, Source, Task
from rekindle.graph.validation import validated


class ScriptError(ValueError):
    """Raised for a line of a script that is not understood, or cannot be followed."""


_LINES = {
    "source": re.compile(r"(?P<uid>\S+) is an? (?P<bounded>un)?bounded source"),
    "task": re.compile(r"(?P<uid>\S+) reads (?P<inputs>.+?)(?:, in (?P<parallelism>\d+) subtasks)?"),
    "sink": re.compile(r"(?P<task>\S+) writes to (?P<uid>\S+)"),
    "setting": re.compile(r"(?P<key>\S+) = (?P<value>.+)"),
}


def read_job(name: str, lines: Sequence[str]) -> tuple[JobGraph, Config]:
    """Read the job that the lines of a job block define."""
    sources, tasks, sinks, settings = [], [], [], {}
    for line in lines:
        kind, match = next(((kind, m) for kind, one in _LINES.items() if (m := one.fullmatch(line))), ("", None))
        if match is None:
            raise ScriptError(f"{line!r} defines nothing")
        if kind == "source":
            sources.append(Source(uid=match["uid"], bounded=match["bounded"] is None))
        elif kind == "task":
            inputs = tuple(re.split(r", | and ", match["inputs"]))
            tasks.append(Task(uid=match["uid"], inputs=inputs, parallelism=int(match["parallelism"] or 1)))
        elif kind == "sink":
            sinks.append(Sink(uid=match["uid"], task=match["task"]))
        else:
            settings[match["key"]] = match["value"]
    graph = JobGraph(name=name, sources=tuple(sources), tasks=tuple(tasks), sinks=tuple(sinks))
    return validated(graph), Config.of(settings)
