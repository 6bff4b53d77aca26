"""Ask whether the master of a standalone cluster still knows an application.

A master that is started again without a recovery mode knows no application, and one that has lost the connection to a
driver forgets its application. It has the workers end executors that it does not know. Spark itself then waits for
executors forever, with a context that is not stopped: ``StandaloneAppClient`` registers once, and holds on to a
connection that is closed.

The master is asked only while there is no executor. First it is asked, through Spark's own connection, to end no
executor at all: a master that knows the application says so. Else each master is asked for its state, through a new
connection.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from pyspark.sql import SparkSession

ASK_S = 20.0
UNKNOWN = 3
"""Answers in a row that it is unknown, until it counts: of several masters, one may just be elected."""

_ANSWER_S = 10.0
_LOOK_S = 0.1

_LOG = logging.getLogger(__name__)


class Registration:
    """The registration of one session's application; a cluster of another kind is asked nothing.

    Args:
        over: set when no one wants to know any more.
    """

    def __init__(self, spark: SparkSession, over: threading.Event, ask_s: float = ASK_S) -> None:
        self._spark = spark
        self._over = over
        self._ask_s = ask_s
        context = spark.sparkContext
        master = context.master or ""
        self._masters = master.split(",") if master.startswith("spark://") else []
        self._id = context.applicationId if self._masters else ""
        #: the master has said often enough that it does not know it
        self.lost = False

    def watch(self) -> None:
        """Ask now and then, in a thread of its own: an answer may take long, and a JVM that hangs gives none."""
        if self._masters:
            threading.Thread(target=self._watch, name="spark-registration", daemon=True).start()

    def _watch(self) -> None:
        unknown = 0
        while not self._over.wait(self._ask_s):
            unknown = unknown + 1 if self._is_known() is False else 0
            self.lost = unknown >= UNKNOWN

    def _is_known(self) -> bool | None:
        """Return whether a master knows the application; None where none in force can be asked: it may come back."""
        context: Any = self._spark.sparkContext
        try:
            backend = context._jsc.sc().schedulerBackend()
            executors = backend.getExecutorIds()
            if not executors.isEmpty() or self._says_yes(backend.doKillExecutors(executors)):
                return True
            found = [apps for master in self._masters if (apps := self._applications(backend, master)) is not None]
        except Exception as error:  # these classes are Spark's own, and the JVM may be dying
            _LOG.debug("The master of the cluster cannot be asked: %s", error)
            return None
        return any(self._id in apps for apps in found) if found else None

    def _says_yes(self, answer: Any) -> bool:
        waited_s = 0.0
        while not answer.isCompleted() and waited_s < _ANSWER_S and not self._over.wait(_LOOK_S):
            waited_s += _LOOK_S
        tried = answer.value().get() if answer.isCompleted() else None
        return tried is not None and tried.isSuccess() and bool(tried.get())

    def _applications(self, backend: Any, master: str) -> list[str] | None:
        """Return what a master knows; None where it does not answer, or another one is in force."""
        jvm: Any = self._spark._jvm
        packages = jvm.org.apache.spark
        url = master if master.startswith("spark://") else f"spark://{master}"
        try:
            address = packages.rpc.RpcAddress.fromSparkURL(url)
            reference = backend.rpcEnv().setupEndpointRef(address, "Master")
            question = _the(packages.deploy, "DeployMessages$RequestMasterState$")
            state = reference.askSync(question, _the(jvm.scala.reflect, "ClassTag$").Any())
        except Exception as error:
            _LOG.debug("The master %s does not answer: %s", master, error)
            return None
        return [app.id() for app in state.activeApps()] if state.status().toString() == "ALIVE" else None


def _the(package: Any, name: str) -> Any:
    """Return an object of Scala's."""
    return getattr(getattr(package, name), "MODULE$")
