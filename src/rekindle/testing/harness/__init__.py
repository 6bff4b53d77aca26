"""Run whole jobs in tests, with rows, time, stops and crashes in the test's hand (docs/harness.md)."""

from rekindle.testing.harness.harness import JobHarness
from rekindle.testing.harness.points import CrashedError, InjectedError

__all__ = ["CrashedError", "InjectedError", "JobHarness"]
