"""`make bench-sinks`, producers: what it takes to publish a checkpoint to Kafka, with one producer and with several.

The same messages, staged by Spark as the sink does it, then published by its commit; the clock runs for the commit
alone, and the lanes have been opened by a checkpoint before. To a broker on this machine, and to the same one behind a
network that takes its time (`tests/servers/distance.py`).
"""

from __future__ import annotations

import sys
import tempfile
import time
from typing import TYPE_CHECKING

import rekindle as rk
from measuring import ROOT, SETTINGS, arguments, middle, publish, settled, where
from rekindle.session.session import make_session
from rekindle.storage.open import open_store
from rekindle.testing.sink_contract import batch_of, permit

sys.path.insert(0, str(ROOT))

from tests.servers import kafka as kafka_server
from tests.servers.distance import distance

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MESSAGES, FEW, TOPIC = 1_000_000, 1_000, "bids"
PRODUCERS = (1, 4)
ROUND_TRIP_MS = 100
VALUE = """concat('{"auction":', id % 50000, ',"bidder":', id * 7, ',"price":', id * 13, ',"channel":"Google"',
    ',"url":"https://www.nexmark.com/', id, '/item.htm?query=1"}') AS v"""


def compare(rows: DataFrame, server: kafka_server.KafkaServer, bootstrap: str, runs: int) -> dict[int, list[float]]:
    """Return producers → seconds of each run; they take turns, and one round is to warm up."""
    found: dict[int, list[float]] = {producers: [] for producers in PRODUCERS}
    for number in range(runs + 1):
        for producers in PRODUCERS if number % 2 else reversed(PRODUCERS):
            server.delete_topic(TOPIC)
            server.make_topic(TOPIC, 4)
            seconds = commit(rows, rk.sinks.Kafka(bootstrap, TOPIC, key="k", value="v", producers=producers))
            if (published := len(server.messages(TOPIC))) != FEW + MESSAGES:
                sys.exit(f"bench: {published:,} messages are there")
            print(f"run {number or 'to warm up'}: {producers} of {bootstrap}: {seconds:.2f} s", flush=True)
            if number:
                found[producers].append(seconds)
    return found


def commit(rows: DataFrame, sink: rk.sinks.Kafka) -> float:
    """Return the seconds that the commit of a checkpoint takes which is not the first."""
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as folder:
        sink.stage_in(open_store(folder), "staging")
        sink.open("bench", f"out-{time.time_ns()}")
        sink.commit(sink.prepare(rows.limit(FEW), batch_of(0)), permit(1))
        made = sink.prepare(rows, batch_of(1))
        began = time.perf_counter()
        sink.commit(made, permit(2))
        seconds = time.perf_counter() - began
        sink.close()
    return seconds


def table(place: str, runs: dict[int, list[float]]) -> str:
    """Return the figures as rows of a Markdown table."""
    one = middle(runs[1])
    return "\n".join(
        f"| {place} | {producers} | {MESSAGES / middle(seconds):,.0f} | {middle(seconds):.2f} "
        f"| {min(seconds):.2f} to {max(seconds):.2f} | {one / middle(seconds):.2f} |"
        for producers, seconds in runs.items()
    )


def main() -> None:
    given = arguments("Messages a second that a commit publishes to Kafka.").parse_args()
    if why := kafka_server.why_not():
        sys.exit(f"bench: {why}")
    load_before, server = settled(), kafka_server.KafkaServer()
    spark = make_session("rekindle-bench", SETTINGS)
    rows = spark.range(MESSAGES).selectExpr("id % 50000 AS k", VALUE)
    try:
        server.start()
        near = compare(rows, server, server.bootstrap, given.runs)
        with distance(server.outer, server.inner, ROUND_TRIP_MS):
            far = compare(rows, server, server.distant, given.runs)
    finally:
        server.remove()
    text = f"""\
| broker | producers | messages/s | median s | s | speed, of one |
| --- | ---: | ---: | ---: | ---: | ---: |
{table("on this machine", near)}
{table(f"{ROUND_TRIP_MS} ms away", far)}

- medians of {given.runs} commits in turn, after one to warm up; {MESSAGES:,} messages of some 125 bytes with keys, into
  4 partitions; {ROUND_TRIP_MS} ms are there and back
{where(spark, load_before)}"""
    spark.stop()
    publish("producers", text, load_before=load_before, page=not given.no_page)


if __name__ == "__main__":
    main()
