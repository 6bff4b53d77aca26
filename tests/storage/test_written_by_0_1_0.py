"""A storage that 0.1.0 has written still opens: it is listed, shown, and its job goes on.

`written/by_0_1_0.json` holds its files as that version wrote them: a job of two sinks that had a savepoint made and was
stopped after 14 rows, two of which are in its state. Documents gain fields; none changes its name or its meaning.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from rekindle.cli.verbs import rekindle
from rekindle.errors import RekindleError
from rekindle.storage.checkpoint_documents import read_manifest
from rekindle.storage.job_storage import JobStorage, jobs
from rekindle.storage.layout import FORMAT_VERSION
from rekindle.storage.local import LocalStore
from tests.runtime.kit import JOB, NEVER, SOURCE, World, ended

WRITTEN: dict[str, str] = json.loads((Path(__file__).parent / "written" / "by_0_1_0.json").read_text())
SAVEPOINT = "_savepoints/job-000000001-abf6ce"


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    for path, text in WRITTEN.items():
        world.storage.store.create(path, text.encode())
    return world


def test_every_document_opens(world: World) -> None:
    storage = JobStorage(LocalStore(world.location), JOB)
    assert jobs(storage.store) == [JOB]
    identity, run, result, lineage, status = (
        storage.identity(), storage.run(1), storage.result(1), storage.lineage(), storage.status()
    )  # fmt: skip
    assert identity and identity.job == JOB
    assert run and (run.run, run.lineage) == (1, 1)
    assert result and (result.state, result.checkpoint) == ("STOPPED", 2)
    assert lineage and lineage.graph == {"task": [SOURCE]}
    assert status and (status.state, status.latest_checkpoint) == ("STOPPED", 2)
    assert [manifest.checkpoint for manifest in storage.manifests()] == [2, 1]
    assert [record.inputs[SOURCE].offset["read"] for record in world.records().values()] == [10, 13, 14]
    assert not storage.control().requests, "all were answered"
    sealed = read_manifest(storage.store, SAVEPOINT)
    assert (sealed.checkpoint, sealed.savepoint, sealed.job) == (1, True, JOB)


@pytest.mark.parametrize(
    ("verb", "shown"),
    [
        (["list"], "STOPPED"),
        (["status", JOB], "STOPPED"),
        (["checkpoints", JOB], "stop"),
        (["inspect", "job/checkpoints/000000002"], "numbers"),
    ],
    ids=lambda one: one[0] if isinstance(one, list) else None,
)
def test_every_verb_shows_it(world: World, verb: list[str], shown: str) -> None:
    said = CliRunner().invoke(rekindle, [*verb, "--storage", world.location])
    assert said.exit_code == 0, said.output
    assert shown in said.output


def test_the_job_goes_on_from_it_and_ends(world: World) -> None:
    world.rows.available = 20

    result = world.run(**NEVER)

    assert (result.state, result.run, result.checkpoint) == ("FINISHED", 2, 3)
    for sink in world.sinks.values():
        assert sorted(sink.rows) == list(range(12, 20)), "the twelve before were committed by 0.1.0"


def test_the_job_takes_a_savepoint_and_stops_as_ever(world: World) -> None:
    world.rows.available, world.rows.ended = 20, False
    handle = world.start(**NEVER)
    assert Path(handle.savepoint().path, "manifest.json").exists()
    handle.stop()
    assert ended(handle).state == "STOPPED"


def test_a_storage_of_a_newer_version_is_refused_by_every_verb_and_by_a_start(world: World) -> None:
    """What holds for a version after this one holds for this one to an older."""
    store = world.storage.store
    for path in (path for path in WRITTEN if path.endswith(".json")):
        store.replace(path, re.sub('"format": [0-9]+', f'"format": {FORMAT_VERSION + 1}', WRITTEN[path]).encode())
    for verb in (["status", JOB], ["checkpoints", JOB], ["inspect", "job/checkpoints/000000002"]):
        said = CliRunner().invoke(rekindle, [*verb, "--storage", world.location])
        assert said.exit_code != 0, verb
        assert "FORMAT_NEWER" in said.output and "Upgrade Rekindle." in said.output, verb
    before = {entry.path: store.read(entry.path) for entry in store.walk("")}
    with pytest.raises(RekindleError) as caught:
        world.run(**NEVER)
    assert caught.value.code == "FORMAT_NEWER"
    assert {entry.path: store.read(entry.path) for entry in store.walk("")} == before, "nothing was changed"
