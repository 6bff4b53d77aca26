"""What a run's description says of addresses: whether they have changed, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rekindle as rk
from rekindle.config import Config
from rekindle.errors import SinkError
from rekindle.start.description import describe
from rekindle.storage.codec import encode
from tests.runtime.kit import NEVER, World, ended

OTHER_VALUES = (
    "{name} was {before} in the last run, and is {now} now. The query computes other values from here on; state and"
    " sinks keep the old ones."
)


def hashes(source: Any, sink: Any) -> tuple[str | None, str | None]:
    job = rk.Job("bids")

    @job.task(job.source("bids", source))
    def clean(bids: Any) -> Any:
        return bids

    job.sink("out", clean, sink)
    definition = job.definition()
    described = describe(definition.graph, definition, Config.of({}), {})
    assert b"secret" not in encode(described)
    return described.sources[0].address_hash, described.sinks[0].address_hash


def test_an_address_is_known_by_a_hash_wherever_the_job_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = hashes(rk.Files("secret/in"), rk.sinks.Parquet("secret/out"))
    assert None not in here
    assert here == hashes(
        rk.Files(str(Path("secret/in").absolute())), rk.sinks.Parquet(str(Path("secret/out").absolute()))
    )
    assert here[0] != hashes(rk.Files(["secret/in", "secret/more"]), rk.sinks.Parquet("secret/out"))[0]
    monkeypatch.chdir(tmp_path)
    elsewhere = hashes(rk.Files("secret/in"), rk.sinks.Parquet("secret/out"))
    assert elsewhere[0] != here[0] and elsewhere[1] != here[1]


def test_a_start_says_what_another_address_means_if_the_job_continues(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path)
    world.rows.available, world.rows.ended = 4, False
    sink = world.sinks["out"]

    def starts_with(place: str) -> str:
        """Start, stop, and return what the start has said of addresses."""
        caplog.clear()
        sink.places = (place,)
        handle = world.start(**NEVER)
        handle.stop()
        ended(handle)
        return " ".join(one.getMessage() for one in caplog.records if "address" in one.getMessage())

    def fails() -> None:
        raise SinkError("SINK_TARGET_INVALID", sink="out", target="mistyped", reason="it is not there")

    sink.places, sink.before["open"] = ("/mistyped",), fails
    with pytest.raises(SinkError):
        world.driver(**NEVER)
    del sink.before["open"]
    assert starts_with("/first") == "", "nothing was read or committed before"
    assert starts_with("/first") == ""
    said = starts_with("/second")
    assert said == "The address of sink out is another than in the last run. What was committed stays at the old one."


def test_a_start_says_that_the_same_query_now_computes_other_values(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path)
    world.rows.available, world.rows.ended = 4, False

    def starts_with(**values: str) -> list[str]:
        """Start, stop, and return the warnings of the start."""
        caplog.clear()
        world.engine.value_settings = values
        handle = world.start(**NEVER)
        handle.stop()
        ended(handle)
        return [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]

    assert starts_with() == [], "an older version has recorded none"
    assert starts_with(zone="UTC", ansi="true") == []
    assert starts_with(zone="UTC", ansi="true") == []
    assert starts_with(zone="Asia/Tokyo", ansi="true") == [
        OTHER_VALUES.format(name="zone", before="UTC", now="Asia/Tokyo")
    ]
    assert starts_with(zone="Asia/Tokyo", ansi="true") == []


def test_of_what_is_no_address_nothing_is_known() -> None:
    stream = rk.Stream(lambda spark: spark.readStream.format("rate").load())
    assert hashes(stream, rk.sinks.Kafka("secret:9092", "topic")) == (None, None)
