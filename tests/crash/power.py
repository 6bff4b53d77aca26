"""A disk that is listened to: what a driver has forced is kept aside, so that the rest can be lost once it is dead.

In the driver (`listen`) each call that forces a file system keeps an image of it, hard links of all that is there by
then; each that forces a name adds that file. An image is taken before the system is asked to force anything: what is in
it, the disk had. Neither Rekindle nor Spark ever writes into a file that has its name, so a link is as good as a copy.

Then the power fails (`lose`): whatever differs from the last image is there, or not, or empty, or cut. A file that was
forced and renamed since has one of the two names: its bytes are on the disk, and a rename is one step of a journal.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rekindle.storage.disk import Disk


def listen(images: Path, roots: Sequence[Path]) -> None:
    """From now on, keep what this process forces of the folders `roots` in the folder `images`."""
    settle, force_name = Disk.settle, Disk.force_name
    numbers, lock = itertools.count(), threading.Lock()

    def kept_settle(disk: Disk) -> None:
        with lock:
            number = next(numbers)
            taken = images / f".{number:06d}"
            for root in roots:
                _link_tree(root, taken / root.name)
        settle(disk)
        with lock:
            taken.mkdir(parents=True, exist_ok=True)
            for later in _all(images)[-1:]:
                _keep_named(later, taken)
            taken.rename(images / f"{number:06d}")

    def kept_name(disk: Disk, path: str) -> None:
        force_name(disk, path)
        with lock:
            for root in roots:
                if Path(path).is_relative_to(root) and (found := _all(images)):
                    _link(Path(path), found[-1] / root.name / Path(path).relative_to(root))
                    _link(Path(path), found[-1] / "named" / root.name / Path(path).relative_to(root))

    Disk.settle, Disk.force_name = kept_settle, kept_name  # type: ignore[method-assign, assignment]


def lose(images: Path, roots: Sequence[Path], chance: random.Random) -> list[str]:
    """Lose any part of what was not forced; returns the files that are not as they were."""
    found = _all(images)
    lost = []
    for root in roots:
        image = found[-1] / root.name if found else images / "none"
        renamed = _renamed(root, image)
        for name, earlier in sorted(renamed.items()):
            if chance.random() < 0.5:
                lost.append(f"{root.name}/{name}")
                (root / earlier).parent.mkdir(parents=True, exist_ok=True)
                (root / name).rename(root / earlier)
        names = {path.relative_to(top) for top in (root, image) for path in top.rglob("*") if path.is_file()}
        for name in sorted(names.difference(renamed.keys(), renamed.values())):
            now, before = _read(root / name), _read(image / name)
            if now == before:
                continue
            left = chance.choice([now, before, *((b"", now[: chance.randint(0, len(now))]) if now else ())])
            if left != now:
                lost.append(f"{root.name}/{name}")
                with suppress(FileNotFoundError):
                    (root / name).unlink()
                if left is not None:
                    (root / name).parent.mkdir(parents=True, exist_ok=True)
                    (root / name).write_bytes(left)
    shutil.rmtree(images, ignore_errors=True)
    return lost


def _renamed(root: Path, image: Path) -> dict[Path, Path]:
    """The files that the image has under another name: their name now, and that one."""
    forced = {path.stat().st_ino: path.relative_to(image) for path in image.rglob("*") if path.is_file()}
    found = {path.stat().st_ino: path.relative_to(root) for path in root.rglob("*") if path.is_file()}
    return {
        name: forced[inode]
        for inode, name in found.items()
        if inode in forced and forced[inode] != name and not (root / forced[inode]).exists()
    }


def _all(images: Path) -> list[Path]:
    return sorted(path for path in images.glob("*") if not path.name.startswith("."))


def _keep_named(image: Path, taken: Path) -> None:
    """What was forced by its name while the next image was taken is on the disk too."""
    named = image / "named"
    for path in named.rglob("*") if named.exists() else ():
        if path.is_file():
            _link(path, taken / path.relative_to(named))


def _link_tree(source: Path, target: Path) -> None:
    for above, _, names in os.walk(source):
        for name in names:
            path = Path(above, name)
            _link(path, target / path.relative_to(source))


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        if target.exists():
            target.unlink()
        os.link(source, target)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
