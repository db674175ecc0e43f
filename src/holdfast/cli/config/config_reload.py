"""`holdfast config reload`: the gateway that runs reads its configuration again."""

import sys
from pathlib import Path

import click
import msgspec

from holdfast.cli.common.home import as_option
from holdfast.cli.common.output import print_json
from holdfast.config import ConfigError, load
from holdfast.core.config.configuration import Reloaded
from holdfast.server.local.client import ControlClient, ControlRefused
from holdfast.system import exits
from holdfast.system.lock import gateway_runs
from holdfast.system.paths import Paths

_PATIENCE = 60.0  # a model server that is looked for, a library that a new account needs


def reload(home: Path, *, as_json: bool) -> None:
    """Raises `ConfigError` where the file cannot be used: what was in force still is."""
    if not gateway_runs(home):
        load(home)  # what is wrong with it is worth knowing all the same
        _tell_nobody_runs(home, as_json=as_json)
        sys.exit(exits.GATEWAY_DOWN)
    done = _asked(home)
    if as_json:
        print_json(msgspec.to_builtins(done))
        return
    _tell(home, done)


def _asked(home: Path) -> Reloaded:
    client = ControlClient(Paths(home), timeout=_PATIENCE)
    try:
        return msgspec.convert(client.post("/config/reload", {}), Reloaded)
    except ControlRefused as refused:
        if refused.status == 422:  # as it is told by whoever reads the file here
            still = "Nothing has changed: the last good configuration stays in force."
            raise ConfigError(f"{refused.reason}\n{still}") from None
        raise


def _tell_nobody_runs(home: Path, *, as_json: bool) -> None:
    told = f"No gateway is running in {home}: the configuration holds from its next start on."
    if as_json:
        print_json({"error": told})
    else:
        click.echo(told, err=True)


def _tell(home: Path, done: Reloaded) -> None:
    for warning in done.warnings:
        click.echo(f"{click.style('warning:', fg='yellow')} {warning}", err=True)
    if done.changed:
        click.echo(f"Configuration {done.number} is in force. Changed:")
        for key in done.changed:
            click.echo(f"  {key}")
    else:
        click.echo(f"Nothing has changed: configuration {done.number} stays in force.")
    if done.accounts:
        click.echo(f"Connected anew, added or let go: {', '.join(done.accounts)}.")
    if done.waits:
        restart = f"holdfast gateway restart{as_option(home)}"
        click.echo(f"Waits for a restart: {', '.join(done.waits)}  ({restart})")
