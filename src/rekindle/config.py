"""The settings of a job: one table of keys, one frozen `Config`.

A user writes a key (``checkpoint.interval``) with a readable value (``"30 seconds"``); its field has the unit in its
name (``checkpoint_interval_ms``). `docs/configuration.md` is generated from `SETTINGS`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from rekindle.errors import ConfigError, DefinitionError

ATTEMPTS_AVAILABLE_NOW = 10
"""The default of ``restart.attempts`` in a run of what is available now."""

_AS_USUAL = "as checkpoint.interval"

_UNITS_MS = {
    "ms": 1, "millisecond": 1, "s": 1_000, "sec": 1_000, "second": 1_000, "m": 60_000, "min": 60_000,
    "minute": 60_000, "h": 3_600_000, "hour": 3_600_000, "d": 86_400_000, "day": 86_400_000,
}  # fmt: skip
_UNITS_BYTES = {"b": 1, "kb": 1_000, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")


def _quantity(key: str, value: object, units: Mapping[str, int], bare: int, example: str) -> int:
    match = _QUANTITY.fullmatch(str(value))
    unit = match[2].lower() if match else ""
    scale = bare if not unit else units.get(unit) or units.get(unit.removesuffix("s"))
    if match is None or scale is None:
        reason = f"it has to be a number with a unit: {', '.join(unit for unit in units if len(unit) < 4)}"
        raise ConfigError("VALUE_INVALID", key=key, value=value, reason=reason, example=repr(example))
    return round(float(match[1]) * scale)


def duration_ms(key: str, value: object) -> int:
    """Parse ``"30 seconds"``, ``"500ms"``, ``"2 min"``, or a bare number of seconds, into milliseconds."""
    return _quantity(key, value, _UNITS_MS, 1_000, "30 seconds")


def size_bytes(key: str, value: object) -> int:
    """Parse ``"128MiB"``, ``"1 GB"``, or a bare number of bytes, into bytes."""
    return _quantity(key, value, _UNITS_BYTES, 1, "128 MiB")


def _some_bytes(key: str, value: object) -> int:
    size = size_bytes(key, value)
    if size == 0:
        raise ConfigError("VALUE_INVALID", key=key, value=value, reason="not more than nothing", example="'64 MiB'")
    return size


def _count(key: str, value: object, least: int = 0) -> int:
    try:
        number = int(str(value))
    except ValueError:
        number = least - 1
    if number < least:
        reason = f"not a whole number from {least} up"
        raise ConfigError("VALUE_INVALID", key=key, value=value, reason=reason, example="'3'")
    return number


def _count_or_unlimited(key: str, value: object) -> int | None:
    return None if value in (None, "unlimited") else _count(key, value)


def _some_time(key: str, value: object) -> int:
    time_ms = duration_ms(key, value)
    if time_ms == 0:
        raise ConfigError("VALUE_INVALID", key=key, value=value, reason="not more than nothing", example="'1 hour'")
    return time_ms


def _positive(key: str, value: object) -> int:
    return _count(key, value, least=1)


def _flag(key: str, value: object) -> bool:
    text = str(value).lower()
    if text not in {"true", "false"}:
        raise ConfigError("VALUE_INVALID", key=key, value=value, reason="neither true nor false", example="'true'")
    return text == "true"


def _choice(*options: str) -> Callable[[str, object], str]:
    def parse(key: str, value: object) -> str:
        if value not in options:
            reason = f"not one of {', '.join(options)}"
            raise ConfigError("VALUE_INVALID", key=key, value=value, reason=reason, example=repr(options[0]))
        return str(value)

    return parse


def _setting(key: str, default: Any, parse: Callable[[str, object], Any], doc: str) -> Any:
    return field(default=default, metadata={"key": key, "parse": parse, "doc": doc})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings of a job, parsed. Build it with `Config.of`."""

    checkpoint_interval_ms: int = _setting(
        "checkpoint.interval",
        30_000,
        duration_ms,
        "Time between periodic checkpoints; one that would equal the last is left out. 0 turns them off.",
    )
    checkpoint_interval_during_backlog_ms: int | None = _setting(
        "checkpoint.interval_during_backlog",
        None,
        lambda key, value: None if value in (None, _AS_USUAL) else duration_ms(key, value),
        "The same while a task reads a history that a live stream continues; 0 takes none until that is read.",
    )
    checkpoint_mode: str = _setting(
        "checkpoint.mode",
        "unaligned",
        _choice("unaligned", "aligned"),
        "Unaligned barriers overtake the data in channels; aligned ones do not.",
    )
    checkpoint_aligned_timeout_ms: int = _setting(
        "checkpoint.aligned_timeout",
        0,
        duration_ms,
        "An aligned checkpoint that takes longer continues unaligned; with 0 it stays aligned.",
    )
    checkpoint_max_concurrent: int = _setting(
        "checkpoint.max_concurrent", 1, _positive, "Aligned checkpoints that may be under way at the same time."
    )
    checkpoint_timeout_ms: int = _setting(
        "checkpoint.timeout",
        600_000,
        duration_ms,
        "A checkpoint that the tasks have not acknowledged by then is aborted.",
    )
    checkpoint_min_pause_ms: int = _setting(
        "checkpoint.min_pause",
        0,
        duration_ms,
        "Least time between the end of one checkpoint and the next periodic one.",
    )
    checkpoint_retained: int = _setting(
        "checkpoint.retained", 3, _count, "Completed checkpoints that are kept while the job runs."
    )
    checkpoint_tolerable_failures: int = _setting(
        "checkpoint.tolerable_failures",
        0,
        _count,
        "Checkpoints that may fail in a row before the tasks are started again.",
    )
    checkpoint_after_tasks_finish: bool = _setting(
        "checkpoint.after_tasks_finish",
        True,
        _flag,
        "Continue to take checkpoints when some tasks have finished (FLIP-147).",
    )
    backlog_mode: str = _setting(
        "backlog.mode",
        "stream",
        _choice("stream", "auto", "batch"),
        "The beginning of a task that reads a history and a live stream: it streams both (stream), or it computes the "
        "history as a batch, where it can (auto) or in any case (batch: a start is refused where it cannot).",
    )
    channel_max_in_flight_bytes: int = _setting(
        "channel.max_in_flight_bytes",
        1 << 30,
        size_bytes,
        "A task waits before it writes while the slowest task that reads it has more than this still to read.",
    )
    channel_segment_bytes: int = _setting(
        "channel.segment_bytes",
        64 << 20,
        _some_bytes,
        "Approximate size of the Parquet files between tasks, where a batch is large enough.",
    )
    input_target_batch_duration_ms: int = _setting(
        "input.target_batch_duration",
        5_000,
        duration_ms,
        "Duration that batches of file inputs should have; their size is adapted to it. The last one of a history may "
        "take half as long again.",
    )
    restart_attempts: int | None = _setting(
        "restart.attempts",
        None,
        _count_or_unlimited,
        "Tries after failures in a row before the job fails: of a task, of a commit, or, where too many checkpoints "
        "have failed, of the whole job. Progress resets the count. In a run of what is available now the default is "
        f"{ATTEMPTS_AVAILABLE_NOW}: about five minutes with the default pauses.",
    )
    restart_window_ms: int = _setting(
        "restart.window",
        3_600_000,
        _some_time,
        "A failure that comes this long after a try began does not count as in a row with the one before.",
    )
    restart_delay_ms: int = _setting(
        "restart.delay", 1_000, duration_ms, "Pause before the first restart; doubles with each failure in a row."
    )
    restart_delay_max_ms: int = _setting("restart.delay_max", 60_000, duration_ms, "Longest pause before a restart.")
    state_partitions: int = _setting(
        "state.partitions",
        0,
        _count,
        "Partitions of each task's state, from its first run on; 0 leaves them unchanged, and a first run uses "
        "spark.sql.shuffle.partitions. Only a start from a checkpoint or savepoint can change the number.",
    )
    storage_fsync: bool = _setting(
        "storage.fsync",
        True,
        _flag,
        "With a directory as storage, each checkpoint is forced to the disk, with all files that it needs.",
    )
    log_level: str = _setting(
        "log.level", "info", _choice("debug", "info", "warning", "error"), "Lowest level that the log of a run keeps."
    )
    drain_max_rounds: int = _setting(
        "drain.max_rounds",
        10,
        _count,
        "Flushes that a drain tries at most, while timers that a flush has set keep firing.",
    )

    @classmethod
    def of(cls, values: Mapping[str, object] | None = None, *, available_now: bool = False) -> Config:
        """Parse ``{"checkpoint.interval": "10 s", ...}``; unknown keys and bad values raise `ConfigError`.

        Args:
            available_now: True for a run of what is available now, which does not try without end by itself.
        """
        parsed: dict[str, Any] = {"restart_attempts": ATTEMPTS_AVAILABLE_NOW} if available_now else {}
        for key, value in _items("config", values or {}):
            setting = SETTINGS.get(key)
            if setting is None:
                close = difflib.get_close_matches(str(key), SETTINGS)
                hint = f" Did you mean {close[0]!r}?" if close else ""
                raise ConfigError("KEY_UNKNOWN", key=key, hint=hint, settings=", ".join(close or SETTINGS))
            parsed[setting.name] = setting.metadata["parse"](key, value)
        config = cls(**parsed)
        if config.checkpoint_max_concurrent != 1 and config.checkpoint_mode == "unaligned":
            raise ConfigError(
                "VALUE_INVALID",
                key="checkpoint.max_concurrent",
                value=config.checkpoint_max_concurrent,
                reason="unaligned checkpoints go one at a time; set checkpoint.mode to aligned, or leave it",
                example="'1'",
            )
        return config

    def shown(self) -> dict[str, str]:
        """Return every setting as a user would write it; none of them is a secret."""
        return {key: shown(item.name, getattr(self, item.name)) for key, item in SETTINGS.items()}


def _items(argument: str, settings: object) -> Iterable[tuple[str, object]]:
    if not isinstance(settings, Mapping):
        hint = f"Write {argument}={{'name': 'value'}}."
        reason = "It is no mapping of names to values."
        raise DefinitionError(
            "ARGUMENT_INVALID", what="The job", argument=argument, value=settings, reason=reason, hint=hint
        )
    return settings.items()


def texts(settings: Mapping[str, object]) -> dict[str, str]:
    """Return settings of Spark as texts: a number or a bool may be given as such, as to PySpark's own builder."""
    found = {}
    for key, value in _items("spark_config", settings):
        if not isinstance(value, (str, bool, int, float)):
            example = "'2g'"
            raise ConfigError("VALUE_INVALID", key=key, value=value, reason="not a text or a number", example=example)
        found[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


_SHOWN_MS = ((60_000, "minute"), (1_000, "second"), (1, "millisecond"))
_SHOWN_BYTES = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("bytes", 1))


def shown(name: str, value: object) -> str:
    """Return the value of a field of `Config` as a user would write it."""
    if value is None:
        return "unlimited" if name == "restart_attempts" else _AS_USUAL
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and name.endswith("_bytes"):
        return next(f"{value // size} {unit}" for unit, size in _SHOWN_BYTES if value % size == 0)
    if isinstance(value, int) and name.endswith("_ms"):
        size, unit = next(one for one in _SHOWN_MS if value % one[0] == 0) if value else (1, "second")
        return f"{value // size} {unit}{'' if value == size else 's'}"
    return str(value)


SETTINGS = {item.metadata["key"]: item for item in fields(Config)}
"""Key → field of `Config`, with its parser and description in the metadata."""
