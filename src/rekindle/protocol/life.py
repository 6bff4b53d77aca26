"""Tables of the acts by which a task ends, and of the calls that are legal on its operators.

Theory of operation
-------------------

FLIP-147, "Final Checkpoint and Stopping Job With Savepoint", has two tables: for source and for non-source tasks, what
each does in order when its data ends by itself (and a final checkpoint follows), when a drain ends it, and when a plain
stop does. `ACTS` is both of them in our terms. `scheduler` and `job` decide when a task takes its next act; they follow
the table. A task with sources *and* channels does the first acts of both kinds, and continues once all of its inputs
have ended. The worst end of them is its own. Our table differs from Flink's in four places, on purpose:

- No watermark is sent on its own. EndOfData[finished=true] of all its producers *is* the end of a channel's time
  (`clock`).
- A task does not wait for EndOfPartition before it is closed. There is no network channel to keep open for those
  after it, so all tasks that may be closed are closed at the same time.
- A plain stop whose checkpoint is unaligned ends every task where it stands. No task aligns on EndOfData, and none
  waits until it is acknowledged: what lies in the channels is named by the checkpoint.
- A task that has ended is not run for the checkpoints that follow. It hears of each of them all the same, and its
  barrier stands after its last batch.

An *operator* (on Spark: the query of a subtask with its sinks, chained, so that they share one life) has a machine of
its own, `OPERATOR_CALLS`::

                 end_input(i), for each input            snapshot, commit
                    ┌────┐                                   ┌────┐
                    ▼    │                                   ▼    │
    prepare ──────► RUNNING ──finish, once all have ended──► FINISHED ──close──► CLOSED
    snapshot, commit ▲ │                                                           ▲
                └────┘ └──────────────────────close: a failure, a cancel───────────┘

- *prepare* writes rows. After ``finish()`` there are none: they would be in no checkpoint that is waited for.
- *commit* (``notifyCheckpointComplete``) may come before ``finish()`` and after it. It never comes after ``close()``:
  a task is closed only when all that it wrote is committed. What a crash has left is committed in the next run, whose
  operators are new and RUNNING, also those of a task that had finished and is not started again.
- An exception in ``finish()`` fails the attempt. The next attempt is a new operator, and begins RUNNING: "the finish()
  method is tied to the lifecycle of an Operator and it is NOT tied to the lifecycle of State". So does one that is
  restored.

This module does not know the caller, what a call does, or what time it is. Aborting and cleaning belong to the life of
a transaction (`commit`), not to that of an operator: they are legal at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import InitVar, dataclass, field
from enum import Enum
from typing import Final

from rekindle.errors import ProtocolError


class TaskKind(Enum):
    """A kind of task, by the inputs that it reads."""

    #: the sources chained into it
    SOURCE = "source"
    #: channels
    NON_SOURCE = "non-source"


class Ending(Enum):
    """A reason why the data of a task ends."""

    FINAL_CHECKPOINT = "final checkpoint"
    DRAIN = "stop with drain"
    STOP = "stop without drain"


class Act(Enum):
    """One step of a task, or one wait, on the way to its end."""

    STOP_SOURCES = "stop the sources where they stand"
    ALIGN_ON_END_OF_DATA = "read all channels to their EndOfData"
    FLUSH = "advance to the end of time and flush"
    END_INPUTS = "end_input(i) for every input"
    FINISH = "finish()"
    SEND_END_OF_DATA_FINISHED = "EndOfData[finished=true]"
    SEND_END_OF_DATA_SUSPENDED = "EndOfData[finished=false]"
    SEND_BARRIER = "take the snapshot and pass the barrier on"
    AWAIT_CHECKPOINT = "wait until the checkpoint is complete and committed"
    AWAIT_ACKNOWLEDGEMENT = "wait until all consumers have acknowledged EndOfData"
    CLOSE = "close()"
    SEND_END_OF_PARTITION = "EndOfPartition"


_GO: Final = (
    Act.SEND_BARRIER,
    Act.AWAIT_CHECKPOINT,
    Act.AWAIT_ACKNOWLEDGEMENT,
    Act.CLOSE,
    Act.SEND_END_OF_PARTITION,
)
_FINISH: Final = (Act.FLUSH, Act.END_INPUTS, Act.FINISH, Act.SEND_END_OF_DATA_FINISHED, *_GO)
_SUSPEND: Final = (Act.SEND_END_OF_DATA_SUSPENDED, *_GO)

ACTS: Final[Mapping[TaskKind, Mapping[Ending, tuple[Act, ...]]]] = {
    TaskKind.SOURCE: {
        Ending.FINAL_CHECKPOINT: _FINISH,
        Ending.DRAIN: (Act.STOP_SOURCES, *_FINISH),
        Ending.STOP: (Act.STOP_SOURCES, *_SUSPEND),
    },
    TaskKind.NON_SOURCE: {
        Ending.FINAL_CHECKPOINT: (Act.ALIGN_ON_END_OF_DATA, *_FINISH),
        Ending.DRAIN: (Act.ALIGN_ON_END_OF_DATA, *_FINISH),
        Ending.STOP: (Act.ALIGN_ON_END_OF_DATA, *_SUSPEND),
    },
}
"""Kind of task → reason of its end → its acts, in order."""


class OperatorStatus(Enum):
    """The status of an operator in one attempt of its task."""

    RUNNING = "running"
    FINISHED = "finished"
    CLOSED = "closed"


class Call(Enum):
    """A call to an operator."""

    PREPARE = "prepare"
    END_INPUT = "end_input"
    FINISH = "finish"
    SNAPSHOT = "snapshot"
    COMMIT = "commit"
    CLOSE = "close"


_S = OperatorStatus

OPERATOR_CALLS: Final[Mapping[Call, Mapping[OperatorStatus, OperatorStatus]]] = {
    Call.PREPARE: {_S.RUNNING: _S.RUNNING},
    Call.END_INPUT: {_S.RUNNING: _S.RUNNING},
    Call.FINISH: {_S.RUNNING: _S.FINISHED},
    Call.SNAPSHOT: {_S.RUNNING: _S.RUNNING, _S.FINISHED: _S.FINISHED},
    Call.COMMIT: {_S.RUNNING: _S.RUNNING, _S.FINISHED: _S.FINISHED},
    # In any status, and again when a run that ends releases its operators.
    Call.CLOSE: {_S.RUNNING: _S.CLOSED, _S.FINISHED: _S.CLOSED, _S.CLOSED: _S.CLOSED},
}
"""Call → status before → status after. Other calls are illegal."""


@dataclass(slots=True)
class OperatorLife:
    """The life of an operator in one attempt of its task; a new attempt, or a restored task, has a new one.

    Args:
        subject: name of the operator in errors.
        inputs: uids of its inputs.
    """

    subject: str
    inputs: InitVar[Iterable[str]] = ()
    status: OperatorStatus = field(default=OperatorStatus.RUNNING, init=False)
    #: inputs that have not ended
    open_inputs: set[str] = field(init=False)

    def __post_init__(self, inputs: Iterable[str]) -> None:
        self.open_inputs = set(inputs)

    def call(self, call: Call) -> None:
        """Take the step for a call; for `Call.END_INPUT` use `end_input`.

        Raises:
            ProtocolError: ``ILLEGAL_EVENT``, and nothing has changed: the table has no such step, or ``finish()`` comes
                before the end of an input.
        """
        if self.status not in OPERATOR_CALLS[call] or (call is Call.FINISH and self.open_inputs):
            raise self._illegal(call.value)
        self.status = OPERATOR_CALLS[call][self.status]

    def end_input(self, uid: str) -> None:
        """Note that one of the inputs has ended.

        Raises:
            ProtocolError: ``ILLEGAL_EVENT``, and nothing has changed: the input had ended before, the operator does not
                read it, or the operator has finished.
        """
        if self.status not in OPERATOR_CALLS[Call.END_INPUT] or uid not in self.open_inputs:
            raise self._illegal(f"{Call.END_INPUT.value}({uid})")
        self.open_inputs.remove(uid)

    def _illegal(self, event: str) -> ProtocolError:
        legal = [call.value for call, steps in OPERATOR_CALLS.items() if self.status in steps]
        waiting = f", with {', '.join(sorted(self.open_inputs))} open" if self.open_inputs else ""
        return ProtocolError(
            "ILLEGAL_EVENT",
            event=event,
            subject=self.subject,
            state=self.status.value + waiting,
            legal=", ".join(legal),
            story="",
        )
