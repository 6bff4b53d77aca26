"""``python -m rekindle``: the command without its script."""

from __future__ import annotations

from rekindle.cli import main

main()
