"""Run conformance cases: what Flink's own tests assert, as data, against the protocol of this package.

::

    python -m rekindle.testing.conformance KIND FILE

FILE holds a JSON list of cases; docs/testing.md says what the cases of each KIND look like. Prints a JSON list with one
object a case, ``{"name": …, "ok": true or false, "actual": …}``. Exit code 0: all are ok; 1: some are not; 2: a wrong
command line, or a file that holds no cases.

A case that cannot be run is not ok, and its ``actual`` is ``{"error": …}``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rekindle.errors import one_line
from rekindle.testing.cases import channels, plan, restore, two_phase

Check = Callable[[dict[str, Any]], tuple[bool, object]]
"""A function that runs a case: it returns whether the protocol did what the case says, and what it did."""

KINDS: dict[str, Check] = {
    "plan": plan.check,
    "restore": restore.check,
    "aligned": channels.check_aligned,
    "unaligned": channels.check_unaligned,
    "tpc": two_phase.check,
}
"""Kind of a case → the function that runs it."""


def run(kind: str, cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run every case: one object each, with its ``name``, ``ok`` and ``actual``."""
    return [_run(KINDS[kind], case, number) for number, case in enumerate(cases)]


def _run(check: Check, case: dict[str, Any], number: int) -> dict[str, Any]:
    name = case.get("name", f"case {number}")
    try:
        ok, actual = check(case)
    except Exception as error:
        ok, actual = False, {"error": one_line(error)}
    return {"name": name, "ok": ok, "actual": actual}


def read_cases(path: Path) -> list[dict[str, Any]]:
    """Read the cases of a file; raise OSError or ValueError, with words, where it holds none."""
    cases = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        raise ValueError("it is not a JSON list of objects")
    return cases


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m rekindle.testing.conformance", description="Run conformance cases against the protocol."
    )
    parser.add_argument("kind", metavar="KIND", choices=KINDS, help=", ".join(KINDS))
    parser.add_argument("file", metavar="FILE", type=Path, help="a JSON list of cases")
    given = parser.parse_args(arguments)
    try:
        cases = read_cases(given.file)
    except (OSError, ValueError) as error:
        parser.error(f"{given.file} cannot be read: {error}")
    results = run(given.kind, cases)
    print("[" + ",\n ".join(json.dumps(result, ensure_ascii=False) for result in results) + "]")
    return 0 if all(result["ok"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
