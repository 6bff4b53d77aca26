"""The restart strategy: the number of tries after a failure, and the pauses between them.

Theory of operation
-------------------

One `Restarts` counts the failures of one subject: a task, the commit of transactions, the checkpoints of the job.
Failures *in a row* are those without progress in between, each less than ``restart.window`` after the try before it
began: a pause, however long, is no time in which nothing fails. The pause doubles with each of them, up to a limit, as
in Flink's exponential delay. There are as many tries as ``restart.attempts`` says; without it they never end: a server
that is away for the night is back in the morning, and the job continues by itself. An error that another try cannot
cure (`RekindleError.permanent`) ends the job at once.

This module does not know what failed, or what another try does.
"""

from __future__ import annotations

from rekindle.config import Config


class Restarts:
    """The failures of one subject: a task, the commits, the checkpoints, or the engines."""

    def __init__(self, config: Config) -> None:
        self._config = config
        #: number of failures in a row
        self.failures = 0
        #: number of tries that were granted, in all
        self.granted = 0
        #: time at which the last try began, or begins
        self._tried_ms = 0

    def failed(self, now_ms: int) -> int | None:
        """Count a failure. Return the pause before the next try, ms; None: there is no other try."""
        if now_ms - self._tried_ms >= self._config.restart_window_ms:
            self.failures = 0
        self.failures, self._tried_ms = self.failures + 1, now_ms
        attempts = self._config.restart_attempts
        if attempts is not None and self.failures > attempts:
            return None
        self.granted += 1
        # With 2 ** 40 any longest pause is reached.
        doubled_ms = self._config.restart_delay_ms * 2 ** min(self.failures - 1, 40)
        pause_ms = int(min(doubled_ms, self._config.restart_delay_max_ms))
        self._tried_ms = now_ms + pause_ms
        return pause_ms

    def resume(self, failures: int, now_ms: int) -> None:
        """Continue the count of an earlier run of this process."""
        self.failures, self._tried_ms = failures, now_ms

    def progressed(self) -> None:
        """Note progress: the next failure is the first again."""
        self.failures = 0
