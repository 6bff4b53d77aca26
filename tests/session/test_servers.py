"""What a person is told of a source's server that is away, or refuses. Needs no JVM."""

from __future__ import annotations

import pytest

from rekindle.session.failures import brief, translate
from rekindle.session.links import chain
from rekindle.session.servers import of_source
from tests.session.test_failures import FromSpark, Java

TIMED_OUT = "Timed out waiting for a node assignment. Call: describeTopics"
QUERY = "org.apache.spark.sql.streaming.StreamingQueryException"


def admin_timed_out() -> Java:
    cause = Java("org.apache.kafka.common.errors.TimeoutException", TIMED_OUT)
    return Java("java.util.concurrent.ExecutionException", f"org.apache.kafka... {TIMED_OUT}", cause=cause)


def died_of(cause: Java) -> FromSpark:
    return FromSpark(Java(QUERY, "Query [id = 1, runId = 2] terminated", condition="STREAM_FAILED", cause=cause))


def connect_failed(reason: str) -> FromSpark:
    said = Java("org.postgresql.util.PSQLException", reason, cause=Java("java.net.ConnectException", "refused"))
    words = "[FAILED_JDBC.CONNECTION] Failed JDBC jdbc:postgresql:*********(redacted) on the operation: connect"
    return FromSpark(Java("org.apache.spark.SparkException", words, condition="FAILED_JDBC.CONNECTION", cause=said))


def test_a_query_that_cannot_reach_its_brokers_names_the_source_and_is_tried_again() -> None:
    error = translate(died_of(admin_timed_out()), lambda path: "clicks")
    assert error is not None
    assert (error.code, error.permanent) == ("SOURCE_SERVER_FAILED", False)
    assert error.parameters["source"] == "clicks"
    assert error.parameters["reason"] == f"no broker answers, TimeoutException: {TIMED_OUT}"


def test_what_a_sink_raised_of_kafka_inside_a_batch_is_no_failure_of_a_source() -> None:
    assert translate(FromSpark(admin_timed_out()), lambda path: "clicks") is None


def test_a_reader_of_the_connector_that_gets_no_record_is_a_failure_of_the_source() -> None:
    words = "Cannot fetch record for offset 7 in 120000 milliseconds"
    reader = "org.apache.spark.sql.kafka010.consumer.InternalKafkaConsumer"
    fetching = Java("java.util.concurrent.TimeoutException", words, by=reader)
    failed = FromSpark(Java("org.apache.spark.SparkException", "Job aborted", cause=fetching))
    error = translate(failed, lambda path: "clicks")
    assert error is not None
    assert (error.code, error.parameters["reason"]) == ("SOURCE_SERVER_FAILED", f"TimeoutException: {words}")


@pytest.mark.parametrize(
    ("name", "condition", "by"),
    [
        ("org.apache.spark.sql.kafka010.KafkaIllegalStateException", "KAFKA_DATA_LOSS.START_OFFSET_RESET", ""),
        ("java.lang.IllegalStateException", "", "org.apache.spark.sql.kafka010.KafkaMicroBatchStream"),
    ],
    ids=["spark-4", "spark-3.5"],
)
def test_messages_that_are_gone_end_the_job(name: str, condition: str, by: str) -> None:
    words = "Some data may have been lost.\nset failOnDataLoss to false. Reason: Starting offset was 100, and is 150."
    error = translate(died_of(Java(name, words, condition=condition, by=by)), lambda path: "clicks")
    assert error is not None
    assert (error.code, error.permanent) == ("KAFKA_DATA_LOST", True)
    assert error.parameters["reason"] == "Starting offset was 100, and is 150."


def test_an_illegal_state_of_another_part_of_spark_is_no_lost_message() -> None:
    other = Java("java.lang.IllegalStateException", "reason: no", by="org.apache.spark.sql.execution.SparkPlan")
    assert translate(died_of(other), lambda path: "clicks") is None


@pytest.mark.parametrize(
    "reason", ["Connection to db:5432 refused.", 'FATAL: password authentication failed for user "reader"']
)
def test_the_words_of_a_jdbc_driver_are_shown_where_spark_leaves_them_out(reason: str) -> None:
    failed = connect_failed(reason)
    assert brief(failed) == f"PSQLException: {reason}"
    error = of_source(chain(failed), "orders")
    assert error is not None
    assert (error.code, error.parameters["source"]) == ("SOURCE_SERVER_FAILED", "orders")


def test_the_words_of_a_driver_come_before_the_sql_that_it_refused() -> None:
    refused = Java("org.postgresql.util.PSQLException", 'ERROR: relation "orders" does not exist')
    condition = "JDBC_EXTERNAL_ENGINE_SYNTAX_ERROR.DURING_OUTPUT_SCHEMA_RESOLUTION"
    words = f"[{condition}] The error was caused by the query {'SELECT ' * 200}"
    error = FromSpark(Java("org.apache.spark.sql.AnalysisException", words, condition=condition, cause=refused))
    assert brief(error) == 'PSQLException: ERROR: relation "orders" does not exist'


def test_a_driver_that_repeats_the_address_with_a_password_does_not_show_it() -> None:
    shown = brief(connect_failed("No server at jdbc:other://db/shop?user=u&password=hunter2secret"))
    assert "hunter2secret" not in shown
    assert "password=***" in shown


def test_what_is_of_no_server_has_no_error_of_one() -> None:
    assert of_source(chain(FromSpark(Java("java.lang.RuntimeException", "no"))), "orders") is None
