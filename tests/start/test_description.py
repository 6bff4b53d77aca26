"""What a run's description says of addresses: whether they have changed, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rekindle as rk
from rekindle.config import Config
from rekindle.start.description import describe
from rekindle.storage.codec import encode


def hashes(source: Any, sink: Any) -> tuple[str | None, str | None]:
    job = rk.Job("bids")

    @job.task(job.source("bids", source))
    def clean(bids: Any) -> Any:
        return bids

    job.sink("out", clean, sink)
    definition = job.definition()
    described = describe(definition.graph, definition, Config.of({}))
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


def test_of_what_is_no_address_nothing_is_known() -> None:
    stream = rk.Stream(lambda spark: spark.readStream.format("rate").load())
    assert hashes(stream, rk.sinks.Kafka("secret:9092", "topic")) == (None, None)
