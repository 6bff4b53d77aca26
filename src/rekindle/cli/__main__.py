"""``python -m rekindle.cli``: the command without its script."""

from __future__ import annotations

from rekindle.cli import main

main()
