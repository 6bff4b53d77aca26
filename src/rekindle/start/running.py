"""The runs of a job in this process: one, or several, one after the other, if the engine dies.

A run whose engine has died, and which may continue with another, ends without a result (`FailOver`). Then a new engine
is made, and the next run is started like any other: it resumes after the job's last batch records, and hears the
requests that its predecessor did not answer. If no next run can be started, the job ends as FAILED with ``SPARK_DIED``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from rekindle.config import Config
from rekindle.errors import DefinitionError, JobError, StorageError, one_line
from rekindle.protocol.commands import FailOver
from rekindle.protocol.restarts import Restarts
from rekindle.runtime.definition import Definition
from rekindle.runtime.driver import Driver
from rekindle.runtime.elapsed import Elapsed, system_clock
from rekindle.runtime.heartbeat import Heartbeat
from rekindle.runtime.ports import Engines
from rekindle.runtime.steps import listener
from rekindle.start.beating import beating, beating_as_it_starts
from rekindle.start.claiming import may_go_well
from rekindle.start.foreseen import IN_PYTHON, foreseen
from rekindle.start.launch import Launch
from rekindle.start.permissions import Permissions
from rekindle.start.places import check_places
from rekindle.storage.documents.runs import Result
from rekindle.storage.open import open_store

_LOOK_S = 0.2

_START_S = 600.0
"""The longest time for a new engine to start, in seconds: until then it has no lifeline that could end a hang."""

_LOG = logging.getLogger(__name__)


MODES = ("streaming", "batch")


class Running:
    """A job from its start to its end.

    Args:
        launch: the prepared launch of its first run.
        engines: the factory of the engine of each run.
        successor: makes the launch of the next run from the first run of this process and the number of engines that
            have died.
        config: settings for the number of tries with another engine, and the pauses between them.
    """

    def __init__(
        self, launch: Launch, engines: Engines, successor: Callable[[int, int], Launch], config: Config
    ) -> None:
        self._config = config
        self._successor = successor
        self._engines = engines
        self._engine = engines.make()
        begun = self._begin(launch)
        #: result of a job that had ended before this start could begin it; None: it runs
        self.ended: Result | None = None
        if isinstance(begun, Result):
            self.ended = begun
            self._engine.stop()
            return
        self._driver = begun
        #: the first run of this process
        self._since = begun.number

    def _begin(self, launch: Launch) -> Driver | Result:
        engine = self._engine
        engine.lifeline.guard()
        try:
            with foreseen(engine, launch.storage.job, IN_PYTHON), engine.quiet(), beating_as_it_starts(launch):
                begun = launch.begin(engine)
        except BaseException:
            engine.lifeline.close()
            engine.stop()
            raise
        if isinstance(begun, Result):
            engine.lifeline.close()
        return begun

    @property
    def heartbeat(self) -> Heartbeat:
        """The heartbeat of the driver in force, or of the last one."""
        return self._driver.heartbeat

    def look(self) -> None:
        """Let the driver read its requests now."""
        self._driver.look()

    @property
    def number(self) -> int:
        """The number of the run in force, or of the last one."""
        return self._driver.number

    def run(self) -> Result:
        """Run the job to its end.

        Raises:
            RekindleError: raised by `Driver.run`.
        """
        canceled = False
        try:
            while True:
                with self._engine.quiet():
                    ended = self._driver.run()
                result = self._fail_over(ended) if isinstance(ended, FailOver) else ended
                if result is not None:
                    canceled = result.state == "CANCELED"
                    return result
        finally:
            # A cancel waits for nothing: queries may still hang in the session.
            if not canceled:
                self._engine.stop()

    def _fail_over(self, over: FailOver) -> Result | None:
        """Begin the next run and return None; return the result of the job if it has ended or no try is left."""
        _LOG.warning("Spark is gone (%s); the job continues with a new session", over.reason)
        driver, elapsed, restarts = self._driver, Elapsed(), Restarts(self._config)
        restarts.resume(over.failures, elapsed.now_ms())
        pause_ms: int | None = over.delay_ms
        failed = JobError("SPARK_DIED", reason=over.reason)
        self._engine.stop()
        with beating(driver.heartbeat.beat):
            while pause_ms is not None:
                driver.heartbeat.beat()  # the next run reads there why this one has ended
                self._pause(pause_ms / 1000, elapsed)
                try:
                    return self._go_on(restarts.failures)
                except Exception as error:
                    reason = f"{over.reason}; no new session could take over: {one_line(error)}"
                    failed = JobError("SPARK_DIED", reason=reason)
                    pause_ms = restarts.failed(elapsed.now_ms()) if may_go_well(error) else None
                    if pause_ms is None or self._is_asked():
                        break  # the answer to a request is that there is no Spark
                    _LOG.warning("%s; trying again in %g s", failed.message, pause_ms / 1000)
                    driver.heartbeat.failed(failed, again_in_ms=pause_ms)
                    self._engines.forget_failed()
        return self._failed(driver, failed)

    def _go_on(self, failures: int) -> Result | None:
        """Begin the next run on an engine of its own; return the result of a job that has ended, else None."""
        late = threading.Timer(_START_S, self._engines.forget_failed)
        late.daemon = True
        late.start()
        try:
            self._engine = self._engines.make()
        finally:
            late.cancel()
        launch = self._successor(self._since, failures)
        try:
            ended = launch.prepare(None)
        except BaseException:
            self._engine.stop()
            raise
        if ended is not None:
            return ended
        begun = self._begin(launch)
        if isinstance(begun, Result):
            return begun
        self._driver = begun
        return None

    def _failed(self, driver: Driver, error: JobError) -> Result:
        storage, number = driver.storage, driver.number
        with suppress(StorageError):
            newest = storage.latest_run()
            number = newest.run if newest is not None and newest.answers(number) else number
        result = Result(run=number, state="FAILED", ended_ms=system_clock(), error=error.to_json())
        with suppress(StorageError):
            result = storage.record_result(result)
            if result.run == driver.number:
                driver.heartbeat.ended(result)
                driver.heartbeat.beat()  # without it a list in a bucket would believe the one before
        return result

    def _pause(self, seconds: float, elapsed: Elapsed) -> None:
        """Wait before the next session is made; return earlier if a request waits."""
        until_ms = elapsed.now_ms() + seconds * 1000
        while elapsed.now_ms() < until_ms:
            time.sleep(min(_LOOK_S, seconds))
            if self._is_asked():
                return

    def _is_asked(self) -> bool:
        """Return True if a request waits."""
        with suppress(StorageError):
            return bool(self._driver.storage.control(frozenset()).requests)
        return False


def launches(
    definition: Definition,
    location: str,
    config: Config,
    permissions: Permissions,
    *,
    mode: str,
    available_now: bool = False,
) -> Callable[..., Launch]:
    """Return a function that makes the launch of a run, and of the runs that continue it.

    Raises:
        DefinitionError: ``MODE_UNKNOWN``, ``BATCH_UNBOUNDED``, ``BATCH_OF_SPLITS``.
        SinkError: ``SINK_TARGET_INVALID``: a target and the storage are not apart.
        StorageError: `location` cannot be a storage, ``PLACE_NOT_KEPT``.
    """
    if mode not in MODES:
        raise DefinitionError("MODE_UNKNOWN", mode=mode)
    unbounded = [source.uid for source in definition.graph.sources if not source.bounded]
    if mode == "batch" and unbounded:
        raise DefinitionError("BATCH_UNBOUNDED", source=unbounded[0])
    divisible = [source.uid for source in definition.graph.sources if source.divisible]
    if mode == "batch" and divisible:
        raise DefinitionError("BATCH_OF_SPLITS", source=divisible[0])
    targets = [address for sink in definition.sinks.values() for address in sink.addresses]
    check_places(location, definition.graph.name, definition.sinks)
    store = open_store(location, forced=config.storage_fsync, beside=targets)
    return partial(
        Launch, definition, store, config, permissions, steps=listener(), mode=mode, available_now=available_now
    )
