"""``rekindle run --metrics-port``: the metrics of one job, for those who scrape drivers.

They are made of what the driver writes into the storage, as those of ``rekindle ui`` are. So a scrape takes
nothing from the job but the time of a thread, and can fail nothing in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import click

from rekindle.errors import ConfigError
from rekindle.storage.open import open_store

AT_ONCE = 4
"""Scrapes that are answered at a time. Others are refused: where the storage hangs, they would only pile up."""


class Address(NamedTuple):
    """The address that a server listens at."""

    host: str
    port: int


def parsed(ctx: click.Context, parameter: click.Parameter, value: str | None) -> Address | None:
    """Read ``[ADDRESS:]PORT``; 0 takes any free port."""
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 65_536):
        raise click.BadParameter(f"{value!r} is not of the form [ADDRESS:]PORT", ctx, parameter)
    return Address(host.strip("[]") or "127.0.0.1", int(port))


def serve(address: Address, storage: str, job: str) -> Address:
    """Serve the metrics of a job from now on, as long as this process lives; return where.

    Raises:
        ConfigError: ``METRICS_MISSING``, ``METRICS_PORT_TAKEN``.
    """
    try:
        from prometheus_client import start_wsgi_server
        from prometheus_client.exposition import make_wsgi_app

        from rekindle.ui.metrics import registry
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "rekindle":
            raise
        raise ConfigError("METRICS_MISSING", module=error.name) from error
    from rekindle.monitoring.monitors import Monitors

    made = registry(Monitors([open_store(storage)]), job)
    try:
        server, _ = start_wsgi_server(address.port, address.host, made)
    except OSError as error:
        raise ConfigError("METRICS_PORT_TAKEN", address=address.host, port=address.port, reason=error) from error
    server.set_app(_bounded(make_wsgi_app(made)))
    return Address(address.host, server.server_port)


def _bounded(app: Callable[[Any, Any], Iterable[bytes]]) -> Callable[[Any, Any], Iterable[bytes]]:
    free = threading.Semaphore(AT_ONCE)

    def answer(environ: Any, start_response: Any) -> Iterable[bytes]:
        if not free.acquire(blocking=False):
            start_response("503 Service Unavailable", [("Content-Type", "text/plain")])
            return [b"earlier requests have no answer yet\n"]
        try:
            return app(environ, start_response)
        finally:
            free.release()

    return answer
