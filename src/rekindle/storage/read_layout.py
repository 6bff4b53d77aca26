"""The paths of splits given to subtasks, of reads of custom sources, and of preludes: this continues `layout`."""

from __future__ import annotations


def splits(name: str, uid: str, lineage_number: int, source_uid: str) -> str:
    """Return the folder of the log of what the subtasks of a task were given of one source."""
    return f"{name}/tasks/{uid}/splits/{lineage_number:06d}/{source_uid}"


def split_assignment(splits_folder: str, number: int) -> str:
    return f"{splits_folder}/{number:06d}.json"


def splits_given(splits_folder: str, number: int) -> str:
    """Return the path of an entry in the log of which subtask reads which splits, in the folder `splits`."""
    return f"{splits_folder}/{number:06d}.given.json"


def reads_of_sources(subtask_folder: str) -> str:
    """Return the folder in which the folders `reads` are."""
    return f"{subtask_folder}/reads"


def reads(subtask_folder: str, source_uid: str) -> str:
    """Return the folder of what the subtask has read of a custom source; in it are `split_read` and `staged_rows`."""
    return f"{subtask_folder}/reads/{source_uid}"


def split_read(reads_folder: str, number: int) -> str:
    return f"{reads_folder}/{number:09d}.json"


def staged_rows(reads_folder: str, number: int, attempt: str) -> str:
    """Return the folder of the rows of one attempt at a read."""
    return f"{reads_folder}/{number:09d}-{attempt}"


def prelude(subtask_folder: str) -> str:
    return f"{subtask_folder}/prelude.json"


def prelude_folder(subtask_folder: str) -> str:
    """Return the folder of what a prelude reads; inboxes are laid out in it as in the folder of a subtask."""
    return f"{subtask_folder}/prelude"


def prelude_attempt(subtask_folder: str, attempt: str) -> str:
    """Return the folder of what one attempt at the copies of live sources has made."""
    return f"{subtask_folder}/prelude/{attempt}"


def prelude_copy(subtask_folder: str, attempt: str, source_uid: str) -> str:
    """Return the folder of what a live source had when the job started; `prelude_progress` is beside it."""
    return f"{subtask_folder}/prelude/{attempt}/rows/{source_uid}"


def prelude_progress(subtask_folder: str, attempt: str, source_uid: str) -> str:
    """Return the checkpoint location of the query that makes the copy."""
    return f"{subtask_folder}/prelude/{attempt}/progress/{source_uid}"
