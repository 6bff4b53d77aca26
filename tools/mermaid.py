"""Fetch Mermaid, which draws the site's diagrams, into the virtual environment.

    python -m tools.mermaid        needs npm; tools/setup.sh runs it

It is too large to be kept in the repository, and a page must not fetch it from another host: tools/site.py puts it
beside the pages. To take another version, of the major one that the theme knows, change the version and the checksum.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

from tools.vendor import Library, pack

FOLDER = Path(sys.prefix) / "mermaid"
SCRIPT = "mermaid.min.js"
MERMAID = Library("mermaid", "11.17.2", {f"dist/{SCRIPT}": SCRIPT, "LICENSE": "LICENSE"})
SHA256 = "581ed7d74bd9048d0e3a91363927d72ef22942d7722546b27f7cc29e35390eb8"


def is_the_one(script: bytes) -> bool:
    """Return True if it is the script that the checksum is of."""
    return hashlib.sha256(script).hexdigest() == SHA256


def main() -> None:
    """Fetch it, unless it is there."""
    if (FOLDER / SCRIPT).is_file() and is_the_one((FOLDER / SCRIPT).read_bytes()):
        return
    with tempfile.TemporaryDirectory() as folder:
        found = pack(MERMAID, Path(folder))
    if not is_the_one(found[f"dist/{SCRIPT}"]):
        sys.exit(f"{MERMAID.name} {MERMAID.version} has another checksum than {SHA256}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for source, name in sorted(MERMAID.files.items()):
        (FOLDER / name).write_bytes(found[source])


if __name__ == "__main__":
    main()
