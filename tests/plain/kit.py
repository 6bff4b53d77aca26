"""What plain queries of `queries.py` left behind, and what they should have said."""

from __future__ import annotations

import json
import re
import uuid
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

import rekindle as rk
from rekindle.progress.copies import copy_for_lineage
from rekindle.progress.directory import encode_file_log, last_committed, read_offsets
from rekindle.storage.folder import Folder
from rekindle.storage.local import LocalStore
from tests.plain import queries

ARCHIVES = sorted(Path(__file__).parent.glob("checkpoints/*.zip"))

COUNTED = [{"k": "a", "n": 3}, {"k": "b", "n": 3}]
"""What the queries with a state of the user's own say of the first two files."""


def names(archive: Path) -> list[str]:
    """The queries whose checkpoints an archive holds."""
    with zipfile.ZipFile(archive) as opened:
        return sorted({name.split("/")[0] for name in opened.namelist()})


class Left:
    """One of them, in a folder of its own; the files that it has read are there, which the archive lacks."""

    def __init__(self, archive: Path, name: str, folder: Path) -> None:
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(folder, [member for member in opened.namelist() if member.startswith(f"{name}/")])
        self.folder = folder / name
        self.checkpoint = self.folder / "checkpoint"
        queries.put(str(self.folder), "0.json", "1.json")
        self.emitted: list[Any] = json.loads((self.folder / "emitted.json").read_text())
        self.shape: Callable[[Any], Any] = getattr(queries, name.split("-", maxsplit=1)[0])

    def move_in(self) -> None:
        """Let the checkpoint know the files by the paths that they have here."""
        for path in self.checkpoint.glob("sources/*/*"):
            path.write_text(re.sub('"file://[^"]*/in/', f'"file://{self.folder}/in/', path.read_text()))

    def stop_in_a_batch(self, name: str) -> int:
        """Let the query have stopped in a batch that reads one more file; returns its number."""
        queries.put(str(self.folder), name)
        store, path = LocalStore(str(self.folder)), self.folder / "in" / name
        last = last_committed(store, "checkpoint")
        offsets = read_offsets(store, "checkpoint", last)
        read = json.loads(offsets.sources[0] or "")["logOffset"] + 1
        entry = {"path": f"file://{path}", "timestamp": round(path.stat().st_mtime * 1000), "batchId": read}
        store.create(f"checkpoint/sources/0/{read}", encode_file_log([entry]))
        planned = replace(offsets, sources=(json.dumps({"logOffset": read}),)).to_bytes()
        store.create(f"checkpoint/offsets/{last + 1}", planned)
        return last + 1

    def go_on(self, spark: Any, *files: str) -> list[Any]:
        """What the query itself puts out of more files, on a copy of its checkpoint."""
        emitted: list[Any] = []
        copy, store = self.folder / "copy", LocalStore(str(self.folder))
        # Not as it is: files of a state's schema are named by their whole paths.
        batch = last_committed(store, "checkpoint")
        copy_for_lineage(
            Folder(store, "checkpoint"), Folder(store, "copy"), batch, query_id=str(uuid.uuid4()), inbox_sources={}
        )
        queries.put(str(self.folder), *files)

        def keep(frame: Any, batch: int) -> None:
            emitted.extend(of(frame))

        writer = self.build(spark).writeStream.foreachBatch(keep).option("checkpointLocation", str(copy))
        writer.trigger(availableNow=True).start().awaitTermination()
        return emitted + of(rk.flush(self.build, str(copy), spark=spark).rows)

    def build(self, spark: Any) -> Any:
        """The query, as it was."""
        return self.shape(queries.stream(spark, str(self.folder)))

    def expected(self, spark: Any) -> Counter[str]:
        """All that the query has to say of its files, by Spark's batch engine."""
        if self.shape in (queries.timed, queries.timers):
            return said(COUNTED)
        return said(of(self.shape(spark.read.schema(queries.SCHEMA).json(f"{self.folder}/in"))))

    def files(self) -> dict[str, bytes]:
        """The checkpoint, to see that it is as it was."""
        return {str(path): path.read_bytes() for path in self.checkpoint.rglob("*") if path.is_file()}


def of(frame: Any) -> list[Any]:
    """Rows as what JSON makes of them."""
    return [json.loads(row.text) for row in frame.select(F.to_json(F.struct("*")).alias("text")).collect()]


def said(rows: list[Any]) -> Counter[str]:
    """Rows as a multiset: twice is twice."""
    return Counter(json.dumps(row, sort_keys=True) for row in rows)
