"""What a run records of its session: only what decides values, and UTC by one name."""

from __future__ import annotations

from pyspark.sql import SparkSession

from rekindle.session.value_settings import value_settings


def test_a_session_says_its_time_zone_and_whether_it_is_ansi(spark: SparkSession) -> None:
    session = spark.newSession()
    for zone, name in (("Asia/Tokyo", "Asia/Tokyo"), ("Etc/UTC", "UTC"), ("+00:00", "UTC"), ("+01:00", "+01:00")):
        session.conf.set("spark.sql.session.timeZone", zone)
        session.conf.set("spark.sql.ansi.enabled", "false")
        assert value_settings(session) == {"spark.sql.session.timeZone": name, "spark.sql.ansi.enabled": "false"}
    session.conf.unset("spark.sql.ansi.enabled")
    assert value_settings(session)["spark.sql.ansi.enabled"] in ("true", "false"), "the default has a value, too"
