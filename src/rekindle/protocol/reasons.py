"""Kinds of checkpoints, and the fixed list of reasons for which one fails."""

from __future__ import annotations

from enum import Enum


class CheckpointKind(Enum):
    """A purpose of a checkpoint. When several are asked for at a time, the later one in this list is taken first."""

    PERIODIC = "periodic"
    MANUAL = "manual"
    SAVEPOINT = "savepoint"
    #: for the end of a stop or drain: all tasks wait for it
    STOP = "stop"
    #: for the natural end of the job: all tasks wait for it
    FINAL = "final"


class Reason(Enum):
    """A reason why a checkpoint failed or was not started.

    `counts`: True if it counts against checkpoint.tolerable_failures, as in Flink.
    """

    NOT_ALL_REQUIRED_TASKS_RUNNING = ("not all tasks are running", False)
    ALL_TASKS_FINISHED = ("all tasks have finished", False)
    TASKS_FINISHED_FEATURE_OFF = (
        "some tasks have finished and checkpoint.after_tasks_finish is off",
        False,
    )
    TASK_FAILURE = ("a task failed", False)
    TASK_FINISHED_MEANWHILE = ("a task finished before it had acknowledged", False)
    CHECKPOINT_SUBSUMED = ("a later one was complete before it", False)
    CHECKPOINT_DECLINED = ("a task declined it", True)
    CHECKPOINT_DECLINED_SUBSUMED = ("a task met a newer one before it had all its barriers", False)
    CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER = ("a task has learned that a producer had given it up", False)
    CHECKPOINT_DECLINED_INPUT_END_OF_STREAM = ("an input of a task ended before its barrier came", False)
    CHECKPOINT_DECLINED_TASK_CLOSING = ("a task with union state has ended in part", False)
    CHECKPOINT_EXPIRED = ("it was not complete within checkpoint.timeout", True)
    FINALIZE_CHECKPOINT_FAILURE = ("its manifest could not be written", True)
    JOB_ENDED = ("the job ended", False)

    def __init__(self, sentence: str, counts: bool) -> None:
        self.sentence = sentence
        self.counts = counts

    def explained(self, detail: str = "") -> str:
        """Return the reason as it is stored and shown."""
        return f"{self.name}: {self.sentence}" + (f" ({detail})" if detail else "")
