"""The verb that serves pages, REST and metrics of the jobs of storages: `ui`."""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path

import click

from rekindle.cli import output
from rekindle.cli.app import command_line, example, version, with_json
from rekindle.errors import ConfigError
from rekindle.storage.place import DEFAULT, VARIABLE, location_of

TOKEN = "REKINDLE_UI_TOKEN"  # noqa: S105 # its name

_PATIENCE_S = 2.0
"""A storage that has not been read by then is read on while the server answers."""


@click.command("ui", epilog=example("rekindle ui --storage ./rekindle-state"))
@click.option(
    "--storage",
    "storages",
    multiple=True,
    metavar="URI",
    help=f"Where jobs keep their state; may be given several times.  [env var: {VARIABLE}; default: {DEFAULT}]",
)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where to listen.")
@click.option(
    "--port", default=8321, show_default=True, type=click.IntRange(0, 65535), help="Port to listen on; 0: any free one."
)
@click.option(
    "--allowed-host", "allowed_hosts", multiple=True, metavar="NAME", help="Another host name of this server."
)
@click.option(
    "--allow-actions", is_flag=True, help="Allow requests for checkpoints, savepoints and stops; with a token."
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help=f"Where the token is; or {TOKEN}.",
)
@with_json
def ui(
    *,
    storages: tuple[str, ...],
    host: str,
    port: int,
    allowed_hosts: tuple[str, ...],
    allow_actions: bool,
    token_file: str | None,
    as_json: bool,
) -> None:
    """Show the jobs of storages in a browser, as REST and as metrics.

    It only reads, unless --allow-actions is given, and needs no running job.
    """
    try:
        from rekindle.monitoring.monitors import Monitors
        from rekindle.monitoring.patience import PatientStores
        from rekindle.ui.security import Policy, is_loopback
        from rekindle.ui.server import application, listen, serve
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "rekindle":
            raise
        raise ConfigError("UI_MISSING", verb="ui", module=missing) from error
    with command_line():
        opened = PatientStores()
        stores = [opened(uri) for uri in storages or [location_of(None)]]
        token, made = _token(token_file), False
        if token is None and not is_loopback(host):
            raise ConfigError("UI_TOKEN_MISSING", host=host)
    if token is None and allow_actions:
        token, made = secrets.token_urlsafe(24), True
    policy = Policy(host=host, allowed_hosts=allowed_hosts, allow_actions=allow_actions, token=token)
    listener = listen(host, port)
    monitors = Monitors(stores, opened)
    monitors.warm_up(_PATIENCE_S)
    address = _address(listener, host)
    if as_json:
        output.as_json({"address": address, "token": token if made else None})
    else:
        output.say(f"{address}  (Ctrl-C ends it)")
        if made:
            output.say(f"The token for actions is {token}")
    serve(application(monitors, policy, version()), listener)


def _token(file: str | None) -> str | None:
    try:
        text = Path(file).read_text(encoding="utf-8") if file is not None else os.environ.get(TOKEN, "")
        text.encode()
    except UnicodeError:
        place = TOKEN if file is None else file
        raise click.UsageError(f"The token in {place} is not text in UTF-8: make it of letters and digits.") from None
    if file is not None and not text.strip():
        raise click.UsageError(f"The file {file} is empty: write a token of letters and digits into it.")
    return text.strip() or None


def _address(listener: socket.socket, host: str) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}/"
