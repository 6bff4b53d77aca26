"""Markdown, as GitHub shows it."""

from __future__ import annotations

from collections.abc import Sequence


def table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table of cells that are Markdown themselves."""
    lines = [header, tuple("---" for _ in header), *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
