"""HDFS over HTTP, as its name nodes and data nodes speak it (WebHDFS): no Java, and none of what is in Hadoop's client.

Name nodes, ports and the kind of authentication are those of Hadoop's own configuration (`storage.hadoop`). A request
goes to the name node that answered last, then to the others, until an active one answers; what is sent twice is made so
that the second time does no harm.

With Kerberos a name node that asks who is there is shown a ticket (`storage.kerberos`), and gives a cookie for it that
is good for some hours. It puts a token into the address at which a data node is asked: no error shows such an address.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any
from urllib.parse import quote

import requests
import stamina
from requests.adapters import HTTPAdapter

from rekindle.errors import StorageError
from rekindle.storage.hadoop import MISSING, Cluster, Refused, Unreachable
from rekindle.storage.kerberos import no_proof, proof_of

_PREFIX = "/webhdfs/v1"
_AUTHORITIES = "REQUESTS_CA_BUNDLE"
_ENVIRONMENT = (_AUTHORITIES, "KRB5CCNAME", "KRB5_CLIENT_KTNAME")
"""Variables that a client goes by, beside the cluster."""
_CONNECT_S, _ANSWER_S = 5, 60
_TRIES = 6
_PATIENCE_S = 30.0
"""Seconds for which a request is tried, about as long as the clients of buckets try."""
_CONNECTIONS = 32
_PROXY_FAILED = "status 5xx"
_FOR_NOW = frozenset(
    {"StandbyException", "RetriableException", "SafeModeException", "ServerTooBusyException", _PROXY_FAILED}
)
"""Refusals of a name node that is not active, or not yet, or of a proxy before it: a later attempt may succeed."""
_WHO_ASKS = 401
_NOT_KNOWN = "not known"
"""The kind of what is refused before HDFS is asked."""
_QUERY = re.compile(r"(/webhdfs/[^\s?]*)\?[^\s)'\"]*")
"""The path of a request's address, and the parameters after it, a token among them."""
_BYTES = {"Content-Type": "application/octet-stream"}
"""Without which a gateway (HttpFS) takes no file."""
_BELOW_A_FILE = "(is not a directory)"
_NEVER = "stamina raises what the last attempt has raised"

Data = Callable[[], Iterable[bytes]]
"""The bytes of a file from its beginning, as often as they are asked for."""

logging.getLogger("stamina").addHandler(logging.NullHandler())


def client(cluster: Cluster) -> WebHdfs:
    """Return the client of a cluster, one for this process and its environment."""
    return _client(cluster, os.getpid(), *map(os.environ.get, _ENVIRONMENT))


@cache
def _client(cluster: Cluster, *_: object) -> WebHdfs:
    return WebHdfs(cluster)


class WebHdfs:
    """A client of one cluster, for any number of threads."""

    def __init__(self, cluster: Cluster) -> None:
        self._servers = list(cluster.servers)
        self._user = {} if cluster.kerberos else {"user.name": cluster.user}
        self._session = requests.Session()
        self._session.trust_env = False  # its proxies are for the world outside
        self._session.verify = os.environ.get(_AUTHORITIES) or True
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(pool_maxsize=_CONNECTIONS))
        self._kerberos, self._uri = cluster.kerberos, f"hdfs://{cluster.authority}"
        self._proof = proof_of(self._uri) if cluster.kerberos else no_proof(self._uri)

    def ask(self, method: str, operation: str, path: str, **options: Any) -> Mapping[str, Any]:
        """Send a request that is answered by a name node alone, and return its answer.

        Raises:
            Refused: HDFS has said no.
            Unreachable: no one answers.
            StorageError: ``KERBEROS_TICKET_NEEDED``.
        """
        for attempt in self._attempts():
            with attempt:
                answer = self._asked(method, operation, path, options)
                return dict(answer.json()) if answer.content else {}
        raise AssertionError(_NEVER)

    def status(self, path: str) -> Mapping[str, Any] | None:
        """Return what is known of a file or folder; None where there is none. Raises as `ask` does."""
        try:
            found: Mapping[str, Any] = self.ask("GET", "GETFILESTATUS", path)["FileStatus"]
            return found
        except Refused as error:
            if error.kind == MISSING:
                return None
            raise

    def children(self, folder: str) -> list[Mapping[str, Any]]:
        """Return what is known of all that is right below a folder. Raises as `ask` does."""
        found = self.ask("GET", "LISTSTATUS", folder)["FileStatuses"]["FileStatus"]
        # A file is listed too, as one that has no name in it.
        return [one for one in found if one["pathSuffix"]]

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Return the bytes of a file, or some of them; raises as `ask` does."""
        some = {} if length is None else {"offset": start, "length": length}
        for attempt in self._attempts():
            with attempt:
                place = self._data_node("GET", "OPEN", path, some)
                return bytes(_answered(self._sent("GET", place, **self._shown_to(place))).content)
        raise AssertionError(_NEVER)

    def write(self, path: str, data: Data) -> None:
        """Make a file, over whatever there is; not in one step. Raises as `ask` does."""
        for attempt in self._attempts():
            with attempt:
                place = self._data_node("PUT", "CREATE", path, {"overwrite": "true"})
                _answered(self._sent("PUT", place, data=iter(data()), headers=_BYTES, **self._shown_to(place)))

    def _attempts(self) -> Iterable[stamina.Attempt]:
        return stamina.retry_context(on=_may_pass, attempts=_TRIES, timeout=_PATIENCE_S, wait_max=5.0)

    def _data_node(self, method: str, operation: str, path: str, options: Mapping[str, Any]) -> str:
        """Return the address at which a name node has a file read or written."""
        answer = self._asked(method, operation, path, {**options, "noredirect": "true"})
        return str(answer.headers.get("Location") or answer.json()["Location"])

    def _shown_to(self, place: str) -> Mapping[str, Any]:
        """Return what a server is shown at once: a gateway stands for data nodes too, and gives out no token."""
        ours = self._kerberos and place.startswith(tuple(f"{server}{_PREFIX}" for server in self._servers))
        return {"auth": self._proof} if ours else {}

    def _asked(self, method: str, operation: str, path: str, options: Mapping[str, Any]) -> requests.Response:
        server = self._servers[0]
        try:
            asked = {"op": operation, **self._user, **options}
            return self._known(method, f"{server}{_PREFIX}{quote(path)}", params=asked)
        except Exception as error:
            if _may_pass(error) and self._servers[0] == server:
                self._servers = [*self._servers[1:], server]
            raise

    def _known(self, method: str, address: str, **more: Any) -> requests.Response:
        """Return what a server says that may want to know first who asks."""
        answer = self._sent(method, address, **more)
        if answer.status_code != _WHO_ASKS:
            return _answered(answer)
        try:
            return _answered(self._sent(method, address, auth=self._proof, **more))
        except Refused as error:
            if error.kind != _NOT_KNOWN:
                raise
            raise StorageError("KERBEROS_TICKET_NEEDED", uri=self._uri, reason=f"it is refused: {error}") from None

    def _sent(self, method: str, address: str, **more: Any) -> requests.Response:
        patience = (_CONNECT_S, _ANSWER_S)
        try:
            return self._session.request(method, address, timeout=patience, allow_redirects=False, **more)
        except requests.RequestException as error:
            raise Unreachable(_QUERY.sub(r"\1?...", str(error))) from None


def _answered(answer: requests.Response) -> requests.Response:
    if answer.status_code < 400:
        return answer
    try:
        said = answer.json()["RemoteException"]
        kind, message = str(said["exception"]), str(said["message"]).partition("\n")[0]  # the rest is a trace of Java
    except (ValueError, KeyError, TypeError):
        kind = _PROXY_FAILED if answer.status_code >= 500 else _NOT_KNOWN if answer.status_code in (401, 403) else ""
        raise Refused(kind, f"status {answer.status_code} {answer.reason}") from None
    # What is asked for below a file is called forbidden.
    raise Refused(MISSING if message.endswith(_BELOW_A_FILE) else kind, message)


def _may_pass(error: Exception) -> bool:
    """Return whether the same request may succeed in a moment, or elsewhere."""
    if isinstance(error, Refused):
        return error.kind in _FOR_NOW
    return isinstance(error, Unreachable)
