"""A rewind of Parquet files: it refuses where others have rewritten files, and knows what a killed rewind has deleted.

A file that is to be taken back is at its target, or still staged. One that is at neither place was removed by others:
by a compaction, most likely, which has put its rows into a file of its own. Nothing could take these rows back, so in
that case nothing is deleted. A rewind that was killed has removed files, too. So the attempts whose files were seen are
noted before the first file is deleted, and files of a noted attempt are not looked for again::

    <target>/.rekindle/rewinds/<digest>.json      attempts that a rewind of one job's sink takes back

The note stays: an attempt has a name of its own, and once it is taken back, no later rewind names it. Where a note is
lost, or cannot be read, a rewind that was killed is refused.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from rekindle.sinks.owners import parsed
from rekindle.sinks.reading import all_of
from rekindle.sinks.two_phase import Commits
from rekindle.sinks.writing import for_each
from rekindle.storage.port import NotFound, Store

FOLDER = "rewinds"


@dataclass(frozen=True, slots=True)
class ParquetRewind:
    """The rewind of one sink."""

    store: Store
    #: hidden folder of the target
    hidden: str
    #: path of the folder in it where the sink stages its attempts
    staging: str

    def begin(self, commits: Commits) -> None:
        """Note that these commits are taken back, once each of their files was seen.

        Raises:
            ValueError: with the reason; nothing was noted.
        """
        begun = self._begun()
        for number, committables in commits.items():
            files = [
                (file["to"], f"{self.staging}/{one['attempt']}/{file['from']}")
                for one in committables
                if one["attempt"] not in begun
                for file in one["files"]
            ]
            if not all(for_each(self.store, self._is_there, files)):
                raise ValueError(f"others have rewritten or removed files of checkpoint {number}")
        attempts = [one["attempt"] for one in all_of(commits)]
        if not begun.issuperset(attempts):
            self.store.replace(self._note, json.dumps({"attempts": attempts}).encode())

    def _is_there(self, places: tuple[str, str]) -> bool:
        target, staged = places
        # Twice: a driver that was taken for dead may move it at this moment.
        return any(self.store.exists(path) for path in (target, staged, target))

    def _begun(self) -> set[str]:
        try:
            found = parsed(self.store.read(self._note)).get("attempts", [])
        except NotFound:
            return set()
        return set(found)

    @property
    def _note(self) -> str:
        digest = hashlib.sha256(self.staging.encode()).hexdigest()
        return f"{self.hidden}/{FOLDER}/{digest[:32]}.json"
