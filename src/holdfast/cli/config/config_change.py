"""`holdfast config set` and `rollback`: a change made through the gateway that runs, or offline."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from holdfast.cli.common.confirming import confirm
from holdfast.cli.common.file_change import show_change
from holdfast.cli.common.home import as_option
from holdfast.cli.common.output import print_json
from holdfast.cli.config.config_kept import kept_one, stored_text
from holdfast.config import ConfigError, load, prepare_home
from holdfast.config.document import read_text
from holdfast.config.editor import ChangedMeanwhile, Edited, KeyChange, edited, replaced
from holdfast.config.keys import find_key, word_value
from holdfast.core.config.effect import Effect
from holdfast.core.config.home_files import CONFIG_FILE
from holdfast.server.api.views.configuration_views import ConfigChanged, revision_of
from holdfast.server.local.client import ControlClient, ControlRefused
from holdfast.system.lock import gateway_runs
from holdfast.system.paths import Paths

# The place that an error names is one of the file as it would have been.
_UNTOUCHED = f"Nothing was written: {CONFIG_FILE} is as it was."
_PATIENCE = 60.0  # accounts that changed are let go and connected anew before it answers


def set_keys(home: Path, words: Sequence[str], unset: Sequence[str], *, as_json: bool) -> None:
    """`words`: a key and its value, and so on."""
    values = {}
    for name, word in zip(words[::2], words[1::2], strict=True):
        key = find_key(name)
        values[key.name] = word_value(key, word)
    if gateway_runs(home):
        body = {"set": values, "unset": list(unset)}
        _tell(home, _asked(home, "/config/set", body), as_json=as_json)
    else:
        prepare_home(home)
        made = partial(edited, home, values=values, unset=unset)
        _finish(home, made, as_json=as_json)


def roll_back(home: Path, number: int, *, yes: bool, as_json: bool) -> None:
    """The text of that number becomes the file's, which is shown and asked for first."""
    kept = kept_one(home, number)
    path = home / CONFIG_FILE
    seen = read_text(path) or ""
    if not as_json and not show_change(path, seen, kept.text):
        click.echo(f"{path} is as it was in configuration {number}.")
    if not yes:
        confirm(f"Put configuration {number} back?")
    if gateway_runs(home):
        body = {"to": number, "revision": revision_of(seen)}
        _tell(home, _asked(home, "/config/rollback", body), as_json=as_json)
    else:
        text = stored_text(home, number)
        _finish(home, partial(replaced, home, text, seen=seen), as_json=as_json)


def _checker(home: Path) -> Any:
    """Of what a service may have been given and this shell has not, a warning is all there is."""
    tolerant = partial(load, home, tolerant=True)
    return lambda text: tolerant(text=text)


def _asked(home: Path, path: str, body: Mapping[str, Any]) -> ConfigChanged:
    client = ControlClient(Paths(home), timeout=_PATIENCE)
    try:
        return msgspec.convert(client.post(path, body), ConfigChanged)
    except ControlRefused as refused:
        if refused.status == 422:  # as it is told by whoever reads the file here
            raise ConfigError(f"{refused.reason}\n{_UNTOUCHED}") from None
        raise


def _finish(home: Path, made: Callable[..., Edited], *, as_json: bool) -> None:
    try:
        done = made(check=_checker(home))
    except ChangedMeanwhile:  # which says itself what became of the file
        raise
    except ConfigError as error:
        raise ConfigError(f"{error}\n{_UNTOUCHED}") from None
    done.write()
    warnings = [*done.config.warnings]
    told = ConfigChanged(number=0, changes=list(done.changes), warnings=warnings)
    _tell(home, told, as_json=as_json)


def _tell(home: Path, done: ConfigChanged, *, as_json: bool) -> None:
    if as_json:
        print_json(msgspec.to_builtins(done))
        return
    for warning in done.warnings:
        click.echo(f"{click.style('warning:', fg='yellow')} {warning}", err=True)
    for each in done.changes:
        click.echo(_changed(each))
        if each.overridden_by:
            click.echo(f"  {each.overridden_by} goes before {CONFIG_FILE}: nothing changes by it")
        else:
            click.echo(f"  takes effect {Effect(each.effect).words}")
    _tell_whole(home, done)


def _tell_whole(home: Path, done: ConfigChanged) -> None:
    if not done.changes:
        click.echo(f"Nothing changes: {home / CONFIG_FILE} says so already.")
    elif not done.number and any(not each.overridden_by for each in done.changes):
        click.echo("No gateway is running: it holds from the next start on.")
    elif done.number:
        click.echo(f"The gateway has taken it over, as configuration {done.number}.")
        if done.accounts:
            click.echo(f"Connected anew, added or let go: {', '.join(done.accounts)}.")
    if done.waits:
        restart = f"holdfast gateway restart{as_option(home)}"
        click.echo(f"Waits for a restart: {', '.join(done.waits)}  ({restart})")


def _changed(each: KeyChange) -> str:
    if each.old == each.new:  # the default, which the file says now or says no more
        return f"{each.key}: {_shown(each.new)}, as before; only {CONFIG_FILE} is another"
    return f"{each.key}: {_shown(each.old)} → {_shown(each.new)}"


def _shown(value: Any) -> str:
    text = "unset" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:199]}…"
