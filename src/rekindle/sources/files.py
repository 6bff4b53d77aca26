"""`Files`: a bounded source made of files. What the user says, checked; finding the files is `sources.listing`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rekindle.errors import ConfigError, DefinitionError, StorageError
from rekindle.sources.globs import compiled
from rekindle.sources.listing import Listing, Selection, list_files, parse_time_ms
from rekindle.storage.addresses import shown
from rekindle.storage.clouds import root_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

FORMATS = ("parquet", "json", "csv", "orc", "text")

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_IN_HDFS = re.compile(r"hdfs://[A-Za-z0-9._-]*(?::[0-9]+)?/")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?=/|$)")

_SIZED = "batches are sized by the setting input.target_batch_duration."
_FROZEN = "the list of files is frozen when the job first starts."
_KEPT = "the files may be read again after a restore, so they are never moved or deleted."
_REFUSED = {
    "cleansource": _KEPT,
    "sourcearchivedir": _KEPT,
    "maxfilespertrigger": _SIZED,
    "maxbytespertrigger": _SIZED,
    "maxfileage": "no file is too old to be read; modifiedAfter leaves old ones out.",
    "latestfirst": "files are read in the order of their paths.",
    "filenameonly": "files are identified by their whole path.",
    "maxcachedfiles": _FROZEN,
    "discardcachedinputratio": _FROZEN,
    "ignoremissingfiles": "a file that vanished would be left out silently.",
    "path": "the path is the first argument.",
    "paths": "the path is the first argument.",
}
"""Option of Spark's file source, in lower case → why it is refused."""

_CHOOSING = {"pathglobfilter", "modifiedafter", "modifiedbefore", "recursivefilelookup", "basepath"}
"""Options that choose files, in lower case: they apply when the list is made, and Spark does not see them."""


@dataclass(frozen=True)
class Files:
    """A bounded source: the files at a path, listed once when the job first starts, each read once.

    They are the files that ``spark.read`` reads there: hidden ones (``_x``, ``.x``) are left out; plain subfolders are
    entered with the option ``recursiveFileLookup`` only; ``key=value`` folders give columns, and have to be the same
    for all files. A file named by several paths counts once. A file of no bytes is read as no rows in every format.

    Args:
        path: a file, folder or pattern (``*``, ``?``, ``[a-c]``, ``{a,b}``), or several; local or mounted, or below
            ``s3://bucket/``, ``gs://bucket/``, ``abfss://container@account.dfs.core.windows.net/``, ``az://container/``
            (of the account in ``AZURE_STORAGE_ACCOUNT_NAME``), ``hdfs://namenode:8020/``.
        format: one of `FORMATS`.
        schema: DDL string or StructType; None: as Spark infers it, once.
        options: of Spark's reader for this format. ``pathGlobFilter``, ``modifiedAfter``, ``modifiedBefore`` (in UTC
            where they name no zone), ``recursiveFileLookup`` and ``basePath`` apply when the files are listed.
        transform: DataFrame → DataFrame, runs below the watermark: parse the event time and filter early here.
        ordered: None: Parquet files are read in the order of their least event times, and the watermark follows what is
            not read yet, where every file has statistics of that column, `transform` does not compute it, and the tasks
            make no older rows; others are read in any order. ``"statistics"``: the same, and what cannot be is refused.
            True: the files, in the order of their paths, are in the order of event time, and such tasks are refused.
            False: they are in no order.

    Raises:
        DefinitionError: ``FORMAT_UNKNOWN``, ``FILES_OPTION_REFUSED``, ``FILES_SCHEME_UNSUPPORTED``,
            ``ARGUMENT_INVALID``; when the job starts, ``STATISTICS_UNUSABLE``.
        ConfigError: ``VALUE_INVALID`` for an option or a pattern that cannot be understood.
    """

    kind: ClassVar[str] = "Files"
    bounded: ClassVar[bool] = True

    path: str | Sequence[str]
    format: str = "parquet"
    schema: str | StructType | None = None
    options: Mapping[str, Any] | None = None
    transform: Callable[[DataFrame], DataFrame] | None = None
    ordered: bool | Literal["statistics"] | None = None

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise DefinitionError("FORMAT_UNKNOWN", format=self.format, supported=", ".join(FORMATS))
        if self.ordered not in (None, True, False, "statistics"):
            raise DefinitionError(
                "ARGUMENT_INVALID",
                what="rk.Files",
                argument="ordered",
                value=self.ordered,
                reason="It says nothing of an order.",
                hint="Use True, False, 'statistics', or leave it out.",
            )
        for option in self.options or {}:
            if reason := _REFUSED.get(option.lower()):
                raise DefinitionError("FILES_OPTION_REFUSED", option=option, reason=reason)
        for path in self.paths:
            _check_pattern("path", path)
        self._selection()  # raises what it cannot read

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths as plain local ones, relative where they were given so, or as Hadoop has them."""
        given = (self.path,) if isinstance(self.path, str) else self.path
        return tuple(_plain(path) for path in given)

    @property
    def all_options(self) -> dict[str, str]:
        """The options for Spark's batch reader on `paths`, as strings."""
        return {option: _text(value) for option, value in (self.options or {}).items()}

    @property
    def spark_options(self) -> dict[str, str]:
        """The options for a reader of the listed files: without those that choose files."""
        return {option: value for option, value in self.all_options.items() if option.lower() not in _CHOOSING}

    def list_files(self, uid: str = "files") -> Listing:
        """Look for the files, now: ``(files, partition_columns, base)``, the files sorted by path.

        Args:
            uid: of the source, for the errors.

        Raises:
            InputError: ``PATH_MISSING`` where there is nothing at a path, ``PATH_EMPTY`` where no file is left, and
                ``SCHEMA_MISMATCH`` where ``key=value`` folders differ from file to file.
        """
        return list_files(uid, self.paths, self._selection())

    def _selection(self) -> Selection:
        values = {option.lower(): value for option, value in self.all_options.items()}
        return Selection(
            name=_check_pattern("pathGlobFilter", values.get("pathglobfilter", "*")),
            after_ms=_time_ms("modifiedAfter", values.get("modifiedafter")),
            before_ms=_time_ms("modifiedBefore", values.get("modifiedbefore")),
            recursive=_flag("recursiveFileLookup", values.get("recursivefilelookup", "false")),
            base=_plain(values["basepath"]) if "basepath" in values else None,
        )


def _plain(path: str) -> str:
    """Strip ``file:``, and name a bucket as Spark does. Spark takes what follows letter by letter, without decoding,
    and so does this."""
    scheme = _SCHEME.match(path)
    if scheme is None:
        return path
    below = path[scheme.end() :].lstrip("/")
    if scheme[1] == "file":
        return f"/{below}"
    if scheme[1] in ("s3", "s3a") and _BUCKET.match(below):
        return f"s3a://{below}"
    if _IN_HDFS.match(path):
        return path
    try:
        root = root_of(path)
    except StorageError as error:
        raise DefinitionError("FILES_SCHEME_UNSUPPORTED", path=shown(path)) from error
    if root is None:
        raise DefinitionError("FILES_SCHEME_UNSUPPORTED", path=shown(path))
    return f"{root}/{'/'.join(below.split('/')[1:])}"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_pattern(key: str, pattern: str) -> re.Pattern[str]:
    try:
        return compiled(pattern)
    except ValueError as error:
        raise ConfigError("VALUE_INVALID", key=key, value=pattern, reason=error, example="'*.{json,txt}'") from None


def _time_ms(key: str, text: str | None) -> int | None:
    try:
        return None if text is None else parse_time_ms(text)
    except ValueError as error:
        raise ConfigError("VALUE_INVALID", key=key, value=text, reason=error, example="'2024-06-01T13:00:00'") from None


def _flag(key: str, text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ConfigError("VALUE_INVALID", key=key, value=text, reason="neither true nor false", example="True")
    return text.lower() == "true"
