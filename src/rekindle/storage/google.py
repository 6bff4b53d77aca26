"""Delete the objects of a bucket of Google that stand for folders.

Spark's connector makes one for each folder. Their names end in a slash, which obstore takes off, so it cannot name
them. Google's JSON API is asked then, with the credentials that obstore finds too.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_SECONDS_AT_MOST = 60
_MISSING = 404

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GoogleFolderClient:
    """Make the function that deletes the objects of a bucket that stand for folders.

    Nothing depends on these objects. Where they cannot be deleted they stay, and the log says so once. Where there are
    no credentials, they are not looked for again: that takes seconds on a machine that is not of Google.
    """

    bucket: str

    def __call__(self) -> Callable[[Sequence[str]], None]:
        from google.auth.exceptions import GoogleAuthError
        from google.auth.transport.requests import AuthorizedSession
        from requests import RequestException

        base = os.environ.get("GOOGLE_BASE_URL") or "https://storage.googleapis.com"
        objects = f"{base.rstrip('/')}/storage/v1/b/{quote(self.bucket)}/o"
        lock = threading.Lock()
        sessions: list[Any] = []
        failures: list[bool] = []  # of each: whether credentials were what it lacked

        def delete_each(folders: Sequence[str]) -> None:
            if not sessions:
                sessions.append(AuthorizedSession(_credentials()))  # type: ignore[no-untyped-call]
            for folder in folders:
                name = quote(f"{folder}/", safe="")
                answer = sessions[0].delete(f"{objects}/{name}", timeout=_SECONDS_AT_MOST)
                if answer.status_code != _MISSING:
                    answer.raise_for_status()

        def delete(folders: Sequence[str]) -> None:
            with lock:
                if any(failures):
                    return
                try:
                    delete_each(folders)
                except (GoogleAuthError, RequestException, OSError, ValueError) as error:
                    if not failures:
                        # Not its text: it may show what is in a file of credentials.
                        found = type(error).__name__
                        _log.warning("Objects that stand for folders stay in gs://%s: %s", self.bucket, found)
                    failures.append(isinstance(error, GoogleAuthError))

        return delete


def _credentials() -> Any:
    """Return those that obstore would take, which looks in this order."""
    import google.auth
    from google.auth.credentials import AnonymousCredentials
    from google.oauth2 import credentials, service_account

    if os.environ.get("GOOGLE_SKIP_SIGNATURE", "").lower() == "true":
        return AnonymousCredentials()  # type: ignore[no-untyped-call]
    if token := os.environ.get("GOOGLE_BEARER_TOKEN"):
        return credentials.Credentials(token)  # type: ignore[no-untyped-call]
    if file := os.environ.get("GOOGLE_SERVICE_ACCOUNT"):
        made = service_account.Credentials
        return made.from_service_account_file(file, scopes=[_SCOPE])  # type: ignore[no-untyped-call]
    return google.auth.default(scopes=[_SCOPE])[0]
