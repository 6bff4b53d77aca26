"""The work on each batch of a query: a function for ``foreachBatch`` that can be held.

A batch beyond the hold raises: returning would let Spark commit a batch that no one has carried out. The real reason of
a failure is kept in `failure`; what is raised through Spark is one short line, because Spark's stream thread prints all
of it, several times.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from pyspark.sql import DataFrame

from rekindle.runtime.occupation import BUSY, IDLE, Occupation


class BatchHeldError(Exception):
    """Raised through Spark for a batch after the hold."""


class BatchFailedError(Exception):
    """Raised through Spark for a batch that failed; `Batches.failure` has the reason."""


class Batches(ABC):
    """The batches of one query.

    Args:
        last: last batch that was carried out, -1 for none.
    """

    def __init__(self, last: int = -1) -> None:
        self.last = last
        #: batches beyond this one raise; None: none does
        self.hold_after: int | None = None
        #: the batch that is being worked on
        self.running: int | None = None
        #: the reason for which the last batch failed
        self.failure: BaseException | None = None
        #: the query that runs, or ran last, has died of a batch that is not to run
        self.held = False
        self.occupation = Occupation(time.monotonic)

    def __call__(self, df: DataFrame, batch: int) -> None:
        """Carry out one batch; raise `BatchHeldError` or `BatchFailedError`."""
        self.running = batch
        self.occupation.enter(BUSY)
        try:
            self._refuse_held(batch)
            self._carry_out(df, batch)
        except BatchHeldError:
            self.held = True
            raise
        except BaseException as error:
            self.failure = error
            raise BatchFailedError("the reason is kept, and reported by Rekindle") from None
        finally:
            self.occupation.enter(IDLE)
            self.running = None

    def begin(self, hold_after: int | None) -> None:
        """Begin with a query that is about to start: batches after `hold_after` are held."""
        self.failure, self.held, self.hold_after = None, False, hold_after

    def is_held(self, batch: int) -> bool:
        """Return True for a batch that is not to run."""
        return self.hold_after is not None and batch > self.hold_after

    def _refuse_held(self, batch: int) -> None:
        if self.is_held(batch):
            raise BatchHeldError(f"batch {batch} is held")

    @abstractmethod
    def _carry_out(self, df: DataFrame, batch: int) -> None:
        """Carry out a batch, or raise."""
