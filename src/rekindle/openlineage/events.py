"""The events of one run, as OpenLineage's client has them. Pure: made of what is handed in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import error_message_run, job_type_job, processing_engine_run

from rekindle.openlineage.datasets import Dataset
from rekindle.storage.documents.runs import Result
from rekindle.version import VERSION

PRODUCER = "https://pypi.org/project/rekindle"

_ENDS = {"CANCELED": RunState.ABORT, "FAILED": RunState.FAIL}
"""State in which a run has ended → state of OpenLineage; all others are COMPLETE: it ended as it was asked to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """The facts that all events of a run state."""

    job: Dataset
    #: of this very job: another of the same name has another
    identity: str
    run: int
    mode: str
    engine: str
    inputs: tuple[Dataset, ...]
    outputs: tuple[Dataset, ...]


class RunEvents:
    """A maker of the events of one run.

    Args:
        redact: hides secrets in the text of an error.
    """

    def __init__(self, facts: RunFacts, redact: Callable[[str], str]) -> None:
        self._facts = facts
        self._redact = redact
        self._id = str(uuid5(NAMESPACE_URL, f"{facts.job.namespace}/{facts.job.name}/{facts.identity}/{facts.run}"))

    def started(self, now_ms: int) -> RunEvent:
        """Return the event of a run that has begun."""
        return self._event(RunState.START, now_ms)

    def running(self, now_ms: int) -> RunEvent:
        """Return the event of a completed checkpoint: what was written until then can be seen."""
        return self._event(RunState.RUNNING, now_ms)

    def ended(self, result: Result) -> RunEvent:
        """Return the event of a run that has ended."""
        error = result.error
        text = "" if error is None else f"[{error['code']}] {error['message']}"
        return self._event(_ENDS.get(result.state, RunState.COMPLETE), result.ended_ms, text)

    def broken_off(self, now_ms: int, error: str) -> RunEvent:
        """Return the event of a driver that has ended by an error, and so cannot say how the run ends."""
        return self._event(RunState.FAIL, now_ms, error)

    def _event(self, state: RunState, at_ms: int, error: str = "") -> RunEvent:
        facts = self._facts
        of_run: dict[str, Any] = {
            "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
                version=facts.engine, name="spark", openlineageAdapterVersion=VERSION, producer=PRODUCER
            )
        }
        if error:
            of_run["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                message=self._redact(error), programmingLanguage="PYTHON", producer=PRODUCER
            )
        kind = job_type_job.JobTypeJobFacet(
            processingType=facts.mode.upper(), integration="REKINDLE", jobType="JOB", producer=PRODUCER
        )
        return RunEvent(
            eventType=state,
            eventTime=datetime.fromtimestamp(at_ms / 1000, timezone.utc).isoformat(),
            run=Run(runId=self._id, facets=of_run),
            job=Job(namespace=facts.job.namespace, name=facts.job.name, facets={"jobType": kind}),
            inputs=[InputDataset(namespace=one.namespace, name=one.name) for one in facts.inputs],
            outputs=[OutputDataset(namespace=one.namespace, name=one.name) for one in facts.outputs],
            producer=PRODUCER,
        )
