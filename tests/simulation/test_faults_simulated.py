"""A step that fails, in a process that goes on, leaves no job that waits for ever, and no row lost or twice."""

from __future__ import annotations

import pytest

from rekindle.protocol import events as e
from rekindle.protocol.handlers import HANDLERS
from tests.simulation.lives import live_with_faults


@pytest.mark.parametrize("seed", [*range(6), 104, 441, 892])
def test_a_life_in_which_steps_fail_ends_well(seed: int) -> None:
    live_with_faults(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 1_000))
def test_many_lives_in_which_steps_fail_end_well(seed: int) -> None:
    live_with_faults(seed)


def test_such_lives_find_a_task_that_is_not_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HANDLERS, e.TaskFailed, lambda job, event: ())
    with pytest.raises(AssertionError, match="come to an end"):
        live_with_faults(2, calm_s=1_000)


@pytest.mark.parametrize("seed", [*range(12), 156, 181])
def test_a_life_in_which_an_end_is_asked_for_right_after_a_fault_ends_well(seed: int) -> None:
    live_with_faults(seed, ends=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12, 500))
def test_many_lives_in_which_ends_are_asked_for_right_after_faults_end_well(seed: int) -> None:
    live_with_faults(seed, ends=True)
