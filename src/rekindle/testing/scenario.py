"""Scenario scripts: a story of a job, step by step, and below each step what the protocol answers.

::

    python -m rekindle.testing.scenario FILE... [--re-record]

plays every script against the protocol itself and prints how its answers differ from those in the file; exit code 0:
not at all; 1: they do; 2: a wrong command line, or a file that holds no script. ``--re-record`` writes the answers
into the file instead.

A script is a text file::

    # What the story is about. Lines like this one are for its reader.

    job bids
      bids is a bounded source
      hourly reads bids, in 2 subtasks
      hourly writes to table
      checkpoint.mode = aligned

    > the job starts
      start hourly/0
      start hourly/1

    > all start
      > hourly/0 started
      > hourly/1 started

- A *job block* says what the job consists of, with any of its settings. Another one further down is the same job,
  changed by its user; it counts from the next start on.
- A *step* begins with ``>`` and is one event, in the words of `rekindle.testing.words`; lines that begin with ``>`` and
  three spaces continue it. The indented lines below it are the answer: the commands, in their order. The writer of a
  script leaves them out and records them.
- Some steps stand for several events (`rekindle.testing.play.STEPS` lists them). Their answer has each event, indented,
  and what followed.
- Where a step does not say which batch it is about, it is the last one, or the one that was ordered.
- A step that ends in ``?`` asks, and changes nothing.

A script may start the job again: that is another driver, which knows what the step tells it the storage says.

This module knows files and lines. What a step means is known to `rekindle.testing.play`.
"""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from pathlib import Path

from rekindle.errors import RekindleError, one_line
from rekindle.testing.play import Play
from rekindle.testing.script_job import ScriptError

# --- scripts ----------------------------------------------------------------------------------------------------------


def record(script: str, play: Play | None = None) -> str:
    """Return the script with the answers that the protocol gives now.

    Args:
        play: plays the script, for callers that look at it afterwards; None: a new one.

    Raises:
        ScriptError: with the number of the line.
    """
    play, lines, made = play or Play(), deque(script.splitlines()), list[str]()
    total = len(lines)
    while lines:
        number = total - len(lines) + 1
        line = lines.popleft()
        try:
            if line.startswith("job "):
                body = [*_take(lines, "  ")]
                play.define(line.removeprefix("job ").strip(), [one.strip() for one in body])
                made += [line, *body]
            elif line.startswith("> "):
                step = [line, *_take(lines, ">   ")]
                deque(_take(lines, "  "), maxlen=0)
                answer = play.step(" ".join(one[1:].strip() for one in step))
                made += [*step, *(f"  {one}" for one in answer or ["nothing"])]
            elif not line.strip() or line.startswith("#"):
                made.append(line)
            else:
                raise ScriptError("it is no step, no answer, no comment and no job")
        except (ValueError, LookupError, RekindleError) as error:
            why = error if isinstance(error, ScriptError) else one_line(error)
            raise ScriptError(f"line {number}, {line!r}: {why}") from error
    return "\n".join([*made, ""])


def _take(lines: deque[str], prefix: str) -> Iterator[str]:
    while lines and lines[0].startswith(prefix):
        yield lines.popleft()


def difference(path: Path) -> str:
    """Return how the answers in a file differ from those of the protocol, as a diff; empty where they do not."""
    script = path.read_text(encoding="utf-8")
    recorded, given = script.splitlines(keepends=True), record(script).splitlines(keepends=True)
    return "".join(unified_diff(recorded, given, fromfile=f"{path} (recorded)", tofile="what the protocol answers"))


def re_record(path: Path) -> None:
    """Write the answers that the protocol gives into a file."""
    path.write_text(record(path.read_text(encoding="utf-8")), encoding="utf-8")


# --- the command ------------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m rekindle.testing.scenario", description="Play scenario scripts against the protocol."
    )
    parser.add_argument("files", metavar="FILE", type=Path, nargs="+", help="a script")
    parser.add_argument("--re-record", action="store_true", help="write the answers into the files")
    given = parser.parse_args(arguments)
    differences = ""
    path = given.files[0]
    try:
        for path in given.files:
            if given.re_record:
                re_record(path)
            else:
                differences += difference(path)
    except (OSError, ScriptError) as error:
        parser.error(f"{path}: {error}")
    print(differences, end="")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
