"""A private server of Kerberos tickets, and a cluster of HDFS that lets in none but who has one.

The first is Hadoop's `MiniKdc`, which is Apache Kerby. Tickets are got with MIT's library, as `kinit` does.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.servers import hdfs
from tests.servers.hdfs import HdfsServer
from tests.servers.kafka import JARS, SECONDS_AT_MOST, _java
from tests.servers.ports import free_ports
from tests.waiting import until

REALM = "REKINDLE.TEST"
USER = "rekindle"
_SUPERUSER = "hdfs/localhost"
_HTTP = "HTTP/localhost"
_READY = "Standalone MiniKdc Running"
_TOKEN_SECONDS = 2
"""How long a cookie of the cluster is good: far less than on any real one."""


def why_not() -> str | None:
    """What is missing for tests with Kerberos; None where they can run."""
    if missing := hdfs.why_not():
        return missing
    if importlib.util.find_spec("gssapi") is None:
        return "no gssapi: pip install 'rekindle[kerberos]', which needs the headers of MIT Kerberos (libkrb5-dev)"
    if not [*(JARS / "hdfs-server").glob("hadoop-minikdc-*.jar")]:
        return f"no MiniKdc in {JARS}: `make setup` fetches it with Maven"
    return None


class Kdc:
    """A server of tickets, with one keytab for all that it knows."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rekindle-kdc-"))
        (self.port,) = free_ports(1)
        self.keytab = self.folder / "all.keytab"
        self.configuration = self.configured("krb5.conf")
        self._process: subprocess.Popen[bytes] | None = None

    def configured(self, name: str, ticket_lifetime: str = "1d") -> Path:
        """Make a configuration of clients."""
        file = self.folder / name
        libdefaults = {
            "default_realm": REALM,
            "ticket_lifetime": ticket_lifetime,
            "udp_preference_limit": "1",
            **dict.fromkeys(("dns_lookup_kdc", "dns_lookup_realm", "dns_canonicalize_hostname", "rdns"), "false"),
        }
        lines = "\n".join(f"  {key} = {value}" for key, value in libdefaults.items())
        file.write_text(f"[libdefaults]\n{lines}\n[realms]\n  {REALM} = {{\n    kdc = 127.0.0.1:{self.port}\n  }}\n")
        return file

    def start(self) -> None:
        """Start it and wait until it gives tickets."""
        java = _java()
        assert java is not None
        work, properties, log = self.folder / "work", self.folder / "kdc.properties", self.folder / "kdc.log"
        work.mkdir()
        org, domain = REALM.split(".")
        said = {"org.name": org, "org.domain": domain, "kdc.port": self.port, "kdc.bind.address": "127.0.0.1"}
        said["min.ticket.lifetime"] = 1
        properties.write_text("".join(f"{key}={value}\n" for key, value in said.items()))
        command = [java, "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS / 'hdfs-server'}/*"]
        command += ["org.apache.hadoop.minikdc.MiniKdc", str(work), str(properties), str(self.keytab)]
        with log.open("wb") as out:
            self._process = subprocess.Popen([*command, USER, _SUPERUSER, _HTTP], stdout=out, stderr=out)
        until(lambda: _READY in log.read_text() or self._process.poll() is not None, SECONDS_AT_MOST, pause_s=0.05)
        assert self._process.poll() is None, log.read_text()[-3000:]

    def get_ticket(self, cache: Path, who: str = USER, ticket_lifetime: str = "1d") -> None:
        """Put a new ticket into a cache, in place of what is there, as `kinit -kt` does."""
        import gssapi

        new = cache.with_suffix(".new")
        store = {"ccache": f"FILE:{new}", "client_keytab": f"FILE:{self.keytab}"}
        name = gssapi.Name(f"{who}@{REALM}", gssapi.NameType.kerberos_principal)
        with environment(KRB5_CONFIG=str(self.configured(f"{ticket_lifetime}.conf", ticket_lifetime))):
            found = gssapi.Credentials(name=name, usage="initiate", store=store)
            assert found.lifetime
        new.rename(cache)

    def remove(self) -> None:
        """Stop it, and delete what it had."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Set variables of the environment for a while."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class SecureHdfs(HdfsServer):
    """One cluster; who asks is `USER`, with the ticket in `cache`."""

    host = "localhost"

    def __init__(self) -> None:
        self.kdc = Kdc()
        self.cache = self.kdc.folder / "tickets"
        super().__init__()
        self.options = (f"-Djava.security.krb5.conf={self.kdc.configuration}",)
        keytab, superuser, web = str(self.kdc.keytab), f"{_SUPERUSER}@{REALM}", f"{_HTTP}@{REALM}"
        server = {
            **self.said(),
            "dfs.namenode.keytab.file": keytab,
            "dfs.datanode.kerberos.principal": superuser,
            "dfs.datanode.keytab.file": keytab,
            "dfs.web.authentication.kerberos.principal": web,
            "dfs.web.authentication.kerberos.keytab": keytab,
            "hadoop.http.authentication.type": "kerberos",
            "hadoop.http.authentication.kerberos.principal": web,
            "hadoop.http.authentication.kerberos.keytab": keytab,
            "hadoop.http.authentication.token.validity": str(_TOKEN_SECONDS),
            "dfs.block.access.token.enable": "true",
            "ignore.secure.ports.for.testing": "true",
        }
        self.classes = (self._write("of the server", server),)

    def said(self) -> Mapping[str, str]:
        return {
            "hadoop.security.authentication": "kerberos",
            "dfs.namenode.kerberos.principal": f"{_SUPERUSER}@{REALM}",
            "dfs.data.transfer.protection": "authentication",
        }

    @property
    def environment(self) -> dict[str, str]:
        """What clients need to know, as they look for it."""
        return {
            "HADOOP_CONF_DIR": super().environment["HADOOP_CONF_DIR"],
            "KRB5_CONFIG": str(self.kdc.configuration),
            "KRB5CCNAME": f"FILE:{self.cache}",
        }

    def start(self) -> None:
        self.kdc.start()
        super().start()
        self.kdc.get_ticket(self.cache)

    def make_home(self) -> None:
        """Make the folder of the user that tests are."""
        from rekindle.storage.hadoop import find_cluster
        from rekindle.storage.webhdfs import WebHdfs

        of_superuser = self.kdc.folder / "superuser"
        self.kdc.get_ticket(of_superuser, who=_SUPERUSER)
        with environment(**{**self.environment, "KRB5CCNAME": f"FILE:{of_superuser}"}):
            found = find_cluster("hdfs:///")
            assert found is not None
            client = WebHdfs(found[0])
            client.ask("PUT", "MKDIRS", f"/user/{USER}")
            client.ask("PUT", "SETOWNER", f"/user/{USER}", owner=USER)

    def remove(self) -> None:
        super().remove()
        self.kdc.remove()
