"""`holdfast config set` and `rollback`: a change made through the gateway that runs, or offline."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from holdfast.cli.common.confirming import confirm
from holdfast.cli.common.file_change import print_file_diff
from holdfast.cli.common.home import home_flag
from holdfast.cli.common.output import print_json
from holdfast.cli.config.config_kept import get_config_version, read_stored_text
from holdfast.config import ConfigError, load, prepare_home
from holdfast.config.document import read_text
from holdfast.config.editor import (
    ConfigEdit,
    FileChangedMeanwhile,
    KeyChange,
    edit_keys,
    replace_file,
)
from holdfast.config.keys import find_key, parse_word
from holdfast.core.config.effect import ChangeEffect
from holdfast.core.config.home_files import CONFIG_FILE
from holdfast.server.api.views.configuration_views import ConfigChangeResult, revision_of
from holdfast.server.local.client import ControlClient, GatewayRefused
from holdfast.system.lock import is_gateway_running
from holdfast.system.paths import Paths

# The place that an error names is one of the file as it would have been.
_NOT_WRITTEN = f"Nothing was written: {CONFIG_FILE} is as it was."
_CHANGE_TIMEOUT = 60.0  # accounts that changed are let go and connected anew before it answers


def set_keys(home: Path, words: Sequence[str], unset: Sequence[str], *, as_json: bool) -> None:
    """`words`: a key and its value, and so on."""
    values = {}
    for name, word in zip(words[::2], words[1::2], strict=True):
        key = find_key(name)
        values[key.name] = parse_word(key, word)
    if is_gateway_running(home):
        body = {"set": values, "unset": list(unset)}
        _print_change(home, _request_change(home, "/config/set", body), as_json=as_json)
    else:
        prepare_home(home)
        made = partial(edit_keys, home, values=values, unset=unset)
        _write_change(home, made, as_json=as_json)


def roll_back(home: Path, number: int, *, yes: bool, as_json: bool) -> None:
    """The text of that number becomes the file's, which is shown and asked for first."""
    kept = get_config_version(home, number)
    path = home / CONFIG_FILE
    seen = read_text(path) or ""
    if not as_json and not print_file_diff(path, seen, kept.text):
        click.echo(f"{path} is as it was in configuration {number}.")
    if not yes:
        confirm(f"Put configuration {number} back?")
    if is_gateway_running(home):
        body = {"to": number, "revision": revision_of(seen)}
        _print_change(home, _request_change(home, "/config/rollback", body), as_json=as_json)
    else:
        text = read_stored_text(home, number)
        _write_change(home, partial(replace_file, home, text, expected=seen), as_json=as_json)


def _make_checker(home: Path) -> Any:
    """Of what a service may have been given and this shell has not, a warning is all there is."""
    tolerant = partial(load, home, tolerant=True)
    return lambda text: tolerant(text=text)


def _request_change(home: Path, path: str, body: Mapping[str, Any]) -> ConfigChangeResult:
    client = ControlClient(Paths(home), timeout=_CHANGE_TIMEOUT)
    try:
        return msgspec.convert(client.post(path, body), ConfigChangeResult)
    except GatewayRefused as refused:
        if refused.status == 422:  # as it is told by whoever reads the file here
            raise ConfigError(f"{refused.reason}\n{_NOT_WRITTEN}") from None
        raise


def _write_change(home: Path, edit: Callable[..., ConfigEdit], *, as_json: bool) -> None:
    try:
        done = edit(check=_make_checker(home))
    except FileChangedMeanwhile:  # which says itself what became of the file
        raise
    except ConfigError as error:
        raise ConfigError(f"{error}\n{_NOT_WRITTEN}") from None
    done.write()
    warnings = [*done.config.warnings]
    told = ConfigChangeResult(number=0, changes=list(done.changes), warnings=warnings)
    _print_change(home, told, as_json=as_json)


def _print_change(home: Path, changed: ConfigChangeResult, *, as_json: bool) -> None:
    if as_json:
        print_json(msgspec.to_builtins(changed))
        return
    for warning in changed.warnings:
        click.echo(f"{click.style('warning:', fg='yellow')} {warning}", err=True)
    for each in changed.changes:
        click.echo(_change_text(each))
        if each.overridden_by:
            click.echo(f"  {each.overridden_by} goes before {CONFIG_FILE}: nothing changes by it")
        else:
            click.echo(f"  takes effect {ChangeEffect(each.effect).description}")
    _print_summary(home, changed)


def _print_summary(home: Path, changed: ConfigChangeResult) -> None:
    if not changed.changes:
        click.echo(f"Nothing changes: {home / CONFIG_FILE} says so already.")
    elif not changed.number and any(not each.overridden_by for each in changed.changes):
        click.echo("No gateway is running: it holds from the next start on.")
    elif changed.number:
        click.echo(f"The gateway has taken it over, as configuration {changed.number}.")
        if changed.accounts:
            click.echo(f"Connected anew, added or let go: {', '.join(changed.accounts)}.")
    if changed.pending_restart:
        restart = f"holdfast gateway restart{home_flag(home)}"
        click.echo(f"Waits for a restart: {', '.join(changed.pending_restart)}  ({restart})")


def _change_text(change: KeyChange) -> str:
    if change.old == change.new:  # the default, which the file says now or says no more
        return f"{change.key}: {_value_text(change.new)}, as before; only {CONFIG_FILE} is another"
    return f"{change.key}: {_value_text(change.old)} → {_value_text(change.new)}"


def _value_text(value: Any) -> str:
    text = "unset" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:199]}…"
