"""Flink in a process of its own, which runs the SQL that it is sent; started by `nexmark_flink`.

    .venv/flink/bin/python bench/flink_process.py

It imports nothing of this project, since it runs in Flink's environment, and speaks with Flink's Java by the gateway of
Flink's Python alone: all else there asks for Beam, which SQL does without. A request is a line of JSON on its input, an
answer a line of JSON on its output; the first answer says that Flink is there.

- ``{"run": [statement, ...], "settings": {...}}`` runs the last statement as a job to its end;
- ``{"start": [statement, ...], "settings": {...}}`` answers when it has been submitted;
- ``{"stop": directory}`` stops that job with a savepoint, and answers when the savepoint is complete.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from pyflink.java_gateway import get_gateway


def submit(flink: Any, statements: list[str], settings: dict[str, str]) -> Any:
    """Execute the statements in an environment without tables; the client of the job that the last one makes."""
    configuration = flink.configuration.Configuration.fromMap(settings)
    builder = flink.table.api.EnvironmentSettings.newInstance().inStreamingMode()
    tables = flink.table.api.TableEnvironment.create(builder.withConfiguration(configuration).build())
    *before, last = statements
    for statement in before:
        tables.executeSql(statement)
    return tables.executeSql(last).getJobClient().get()


def say(answer: dict[str, Any]) -> None:
    """Answer a request."""
    print(json.dumps(answer), flush=True)


def main() -> None:
    flink = get_gateway().jvm.org.apache.flink
    canonical = flink.core.execution.SavepointFormatType.CANONICAL
    say({"ready": True})
    job: Any = None
    for line in sys.stdin:
        request = json.loads(line)
        began = time.perf_counter()
        if "stop" in request:
            savepoint = job.stopWithSavepoint(False, request["stop"], canonical).get()
            say({"savepoint": savepoint, "seconds": time.perf_counter() - began})
            continue
        job = submit(flink, request.get("run") or request["start"], request["settings"])
        if "start" in request:
            say({"submitted": True})
            continue
        result = job.getJobExecutionResult().get()
        took = time.perf_counter() - began
        say({"seconds": took, "start_s": took - result.getNetRuntime() / 1000})


if __name__ == "__main__":
    main()
