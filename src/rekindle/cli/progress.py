"""The display of `rekindle run` and `JobHandle.progress`: a table in a notebook, a live display on a terminal, a line
now and then where there is neither.

All are made from `Status` alone. The last two go to stderr, so that stdout holds the result. rich, which redraws the
display, is loaded only for a terminal.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol

from rekindle import notebook
from rekindle.cli import output, terminal, views
from rekindle.cli.clock import clock
from rekindle.runtime.signals import Stoppable, stop_on_signals
from rekindle.storage.documents.status import AT_WORK, Status, TaskStatusDocument

if TYPE_CHECKING:
    from rekindle.results import JobResult

_LOG = logging.getLogger(__name__)

POLL_S = 0.5
LINE_EVERY_MS = 5_000


class Followed(Stoppable, Protocol):
    """The part of a `JobHandle` that is needed here."""

    def status(self) -> Status:
        """Return the job's status now."""
        ...

    def wait(self, timeout_s: float | None = None) -> JobResult | None:
        """Return how the job ended, or None if it had not after `timeout_s`."""
        ...


Display = tuple[Callable[[Status], None], Callable[[str], None]]
"""Shows a status; prints a message."""

_NOTHING: Display = (lambda status: None, lambda message: None)


def follow(handle: Followed, as_log: bool = False, missed: Sequence[int] = ()) -> JobResult:
    """Show how the job goes until it has ended; Ctrl-C and SIGTERM stop it, Ctrl-C again cancels it.

    Args:
        as_log: what is shown is logged.
        missed: signals that came since it was started.
    """
    with _outlived(_display(handle, as_log)) as (show, say), stop_on_signals(handle, say, missed=missed):
        while (result := handle.wait(POLL_S)) is None:
            show(handle.status())
    return result


@contextmanager
def _outlived(display: AbstractContextManager[Display]) -> Iterator[Display]:
    """Display it if someone looks: a job outlives the terminal, the ``tee`` or the collector that it writes to."""
    drawn, (show, say) = ExitStack(), _NOTHING
    with _unheard():
        show, say = drawn.enter_context(display)
    try:
        yield _unheard()(show), _unheard()(say)
    finally:
        with _unheard():
            drawn.close()


@contextmanager
def _unheard() -> Iterator[None]:
    try:
        yield
    except OSError:
        pass
    except Exception:
        _LOG.debug("The progress cannot be shown", exc_info=True)


def _display(handle: Followed, as_log: bool) -> AbstractContextManager[Display]:
    if as_log:
        return nullcontext(_lines(_LOG.info))
    if notebook.is_here():
        return _in_notebook(handle)
    return _on_terminal() if terminal.may_be_drawn_on() else nullcontext(_plain())


@contextmanager
def _in_notebook(handle: Followed) -> Iterator[Display]:
    draw = notebook.display()

    def show(status: Status) -> None:
        draw(notebook.of_status(status))

    yield show, output.say
    show(handle.status())  # stays below the cell


@contextmanager
def _on_terminal() -> Iterator[Display]:
    """Draw while the terminal is ours alone; print lines that fit it while it is not."""
    with terminal.shared() as is_ours, ExitStack() as drawn:
        display, draws, name = _narrow(), False, ""

        def show(status: Status) -> None:
            nonlocal display, draws, name
            name = f"{status.job}: "
            if is_ours() != draws:
                drawn.close()
                draws = not draws
                display = drawn.enter_context(_live()) if draws else _narrow()
            display[0](status)

        def say(message: str) -> None:
            display[1](message if draws else f"{name}{message}")

        yield show, say


@contextmanager
def _live() -> Iterator[Display]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    fill, rest = output.bar(console.encoding)
    # What the job file prints goes above the display, unless it goes into a file anyway.
    both = sys.stdout.isatty()
    with Live(console=console, auto_refresh=False, transient=True, redirect_stdout=both) as live:

        def show(status: Status) -> None:
            # One column stays free: some terminals wrap after the last one.
            lines = views.status_lines(status, clock().now_ms(), console.width - 1, fill, rest)
            live.update(Text(output.harmless("\n".join(lines)), no_wrap=True, overflow="crop"), refresh=True)

        yield show, lambda message: console.print(output.harmless(message), markup=False)


def _narrow() -> Display:
    def say(message: str) -> None:
        output.say("\n".join(output.wrapped(message, output.width(sys.stderr) - 1, "  ")), err=True)

    return _lines(say)


def _plain() -> Display:
    return _lines(lambda message: output.say(message, err=True))


def _lines(say: Callable[[str], None]) -> Display:
    lines = LogLines()

    def show(status: Status) -> None:
        line = lines.next(status, clock().now_ms())
        if line is not None:
            say(line)

    return show, say


class LogLines:
    """Plain lines where there is no terminal: one when something has changed, at most one every few seconds.

    A change of state, an input that has ended and a failed checkpoint are shown at once.
    """

    def __init__(self) -> None:
        #: the facts that do not wait, as last shown
        self._urgent: object = None
        #: the rest, as last shown
        self._other: object = None
        self._said_ms = 0

    def next(self, status: Status, now_ms: int) -> str | None:
        """Return the line to print for `status` now, or None."""
        ended = [item.ended for task in status.tasks for item in task.inputs.values()]
        urgent = (
            status.state,
            status.checkpoints_failed,
            status.restarts,
            ended,
            [task.status for task in status.tasks],
        )
        other = (status.checkpoints_completed, [task.batch for task in status.tasks])
        due = other != self._other and now_ms - self._said_ms >= LINE_EVERY_MS
        if urgent == self._urgent and not due:
            return None
        self._urgent, self._other, self._said_ms = urgent, other, now_ms
        parts = [f"{output.short_time(now_ms)} {status.job} {status.state}"]
        if status.restarts:
            parts.append(f"restarts {status.restarts}{views.next_attempt(status, status.state, now_ms)}")
        parts += [text for text in (views.rows(status), views.state_and_lag(status)) if text]
        parts += [_task(task, at_work=status.state in AT_WORK) for task in status.tasks]
        return "; ".join([*parts, views.checkpoint_age(status, now_ms)])


def _task(task: TaskStatusDocument, *, at_work: bool) -> str:
    parts = [f"{task.uid} {task.status}, {views.batch(task.batch)}"]
    for uid, item in task.inputs.items():
        speed = views.rate(item.rows_per_second) if at_work else ""
        parts.append(f"{uid} {views.share(item)} {speed}".rstrip())
    return ", ".join([*parts, f"watermark {output.short_time(task.watermark)}"])
