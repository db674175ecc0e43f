"""`holdfast config reload`: the gateway that runs reads its configuration again."""

import sys
from pathlib import Path

import click
import msgspec

from holdfast.cli.common.home import home_flag
from holdfast.cli.common.output import print_json
from holdfast.config import ConfigError, load
from holdfast.core.config.configuration import ReloadResult
from holdfast.server.local.client import ControlClient, GatewayRefused
from holdfast.system import exits
from holdfast.system.lock import is_gateway_running
from holdfast.system.paths import Paths

_RELOAD_TIMEOUT = 60.0  # a model server that is looked for, a library that a new account needs


def reload_running(home: Path, *, as_json: bool) -> None:
    """Raises `ConfigError` where the file cannot be used: what was in force still is."""
    if not is_gateway_running(home):
        load(home)  # what is wrong with it is worth knowing all the same
        _print_not_running(home, as_json=as_json)
        sys.exit(exits.GATEWAY_DOWN)
    done = _request_reload(home)
    if as_json:
        print_json(msgspec.to_builtins(done))
        return
    _print_reloaded(home, done)


def _request_reload(home: Path) -> ReloadResult:
    client = ControlClient(Paths(home), timeout=_RELOAD_TIMEOUT)
    try:
        return msgspec.convert(client.post("/config/reload", {}), ReloadResult)
    except GatewayRefused as refused:
        if refused.status == 422:  # as it is told by whoever reads the file here
            still = "Nothing has changed: the last good configuration stays in force."
            raise ConfigError(f"{refused.reason}\n{still}") from None
        raise


def _print_not_running(home: Path, *, as_json: bool) -> None:
    told = f"No gateway is running in {home}: the configuration holds from its next start on."
    if as_json:
        print_json({"error": told})
    else:
        click.echo(told, err=True)


def _print_reloaded(home: Path, reloaded: ReloadResult) -> None:
    for warning in reloaded.warnings:
        click.echo(f"{click.style('warning:', fg='yellow')} {warning}", err=True)
    if reloaded.changed:
        click.echo(f"Configuration {reloaded.number} is in force. Changed:")
        for key in reloaded.changed:
            click.echo(f"  {key}")
    else:
        click.echo(f"Nothing has changed: configuration {reloaded.number} stays in force.")
    if reloaded.accounts:
        click.echo(f"Connected anew, added or let go: {', '.join(reloaded.accounts)}.")
    if reloaded.pending_restart:
        restart = f"holdfast gateway restart{home_flag(home)}"
        click.echo(f"Waits for a restart: {', '.join(reloaded.pending_restart)}  ({restart})")
