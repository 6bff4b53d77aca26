"""Fetch the JavaScript libraries of the pages of `rekindle ui`, as published, into src/rekindle/ui/static/vendor.

    python tools/vendor.py        needs npm; writes the files, their licences and VENDORED.md

The pages have no build step, and browsers know no bare module names without an inline import map, which the pages'
content security policy refuses. So the one change to a file: a bare import becomes a relative one. To take a newer
version, change the table and run this.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

VENDOR = Path(__file__).resolve().parents[1] / "src" / "rekindle" / "ui" / "static" / "vendor"


@dataclass(frozen=True)
class Library:
    """A package of the npm registry, and which of its files are taken, under which names."""

    name: str
    version: str
    files: dict[str, str]


LIBRARIES = [
    Library("preact", "11.2.0", {"dist/preact.mjs": "preact.js", "hooks/dist/hooks.mjs": "preact-hooks.js"}),
    Library("htm", "3.1.1", {"dist/htm.module.js": "htm.js"}),
    Library("uplot", "1.6.32", {"dist/uPlot.esm.js": "uplot.js", "dist/uPlot.min.css": "uplot.css"}),
    Library("@dagrejs/dagre", "3.1.3", {"dist/dagre.esm.js": "dagre.js"}),
]

CHANGES = {
    b'from"preact"': b'from"./preact.js"',  # a browser knows no bare names
    b"//# sourceMappingURL=dagre.esm.js.map\n": b"",  # the map is not shipped: a request that finds nothing
}

HEAD = """# Vendored libraries

Written by `python tools/vendor.py`, which also takes newer versions. Each file is as its package has it, except that a
bare import of `preact` is a relative one and a source map is not named. The licences stand beside the files.

| file | package | version | licence | SHA-256 |
| --- | --- | --- | --- | --- |
"""


def pack(library: Library, folder: Path) -> dict[str, bytes]:
    """Fetch a package with `npm pack`; return its files: path → content."""
    command = ["npm", "pack", "--silent", "--pack-destination", str(folder), f"{library.name}@{library.version}"]
    archive = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1]
    with tarfile.open(folder / archive) as tar:
        members = ((member, tar.extractfile(member)) for member in tar.getmembers())
        return {member.name.removeprefix("package/"): file.read() for member, file in members if file is not None}


def main() -> None:
    """Write all of it."""
    VENDOR.mkdir(parents=True, exist_ok=True)
    table = io.StringIO(HEAD)
    table.seek(0, io.SEEK_END)
    with tempfile.TemporaryDirectory() as folder:
        for library in LIBRARIES:
            found = pack(library, Path(folder))
            licence = json.loads(found["package.json"])["license"]
            short = library.name.rpartition("/")[2]
            (VENDOR / f"{short}.LICENSE").write_bytes(found["LICENSE"])
            for source, name in library.files.items():
                content = found[source]
                for old, new in CHANGES.items():
                    content = content.replace(old, new)
                (VENDOR / name).write_bytes(content)
                digest = hashlib.sha256(content).hexdigest()
                table.write(f"| `{name}` | {library.name}, `{source}` | {library.version} | {licence} | `{digest}` |\n")
    (VENDOR / "VENDORED.md").write_text(table.getvalue())


if __name__ == "__main__":
    main()
