"""When a master has forgotten the application. Needs no JVM: a fake answers for Spark and its masters."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from rekindle.session.standalone import UNKNOWN, Registration

ID = "app-1"


class Gone(Exception):
    """There is no one to ask."""


class Cluster:
    """What Spark shows of its cluster.

    Args:
        looks: so often it is looked at; then no one wants to know any more.
    """

    def __init__(self, url: str = "spark://head:7077", looks: int = UNKNOWN) -> None:
        self.executors = 0
        #: what comes back through the connection that Spark has; None: it is closed
        self.said: bool | None = None
        #: master → its state and applications; without an entry it does not answer
        self.masters: dict[str, tuple[str, list[str]]] = {}
        self.asked = 0
        self._left = looks
        self._over = threading.Event()
        session: Any = SimpleNamespace(
            sparkContext=SimpleNamespace(
                master=url,
                applicationId=ID,
                _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(schedulerBackend=lambda: self)),
            ),
            _jvm=SimpleNamespace(
                org=SimpleNamespace(
                    apache=SimpleNamespace(
                        spark=SimpleNamespace(
                            rpc=SimpleNamespace(RpcAddress=SimpleNamespace(fromSparkURL=str)),
                            deploy=_module("DeployMessages$RequestMasterState$", None),
                        )
                    )
                ),
                scala=SimpleNamespace(reflect=_module("ClassTag$", SimpleNamespace(Any=lambda: None))),
            ),
        )
        self.registration = Registration(session, self._over, ask_s=0.0)

    def getExecutorIds(self) -> Any:  # noqa: N802
        self._left -= 1
        if self._left <= 0:
            self._over.set()
        return SimpleNamespace(isEmpty=lambda: not self.executors)

    def doKillExecutors(self, executors: Any) -> Any:  # noqa: N802
        assert executors.isEmpty()
        self.asked += 1
        said = self.said
        tried = SimpleNamespace(isSuccess=lambda: said is not None, get=lambda: said)
        return SimpleNamespace(isCompleted=lambda: True, value=lambda: SimpleNamespace(get=lambda: tried))

    def rpcEnv(self) -> Any:  # noqa: N802
        return SimpleNamespace(setupEndpointRef=self._reference)

    def _reference(self, address: str, _: str) -> Any:
        if address not in self.masters:
            raise Gone
        status, applications = self.masters[address]
        found = [SimpleNamespace(id=lambda one=one: one) for one in applications]
        state = SimpleNamespace(activeApps=lambda: found, status=lambda: SimpleNamespace(toString=lambda: status))
        return SimpleNamespace(askSync=lambda *_: state)

    def is_lost(self) -> bool:
        """Return what the registration says after the last look."""
        self.registration._watch()
        return self.registration.lost


def _module(name: str, it: object) -> Any:
    return SimpleNamespace(**{name: SimpleNamespace(**{"MODULE$": it})})


def test_a_master_in_force_that_does_not_know_it_time_after_time_has_forgotten_it() -> None:
    for looks in range(1, UNKNOWN + 2):
        cluster = Cluster(looks=looks)
        cluster.masters["spark://head:7077"] = "ALIVE", ["app-2"]
        assert cluster.is_lost() == (looks >= UNKNOWN)


@pytest.mark.parametrize("said", [None, False])
def test_one_that_knows_it_has_not_whatever_comes_through_the_connection_of_spark(said: bool | None) -> None:
    cluster = Cluster(looks=3 * UNKNOWN)
    cluster.said = said
    cluster.masters["spark://head:7077"] = "ALIVE", [ID]
    assert not cluster.is_lost()


@pytest.mark.parametrize("masters", [{}, {"spark://head:7077": ("RECOVERING", [])}])
def test_one_that_is_away_or_is_not_in_force_may_come_to_know_it(masters: dict[str, tuple[str, list[str]]]) -> None:
    cluster = Cluster(looks=3 * UNKNOWN)
    cluster.masters = masters
    assert not cluster.is_lost()


@pytest.mark.parametrize(("known", "lost"), [([ID], False), ([], True)])
def test_of_several_masters_the_one_in_force_counts(known: list[str], lost: bool) -> None:
    cluster = Cluster("spark://one:7077,two:7077,three:7077")
    cluster.masters = {"spark://one:7077": ("STANDBY", []), "spark://three:7077": ("ALIVE", known)}
    assert cluster.is_lost() == lost


def test_where_there_are_executors_or_the_master_says_yes_no_state_is_asked_for() -> None:
    for executors, said, asked in ((1, None, 0), (0, True, UNKNOWN)):
        cluster = Cluster()
        cluster.masters["spark://head:7077"] = "ALIVE", []
        cluster.executors, cluster.said = executors, said
        assert not cluster.is_lost()
        assert cluster.asked == asked


@pytest.mark.parametrize("url", ["local[2]", "yarn", "k8s://https://host:443"])
def test_another_kind_of_cluster_is_not_watched(url: str) -> None:
    before = threading.active_count()
    Cluster(url).registration.watch()
    assert threading.active_count() == before
