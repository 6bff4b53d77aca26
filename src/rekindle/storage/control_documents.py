"""The control folder of a job: requests and their answers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from rekindle.errors import StorageError
from rekindle.storage import layout
from rekindle.storage.documents.control import Answer, Request
from rekindle.storage.job_documents import JobDocuments

_REQUEST = re.compile(r"(.+)\.request\.json")
_UNREADABLE = ("OBJECT_CORRUPT", "FORMAT_NEWER")
_ANSWER = re.compile(r"(.+)\.answer\.json")


class Control(NamedTuple):
    """The content of a job's control folder."""

    #: requests that have no answer yet, oldest first
    requests: tuple[Request, ...]
    #: those that are damaged or of a newer version: id → why. They too deserve an answer.
    unreadable: Mapping[str, StorageError]
    #: those that the storage does not give out now, or not to this user: id → why
    refused: Mapping[str, StorageError]
    #: ids of all requests, and of all that have an answer
    asked: AbstractSet[str]
    answered: AbstractSet[str]


class ControlDocuments(JobDocuments):
    """The requests to a job, and what was answered."""

    def control(self, heard: Collection[str] = ()) -> Control:
        """Read the control folder; requests with an id in `heard` are not read again."""
        names = self.store.names(layout.control(self.job))
        asked = {match[1] for name in names if (match := _REQUEST.fullmatch(name))}
        answered = {match[1] for name in names if (match := _ANSWER.fullmatch(name))}
        found = {request_id: self._request(request_id) for request_id in sorted(asked - answered - {*heard})}
        requests = (request for request in found.values() if isinstance(request, Request))
        errors = {one: error for one, error in found.items() if isinstance(error, StorageError)}
        return Control(
            requests=tuple(sorted(requests, key=lambda request: (request.created_ms, request.id))),
            unreadable={one: error for one, error in errors.items() if error.code in _UNREADABLE},
            refused={one: error for one, error in errors.items() if error.code not in _UNREADABLE},
            asked=frozenset(asked),
            answered=frozenset(answered),
        )

    def answer(self, answer: Answer) -> Answer:
        """Answer a request, durably; the first answer stands and is returned."""
        return self.adopt(layout.answer(self.job, answer.id), answer)

    def request(self, request_id: str) -> Request | None:
        """Return a request; None where there is none, or it was deleted.

        Raises:
            StorageError: ``OBJECT_CORRUPT``, ``FORMAT_NEWER``.
        """
        return self.read(layout.request(self.job, request_id), Request)

    def answer_to(self, request_id: str) -> Answer | None:
        """Return the answer to a request; None until there is one."""
        return self.read(layout.answer(self.job, request_id), Answer)

    def forget_request(self, request_id: str) -> None:
        """Delete a request that has an answer, and then the answer."""
        self.store.delete(layout.request(self.job, request_id))
        self.store.delete(layout.answer(self.job, request_id))

    def _request(self, request_id: str) -> Request | StorageError | None:
        path = layout.request(self.job, request_id)
        try:
            request = self.read(path, Request)
            if request and request.id != request_id:
                raise StorageError("OBJECT_CORRUPT", path=path, reason=f"it calls itself {request.id!r}")
        except StorageError as error:
            return error
        return request
