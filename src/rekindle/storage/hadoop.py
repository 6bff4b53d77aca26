"""A cluster of HDFS, as Hadoop's own configuration describes it, and the error with which it refuses a request.

The configuration is that which Spark reads too: files in the folder ``HADOOP_CONF_DIR``.
"""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from rekindle.errors import StorageError
from rekindle.storage.port import check_path

_ADDRESS = re.compile(r"hdfs://([^/]*)(.*)", re.DOTALL)
_AUTHORITY = re.compile(r"[A-Za-z0-9._-]+(?::[0-9]{1,5})?")
_VARIABLE = re.compile(r"\$\{([^}$]+)\}")
_FILES = ("core-site.xml", "hdfs-site.xml")
_NOWHERE = ("0.0.0.0", "")  # noqa: S104 # nothing is bound
"""Addresses of a name node that listens on all interfaces: they do not name its host."""

MISSING = "FileNotFoundException"
"""`Refused.kind` of a request for a path that is not there."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster, its servers, and the user of its requests."""

    #: as in an address of Hadoop: a host with its port, or a name service
    authority: str
    #: name nodes, ``http://host:port``
    servers: tuple[str, ...]
    user: str
    kerberos: bool


class Refused(Exception):
    """HDFS has refused a request.

    Attributes:
        kind: the class of its exception, ``FileNotFoundException``; ``status 5xx`` or empty: the answer is not of HDFS.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}" if kind else message)
        self.kind = kind


class Unreachable(OSError):
    """No server of HDFS, or of Kerberos, answers. It says nothing that was part of a request."""


def find_cluster(uri: str) -> tuple[Cluster, str] | None:
    """Return the cluster and the absolute path that an address names; None where it is of another kind.

    Raises:
        StorageError: ``STORAGE_UNAVAILABLE``, it is no whole address, or the configuration cannot be read;
            ``PATH_OUTSIDE``.
    """
    found = _ADDRESS.fullmatch(uri)
    if found is None:
        return None
    settings = configuration()
    authority = found[1] or _authority_of(settings.get("fs.defaultFS", ""))
    if not _AUTHORITY.fullmatch(authority):
        reason = "it does not begin with hdfs://HOST:PORT or hdfs://NAMESERVICE (credentials belong elsewhere)"
        if not found[1]:
            folder = os.environ.get("HADOOP_CONF_DIR")
            place = f"the files of HADOOP_CONF_DIR ({folder})" if folder else "HADOOP_CONF_DIR, which is not set"
            reason = f"it names no cluster, and there is no fs.defaultFS of HDFS in {place}"
        raise StorageError("STORAGE_UNAVAILABLE", uri="hdfs://...", reason=reason)
    path = check_path("/".join(filter(None, found[2].split("/"))), folder=True)
    kerberos = settings.get("hadoop.security.authentication", "simple").strip().lower() == "kerberos"
    user = os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
    return Cluster(authority, _servers(authority, settings), user, kerberos), f"/{path}"


def configuration() -> dict[str, str]:
    """Return what the files of ``HADOOP_CONF_DIR`` say; nothing where there are none."""
    folder = os.environ.get("HADOOP_CONF_DIR")
    said: dict[str, str] = {}
    for name in _FILES if folder else ():
        said |= _properties(Path(folder or "", name))
    return {key: _VARIABLE.sub(lambda name: said.get(name[1], name[0]), value) for key, value in said.items()}


def _properties(file: Path) -> dict[str, str]:
    try:
        found = ET.parse(file).iter("property")  # noqa: S314 # as trusted as the Hadoop that it is part of
    except FileNotFoundError:
        return {}
    except (OSError, ET.ParseError) as error:
        raise StorageError("STORAGE_UNAVAILABLE", uri="hdfs://...", reason=f"{file}: {error}") from error
    pairs = ((one.findtext("name"), one.findtext("value")) for one in found)
    return {name.strip(): value.strip() for name, value in pairs if name and value}


def _authority_of(address: str) -> str:
    found = _ADDRESS.fullmatch(address)
    return found[1] if found else ""


def _servers(authority: str, settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the addresses at which the name nodes of a cluster answer to HTTP."""
    secure = settings.get("dfs.http.policy", "HTTP_ONLY").strip().upper() == "HTTPS_ONLY"
    scheme, port, kind = ("https", 9871, "https-address") if secure else ("http", 9870, "http-address")
    host = authority.partition(":")[0]
    nodes = [name.strip() for name in settings.get(f"dfs.ha.namenodes.{authority}", "").split(",") if name.strip()]
    if not nodes:
        ours = authority == _authority_of(settings.get("fs.defaultFS", ""))
        given = settings.get(f"dfs.namenode.{kind}", "") if ours else ""
        return (f"{scheme}://{_reached(given, host, port)}",)
    found = []
    for node in nodes:
        spoken = settings.get(f"dfs.namenode.rpc-address.{authority}.{node}", node).partition(":")[0]
        given = settings.get(f"dfs.namenode.{kind}.{authority}.{node}", "")
        found.append(f"{scheme}://{_reached(given, spoken, port)}")
    return tuple(found)


def _reached(given: str, host: str, port: int) -> str:
    """Return the address of a server that listens at `given`: `host` and `port` stand for what that does not name."""
    there, _, its_port = given.partition(":")
    return f"{host if there in _NOWHERE else there}:{its_port or port}"
