"""Compile the only Java in Rekindle, `LocalFiles`, into the jar that the package contains.

    python tools/local_files.py

Needs ``javac``; the Hadoop that it is compiled against is PySpark's. The same compiler makes the same bytes, so a test
finds a jar that is not of its source.
"""

from __future__ import annotations

import subprocess
import tempfile
import zipfile
from pathlib import Path

import pyspark

from rekindle.session.local_files import JAR

SOURCE = JAR.with_name("LocalFiles.java")
RELEASE = "8"
"""The oldest Java that a supported Spark runs on: 3.5's."""
MANIFEST = "META-INF/MANIFEST.MF"
COMPILER = "Compiled-By"
"""Entry of the manifest: the compiler's version."""


def compiler() -> str | None:
    """Return the version of the compiler here, like ``javac 17.0.15``; None without one."""
    try:
        return subprocess.run(["javac", "-version"], capture_output=True, text=True, check=True).stdout.strip()
    except OSError:
        return None


def compiled() -> dict[str, bytes]:
    """Compile it; return the classes by their names in the jar."""
    known = Path(pyspark.__file__).with_name("jars") / "*"
    with tempfile.TemporaryDirectory() as folder:
        options = ["--release", RELEASE, "-g:none", "-Xlint:-options", "-cp", str(known), "-d", folder]
        subprocess.run(["javac", *options, str(SOURCE)], check=True)
        return {str(each.relative_to(folder)): each.read_bytes() for each in sorted(Path(folder).rglob("*.class"))}


def contents() -> dict[str, bytes]:
    """Return the files of the jar as it is."""
    with zipfile.ZipFile(JAR) as jar:
        return {name: jar.read(name) for name in jar.namelist()}


def main() -> None:
    manifest = f"Manifest-Version: 1.0\n{COMPILER}: {compiler()}\n"
    made = {MANIFEST: manifest.encode(), **compiled()}
    with zipfile.ZipFile(JAR, "w") as jar:
        for name, content in made.items():
            jar.writestr(zipfile.ZipInfo(name), content)  # of no time: the same bytes each time
    print(f"{JAR}: {JAR.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
