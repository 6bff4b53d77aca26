"""Delete the objects of a bucket of Google that stand for folders.

Spark's connector makes one for each folder. Their names end in a slash, which obstore takes off, so it cannot name
them. Google's JSON API is asked then, with the same credentials.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import quote

_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_SECONDS_AT_MOST = 60
_MISSING = 404
_ATTEMPTS = 4
_LATER = (408, 429, 500, 502, 503, 504)
"""Answers of Google after which the same request may succeed a moment later."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GoogleFolderClient:
    """Make the function that deletes the objects of a bucket that stand for folders."""

    bucket: str

    def __call__(self) -> Callable[[Sequence[str]], None]:
        import google.auth.transport.requests  # noqa: F401 # says which library is missing

        return _Folders(self.bucket, os.environ.get("GOOGLE_BASE_URL") or "https://storage.googleapis.com").delete


class _Folders:
    """The objects of a bucket that stand for folders.

    Nothing depends on them. Where they cannot be deleted they stay, and the log says so once. Where there are no
    credentials, they are not looked for again: that takes seconds on a machine that is not of Google.
    """

    def __init__(self, bucket: str, base: str) -> None:
        self._bucket = bucket
        self._objects = f"{base.rstrip('/')}/storage/v1/b/{quote(bucket)}/o"
        self._lock = threading.Lock()
        self._has_warned = self._lacks_credentials = False

    def delete(self, folders: Sequence[str]) -> None:
        from google.auth.exceptions import GoogleAuthError
        from requests import RequestException

        with self._lock:
            if self._lacks_credentials:
                return
            try:
                self._delete_each(folders)
            except (GoogleAuthError, RequestException, OSError, ValueError) as error:
                self._lacks_credentials = isinstance(error, GoogleAuthError)
                if not self._has_warned:
                    # Not its text: it may show what is in a file of credentials.
                    found = type(error).__name__
                    _log.warning("Objects that stand for folders stay in gs://%s: %s", self._bucket, found)
                self._has_warned = True

    def _delete_each(self, folders: Sequence[str]) -> None:
        for folder in folders:
            answer = self._session.delete(f"{self._objects}/{quote(f'{folder}/', safe='')}", timeout=_SECONDS_AT_MOST)
            if answer.status_code != _MISSING:
                answer.raise_for_status()

    @cached_property
    def _session(self) -> Any:
        from google.auth.transport.requests import AuthorizedSession
        from requests.adapters import HTTPAdapter
        from urllib3 import Retry

        session: Any = AuthorizedSession(_credentials())  # type: ignore[no-untyped-call]
        again = Retry(
            _ATTEMPTS - 1,
            connect=0,
            read=0,
            status_forcelist=_LATER,
            backoff_factor=0.25,
            raise_on_status=False,
            respect_retry_after_header=False,  # it may ask for hours, and what is deleted here can stay
        )
        session.mount(self._objects, HTTPAdapter(max_retries=again))
        return session


def _credentials() -> Any:
    """Return those that obstore takes, of the ones that docs/object-storage.md names, in its order."""
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
