"""A cluster of HDFS as one in production is: two name nodes, of which one is active, with Kerberos and TLS.

Hadoop's `MiniDFSCluster` runs in a JVM of its own, and Py4J tells it which name node is to be active.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.quick_files import spark_jars
from tests.servers.kafka import JARS, SECONDS_AT_MOST, _java
from tests.servers.kerberos import SecureHdfs
from tests.servers.ports import free_ports
from tests.waiting import until

SERVICE = "shop"
_NODES = ("nn1", "nn2")
_PASSWORD = "changeit"  # as the one that Java suggests
_HDFS = "org.apache.hadoop.hdfs"


class NameNodes(SecureHdfs):
    """One name service; `make_active` says which of its name nodes answers."""

    def __init__(self) -> None:
        self._control, *self._rpc = free_ports(3)
        self._web = free_ports(2)
        self._gateway: Any = None
        self._cluster: Any = None
        super().__init__()
        self._keystore, self._certificate = self._folder / "keys.p12", self._folder / "certificate.pem"

    @property
    def authority(self) -> str:
        return SERVICE

    @property
    def environment(self) -> dict[str, str]:
        """What clients need to know, as they look for it."""
        return {**super().environment, "REQUESTS_CA_BUNDLE": str(self._certificate)}

    def said(self) -> Mapping[str, str]:
        failover = f"{_HDFS}.server.namenode.ha.ConfiguredFailoverProxyProvider"
        addresses = {
            f"dfs.namenode.{of}-address.{SERVICE}.{node}": f"localhost:{port}"
            for of, ports in (("rpc", self._rpc), ("https", self._web))
            for node, port in zip(_NODES, ports, strict=True)
        }
        return {
            **super().said(),
            **addresses,
            "dfs.nameservices": SERVICE,
            f"dfs.ha.namenodes.{SERVICE}": ",".join(_NODES),
            f"dfs.client.failover.proxy.provider.{SERVICE}": failover,
            "dfs.http.policy": "HTTPS_ONLY",
        }

    def start(self) -> None:
        """Start it, with the first name node active, and wait until it has a data node."""
        self.kdc.start()
        self._make_certificate()
        self._start_jvm()
        self._cluster = self._build()
        self._cluster.transitionToActive(0)
        self._cluster.waitActive(0)
        self.make_home()
        self.kdc.get_ticket(self.cache)

    def make_active(self, number: int) -> None:
        """Let this name node answer (0 or 1), and the other no longer."""
        self._cluster.transitionToStandby(1 - number)
        self._cluster.transitionToActive(number)

    def _make_certificate(self) -> None:
        keytool = str(Path(_java() or "").with_name("keytool"))
        store = ["-keystore", str(self._keystore), "-storetype", "PKCS12", "-storepass", _PASSWORD, "-alias", "one"]
        named = ["-dname", "CN=localhost", "-ext", "san=dns:localhost,ip:127.0.0.1", "-keyalg", "EC"]
        subprocess.run([keytool, "-genkeypair", *named, *store], check=True, capture_output=True)
        shown = [keytool, "-exportcert", "-rfc", "-file", str(self._certificate), *store]
        subprocess.run(shown, check=True, capture_output=True)
        of_servers = {"keystore.location": str(self._keystore), "keystore.type": "PKCS12"}
        of_servers |= dict.fromkeys(("keystore.password", "keystore.keypassword"), _PASSWORD)
        properties = "".join(
            f"<property><name>ssl.server.{name}</name><value>{value}</value></property>"
            for name, value in of_servers.items()
        )
        Path(self.classes[0], "ssl-server.xml").write_text(f"<configuration>{properties}</configuration>")

    def _start_jvm(self) -> None:
        from py4j.java_gateway import GatewayParameters, JavaGateway

        (of_py4j,) = spark_jars().glob("py4j-*.jar")
        path = ":".join((*self.classes, f"{JARS / 'hdfs-server'}/*", str(of_py4j)))
        command = [str(_java()), "-Xmx512m", "-XX:TieredStopAtLevel=1", *self.options, "-cp", path]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "py4j.GatewayServer", str(self._control)], stdout=log, stderr=log, cwd=self._folder
            )
        until(lambda: _listens(self._control), SECONDS_AT_MOST)
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=self._control))

    def _build(self) -> Any:
        java = self._gateway.jvm
        package = java.org.apache.hadoop.hdfs
        service = getattr(package, "MiniDFSNNTopology$NSConf")(SERVICE)
        for node, port in zip(_NODES, self._rpc, strict=True):
            service.addNN(getattr(package, "MiniDFSNNTopology$NNConf")(node).setIpcPort(port))
        topology = package.MiniDFSNNTopology().addNameservice(service)
        builder = getattr(package, "MiniDFSCluster$Builder")(package.HdfsConfiguration())
        return builder.nnTopology(topology).numDataNodes(1).build()

    def remove(self) -> None:
        if self._gateway is not None:
            self._gateway.close()
        super().remove()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), SECONDS_AT_MOST).close()
    except OSError:
        return False
    return True
