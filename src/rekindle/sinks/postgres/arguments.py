"""The arguments of a PostgreSQL sink that have to go together."""

from __future__ import annotations

from collections.abc import Sequence

from rekindle.errors import DefinitionError


def check_arguments(mode: str, key: Sequence[str], checkpoint_column: str | None) -> None:
    """Check that they do.

    Raises:
        DefinitionError: ``SINK_MODE_UNKNOWN``, ``ARGUMENT_INVALID``.
    """
    if mode not in ("append", "upsert"):
        raise DefinitionError("SINK_MODE_UNKNOWN", kind="Postgres", mode=mode, supported="append, upsert")
    if (mode == "upsert") != bool(key):
        raise DefinitionError(
            "ARGUMENT_INVALID",
            what="rk.sinks.Postgres",
            argument="key",
            value=key,
            reason="A key goes with mode='upsert', and only with it.",
            hint="Say both, or neither.",
        )
    if checkpoint_column is not None and (mode == "upsert" or not checkpoint_column):
        raise DefinitionError(
            "ARGUMENT_INVALID",
            what="rk.sinks.Postgres",
            argument="checkpoint_column",
            value=checkpoint_column,
            reason="It names a column, and goes with mode='append': what an upsert has replaced is gone.",
            hint="Leave it out, or append.",
        )
