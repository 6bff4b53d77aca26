"""What the tests of the server share."""

from __future__ import annotations

import httpx

http = httpx.Client(timeout=60)
"""One for all: each makes certificates ready, which takes longer than any answer."""
