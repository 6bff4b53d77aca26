"""The restart strategy: whether what failed is tried again, and after which pause.

Theory of operation
-------------------

One `Restarts` counts the failures of one thing: a task, the commit of transactions, the checkpoints of the job.
Failures *in a row* are those without progress in between, each less than ``restart.window`` after the one before. The
pause doubles with each of them, up to a limit, as in Flink's exponential delay. There are as many tries as
``restart.attempts`` says, and no end of them unless it is set: a server that is away for the night is back in the
morning, and no one has to see to it. What trying again cannot cure (`RekindleError.permanent`) ends the job at once.

This module does not know what failed, nor what trying again means.
"""

from __future__ import annotations

from rekindle.config import Config


class Restarts:
    """The failures of one thing."""

    def __init__(self, config: Config) -> None:
        self._config = config
        #: in a row
        self.failures = 0
        #: tries that were granted, in all
        self.granted = 0
        self._failed_ms = 0

    def failed(self, now_ms: int) -> int | None:
        """Take in a failure. Return the pause before the next try, ms; None where there is to be none."""
        if now_ms - self._failed_ms >= self._config.restart_window_ms:
            self.failures = 0
        self.failures, self._failed_ms = self.failures + 1, now_ms
        attempts = self._config.restart_attempts
        if attempts is not None and self.failures > attempts:
            return None
        self.granted += 1
        # Beyond 2 ** 40 the longest pause has come long ago, whatever it is.
        doubled_ms = self._config.restart_delay_ms * 2 ** min(self.failures - 1, 40)
        return int(min(doubled_ms, self._config.restart_delay_max_ms))

    def resume(self, failures: int, now_ms: int) -> None:
        """Continue to count where another run of this process has stopped."""
        self.failures, self._failed_ms = failures, now_ms

    def progressed(self) -> None:
        """It has got on: the next failure is the first again."""
        self.failures = 0
