"""The end of a job: how it begins to stop; its result is decided here, then recorded, and then answered to requests."""

from __future__ import annotations

from rekindle.protocol import commands as c
from rekindle.protocol.ending import Error, Stop
from rekindle.protocol.job_parts import JobParts
from rekindle.protocol.reasons import Reason
from rekindle.protocol.requests import STOPPING, refused_checkpoint
from rekindle.protocol.states import JobState

_Commands = tuple[c.Command, ...]


def stop_with(job: JobParts, stop: Stop) -> _Commands:
    """Let a stop that is in force begin: the sources end where they stand, and checkpoints that wait are refused."""
    job.become(JobState.STOPPING)
    refused = (refused_checkpoint(one.request, STOPPING) for one in job.coordinator.schedule.take_queue())
    return (*refused, *job.scheduler.stop_sources(stop, job.now_ms))


def fail(job: JobParts, code: str, **parameters: object) -> _Commands:
    """End the job as failed, with this error."""
    return end(job, JobState.FAILED, error=(code, parameters))


def end(job: JobParts, state: JobState, *, error: Error | None = None, waiting: Error | None = None) -> _Commands:
    """Decide the result of the job; return the command to record it, after those that abort its checkpoints.

    Args:
        error: the error of the result; None: the job ends well.
        waiting: the error in the answers to requests that are still open; None: `error`.
    """
    aborted = job.coordinator.give_up(job.now_ms, Reason.JOB_ENDED)
    answer = waiting or error
    job.answers.overtaken(
        answer,
        under_way=[
            *(one.checkpoint for one in job.coordinator.settlement.take_settled()),
            *job.coordinator.pending.values(),
        ],
        queue=job.coordinator.schedule.queue,
        sealing=job.coordinator.settlement.completed.sealing.values(),
    )
    job.become(state)
    savepoint = job.answers.end(answer, job.coordinator.settlement.completed.latest)
    result = c.RecordResult(
        state=state.value,
        checkpoint=job.coordinator.settlement.completed.latest,
        savepoint=savepoint,
        notes=tuple(job.answers.notes),
        error=error,
    )
    return (*aborted, result)
