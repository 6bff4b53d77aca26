"""Recognise what Kafka's clients and JDBC drivers raise where a source's server is away, or refuses.

As in `failures`, classes and conditions decide, and where an exception was raised; never the words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from rekindle.errors import InputError
from rekindle.redaction import hide
from rekindle.session.links import Link

_CLIENT = "org.apache.kafka."
_CONNECTOR = "org.apache.spark.sql.kafka010."
_DATA_LOSS = "KAFKA_DATA_LOSS"
_INSTRUCTION = re.compile(r"^.*\breason:\s*", flags=re.DOTALL | re.IGNORECASE)
"""The words of the connector before the reason."""

_OF_JDBC = re.compile(r"FAILED_JDBC(\..*)?")
"""Conditions that wrap what a JDBC driver has said, and leave it out."""

_DRIVERS = re.compile(r"\w*SQL\w*Exception")
_SPARK = "org.apache.spark."


def of_source(links: Sequence[Link], source: str) -> InputError | None:
    """Return the error of a source whose server failed where nothing but that source was asked; None for another."""
    if (of_brokers := of_kafka(links, source, beside_sinks=False)) is not None:
        return of_brokers
    said = of_driver(links)
    if said is None:
        return None
    return InputError("SOURCE_SERVER_FAILED", source=source, server="the database", reason=said)


def of_kafka(links: Sequence[Link], source: str, *, beside_sinks: bool = True) -> InputError | None:
    """Return the error of a source whose brokers failed; None where the failure is another.

    Args:
        links: of the exception, the outermost first.
        source: its uid; with others, where it is not known which of them it is.
        beside_sinks: a sink may have raised the same exceptions, from inside a batch. So those of Kafka's clients count
            where the query itself has failed, and else those that the reading part of Spark's connector has raised.
    """
    for link in links:
        if _is_data_loss(link):
            return InputError("KAFKA_DATA_LOST", source=source, reason=_line(_INSTRUCTION.sub("", link.message)))
    is_query = bool(links) and links[0].short_name == "StreamingQueryException"
    if beside_sinks and not is_query and not any(map(_is_of_reader, links)):
        return None
    clients = [link for link in links if link.name.startswith(_CLIENT) or _is_of_reader(link)]
    if not clients:
        return None
    silent = "no broker answers, " if clients[-1].name.endswith("errors.TimeoutException") else ""
    return InputError("SOURCE_SERVER_FAILED", source=source, server="Kafka", reason=silent + _said(clients[-1]))


def _is_data_loss(link: Link) -> bool:
    if link.condition:
        return link.condition.partition(".")[0] == _DATA_LOSS
    # Spark 3.5 has no condition for it.
    return link.name == "java.lang.IllegalStateException" and link.raised_by.startswith(_CONNECTOR)


def _is_of_reader(link: Link) -> bool:
    return link.raised_by.startswith(f"{_CONNECTOR}consumer.")


def of_driver(links: Sequence[Link]) -> str | None:
    """Return what a JDBC driver has said, in one line and without secrets; None where none has raised anything."""
    for outer, inner in pairwise(links):
        if _OF_JDBC.fullmatch(outer.condition):
            return _said(inner)
    for link in links:
        if _DRIVERS.fullmatch(link.short_name) and not link.name.startswith(_SPARK):
            return _said(link)
    return None


def _said(link: Link) -> str:
    return f"{link.short_name}: {_line(link.message)}"


def _line(text: str) -> str:
    # Drivers may repeat the address, with what users put into it.
    return hide(" ".join(text.split()))
