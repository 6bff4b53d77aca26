"""Jobs of one process that share a session: who stops it, and when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rekindle.session.session import make_session
from rekindle.session.sharing import Shared, is_of_user


class Process:
    """The SparkContext of a process, if it has one."""

    def __init__(self) -> None:
        self.context: Any = None

    def session(self) -> Any:
        """As ``getOrCreate``."""
        self.context = self.context or object.__new__(type("Context", (), {}))
        return SimpleNamespace(sparkContext=self.context)

    def start(self) -> Shared:
        """Start a job without a session."""
        return Shared(self.session, lambda: self.context)


def test_the_last_job_stops_the_session_that_was_made() -> None:
    process = Process()
    one, other = process.start(), process.start()
    assert one.ours and other.ours
    assert not one.end(gone=False)
    assert other.end(gone=False)


def test_a_share_that_is_given_back_twice_is_not_taken_from_another_job() -> None:
    process = Process()
    failing, other = process.start(), process.start()
    assert [failing.end(gone=False) for _ in range(3)] == [False] * 3
    assert other.end(gone=False)
    assert not other.end(gone=False)


def test_a_session_of_the_user_is_used_and_never_stopped() -> None:
    process = Process()
    process.session()
    job = process.start()
    assert not job.ours
    assert not job.end(gone=False)
    assert not job.end(gone=True)


def test_a_session_that_is_gone_is_stopped_by_the_first_and_not_again_once_it_was_replaced() -> None:
    process = Process()
    one, other = process.start(), process.start()
    assert one.end(gone=True)
    process.context = None
    new = process.start()
    assert not other.end(gone=True)
    assert new.ours and new.end(gone=False)


def test_a_session_of_the_user_keeps_its_settings_and_takes_those_that_are_said(spark: Any) -> None:
    """The session of the tests is the user's."""
    zone, partitions = (spark.conf.get(key) for key in ("spark.sql.session.timeZone", "spark.sql.shuffle.partitions"))
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        assert is_of_user()
        made = make_session("rekindle", {"spark.sql.shuffle.partitions": "7"})
        assert made.sparkContext is spark.sparkContext
        assert made.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
        assert made.conf.get("spark.sql.shuffle.partitions") == "7"
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
