"""Copies of a `spark_progress_dir`: into a savepoint unchanged, and into a new lineage as a new query.

A savepoint holds the files that its batch needs and nothing else. A new lineage is a query of its own: it has another
id, so that it can run beside the original, and no sink takes its batches for the original's. Its inboxes are written
again: each source fed by one stands at log offset 0, an entry that names a file which is never read. An operator's
metadata names the files with the schema of its state by their full paths: in a copy, those of the copy. Both kinds of
copies must be made while nothing purges the directory that they come from; the query may continue.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from rekindle.errors import StorageError
from rekindle.progress.directory import encode_file_log, read_offsets
from rekindle.progress.files import (
    at_home,
    files_needed,
    is_operator_metadata,
    is_state_data,
    log_batches,
    of_batch,
    state_folders,
)
from rekindle.progress.later_logs import later_logs
from rekindle.progress.renumbering import moved, renumbered
from rekindle.progress.state_schema import all_nullable, is_state_schema
from rekindle.storage.copying import copy_all
from rekindle.storage.folder import Folder
from rekindle.storage.port import NotFound, Store

_TRIES = 5
_START = '{"logOffset":0}'


class InboxStart(NamedTuple):
    """The entry for all that a source has read of its old inbox: log file 0 of the new inbox names the same file."""

    #: URI; no file need be there, since Spark counts it as read
    path: str
    #: its modification time in the inbox, ms: that of admission 0
    time_ms: int
    #: lines of ``offsets/<N>`` that belong to that inbox; (): the one line with the source's number. Spark reads a
    #: source that is twice in a plan only once, and writes its offset twice
    lines: tuple[int, ...] = ()


def copy_for_savepoint(source: Folder, target: Folder, batch: int) -> int:
    """Copy all that a query needs to continue after the committed `batch`; return the bytes copied.

    The query may continue, and files that only earlier batches need may be deleted meanwhile. The logs of its file
    sources may be cut at any time: if one of their files has just been replaced, they are listed again.

    Raises:
        StorageError: ``PROGRESS_BATCH_MISSING`` if `batch` is not committed, or was purged.
    """
    paths = files_needed(*source, batch)
    size = 0
    for left in reversed(range(_TRIES)):
        logs = [path for path in paths if path.startswith("sources/")]
        try:
            size = _copy_all(source, target, logs)
            break
        except StorageError as error:
            if error.code != "OBJECT_CORRUPT" or not left:
                raise
        paths = files_needed(*source, batch)
    return size + _copy_all(source, target, [path for path in paths if not path.startswith("sources/")])


def copy_without_state(
    source: Folder,
    target: Folder,
    batch: int,
    lines: Sequence[int | None] | None = None,
) -> None:
    """Copy the files that Spark compares a plan with after `batch`: no rows of state, no logs of sources.

    A query can plan a batch there that reads nothing. The original query may continue meanwhile.

    Args:
        lines: for each source of the plan its old number, None for a new source; None: all keep their numbers.

    Raises:
        StorageError: ``PROGRESS_BATCH_MISSING`` if `batch` is not committed, or was purged.
    """
    _, others = state_folders(*source)
    below = [path.removeprefix(f"{source.path}/") for path in of_batch(others, batch)]
    logs = [f"{log}/{number}" for log in ("offsets", "commits") for number in log_batches(batch)]
    try:
        _copy_all(source, target, [*logs, *below])
    except NotFound as error:
        raise StorageError("PROGRESS_BATCH_MISSING", folder=source.path, batch=batch) from error
    for number in log_batches(batch) if lines is not None else ():
        data = renumbered(read_offsets(*source, number), lines or ()).to_bytes()
        target.replace(f"offsets/{number}", data)
    target.replace("metadata", json.dumps({"id": str(uuid.uuid4())}).encode())


def copy_without_rows(source: Folder, target: Folder, batch: int, operator: int) -> None:
    """Copy a savepoint's directory with the one stateful `operator`, and without the rows of its state.

    `copy_other_state` copies the state of the other operators, which is left out here.

    Raises:
        StorageError: ``PROGRESS_BATCH_MISSING`` if `batch` is not committed.
    """
    ours = f"state/{operator}/"
    paths = [
        path
        for path in files_needed(*source, batch)
        if not path.startswith("state/") or (path.startswith(ours) and not is_state_data(path))
    ]
    _copy_all(source, target, paths)


def copy_other_state(source: Folder, target: Folder, batch: int, operator: int) -> None:
    """Copy the state of all operators except one, unchanged."""
    ours = f"state/{operator}/"
    needed = files_needed(*source, batch)
    paths = [path for path in needed if path.startswith("state/") and not path.startswith(ours)]
    _copy_all(source, target, paths)


def copy_for_lineage(
    source: Folder,
    target: Folder,
    batch: int,
    *,
    query_id: str,
    inbox_sources: Mapping[int, InboxStart],
    later_too: bool = False,
    lines: Sequence[int | None] | None = None,
) -> int:
    """Make a progress directory whose query continues after the committed `batch` of another; return the bytes written.

    Args:
        source: a progress directory, or one that `copy_for_savepoint` made.
        target: an empty folder, or the remains of an interrupted call with the same arguments.
        batch: -1 for a directory that has not run any batch.
        query_id: a UUID no other query has.
        inbox_sources: number below ``sources/`` of a source that an inbox feeds (`inputs_of_sources`) → the start of
            its new inbox. A source that had read nothing by `batch` starts with an empty inbox, log file 0 included.
        later_too: True to copy also the logs of sources after `batch`, for a planned batch that needs them.
        lines: for each source of another plan, whose query continues, its old number, None for a new source; None: the
            sources keep their numbers. The keys of `inbox_sources` are old numbers.

    Raises:
        StorageError: ``PROGRESS_BATCH_MISSING`` if `batch` is not committed, or was purged.
    """
    made = {"metadata": json.dumps({"id": query_id}).encode()}
    copied: list[str] = []
    if batch >= 0:
        made |= dict(_at_inbox_starts(*source, batch, inbox_sources, lines))
        rewritten = ("metadata", "offsets/", *(f"sources/{source}/" for source in inbox_sources))
        offsets = read_offsets(*source, batch)
        later = {} if later_too else later_logs(*source, offsets, inbox_sources.keys())
        needed = files_needed(*source, batch, later)
        copied = [path for path in needed if not path.startswith(rewritten)]
    size = 0
    for path, data in made.items():
        size += sum(target.replace(name, data) for name in _moved(path, lines))
    return size + _copy_each(source, target, ((path, name) for path in copied for name in _moved(path, lines)))


def copy_for_adoption(
    source: Folder,
    target: Folder,
    batch: int,
    lines: Sequence[int | None],
    folders: Sequence[str],
) -> int:
    """Copy a plain query's directory for a savepoint, with sources numbered as in another plan; return the bytes.

    All columns of the state become nullable: with watermark rows in the input, any column may be null.

    Args:
        lines: for each source of that plan its line in ``offsets/<N>``; None: the plain query did not have it.
        folders: for each line its folder below ``sources/``; several lines may share one.

    Raises:
        StorageError: ``PROGRESS_BATCH_MISSING`` if `batch` is not committed, or was purged.
    """
    paths = files_needed(*source, batch)
    pairs = []
    for path in paths:
        top, _, below = path.partition("/")
        names = [] if top == "offsets" else [path]
        if top == "sources":
            folder, _, name = below.partition("/")
            ours = [number for number, line in enumerate(lines) if line is not None and folders[line] == folder]
            names = [f"sources/{number}/{name}" for number in ours]
        pairs += [(path, name) for name in names]
    size = _copy_each(source, target, pairs)
    for path in filter(is_state_schema, paths):
        before = source.read(path)
        size += target.replace(path, all_nullable(before)) - len(before)
    for number in log_batches(batch):
        offsets = read_offsets(*source, number)
        ends = tuple(None if line is None else offsets.sources[line] for line in lines)
        size += target.replace(f"offsets/{number}", replace(offsets, sources=ends, names=()).to_bytes())
    return size


def _at_inbox_starts(
    store: Store,
    folder: str,
    batch: int,
    inbox_sources: Mapping[int, InboxStart],
    plan: Sequence[int | None] | None,
) -> Iterator[tuple[str, bytes]]:
    """Yield path → content of the offsets up to `batch` and of the inbox sources' logs, for a new lineage."""
    lines = {source: start.lines or (source,) for source, start in inbox_sources.items()}
    of_inboxes = set(chain.from_iterable(lines.values()))
    for number in log_batches(batch):
        offsets = read_offsets(store, folder, number)
        ends = [_START if end and line in of_inboxes else end for line, end in enumerate(offsets.sources)]
        begun = replace(offsets, sources=tuple(ends))
        yield f"offsets/{number}", (begun if plan is None else renumbered(begun, plan)).to_bytes()
    last = read_offsets(store, folder, batch)
    for source, start in inbox_sources.items():
        if any(last.sources[line] is not None for line in lines[source]):
            entry = {"path": start.path, "timestamp": start.time_ms, "batchId": 0}
            yield f"sources/{source}/0", encode_file_log([entry])


def _moved(path: str, lines: Sequence[int | None] | None) -> Sequence[str]:
    return [path] if lines is None else moved(path, lines)


def _copy_all(source: Folder, target: Folder, paths: Iterable[str]) -> int:
    return _copy_each(source, target, ((path, path) for path in paths))


def _copy_each(source: Folder, target: Folder, pairs: Iterable[tuple[str, str]]) -> int:
    """Copy files from name to name, and the operators' metadata with the paths of the target; return the bytes."""
    home = target.store.spark_path(target.path)
    as_they_are, size = list[tuple[str, str]](), 0
    for name, copy in pairs:
        if is_operator_metadata(name):
            size += target.replace(copy, at_home(source.read(name), name, home))
        else:
            as_they_are.append((source.at(name), target.at(copy)))
    return size + copy_all(source.store, target.store, as_they_are)


def replace_log(store: Store, source: str, target: str) -> None:
    """Let the log of one source say what that of another says."""
    names = set(store.names(source))
    for name in names:
        store.replace(f"{target}/{name}", store.read(f"{source}/{name}"))
    for name in set(store.names(target)) - names:
        store.delete(f"{target}/{name}")
