"""`holdfast config set`, `history`, `diff` and `rollback`: through the running gateway, or offline.

Imports the store: `config.command` imports this module inside functions only.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from holdfast.cli.common.config_files import print_diff_lines, print_file_diff
from holdfast.cli.common.offline import open_offline_api, query_store
from holdfast.cli.common.options import home_flag
from holdfast.cli.common.output import confirm, print_json, print_table, sanitize
from holdfast.config import ConfigError, load, prepare_home
from holdfast.config.document import read_text
from holdfast.config.editor import (
    ConfigEdit,
    FileChangedMeanwhile,
    KeyChange,
    changed_keys,
    edit_keys,
    replace_file,
)
from holdfast.config.files import diff_lines
from holdfast.config.keys import find_key, parse_word
from holdfast.config.renamed import migrate_text
from holdfast.core.config.changes import ChangeEffect
from holdfast.core.config.versions import CONFIG_FILE
from holdfast.core.errors import HoldfastError
from holdfast.core.ports.store import Store
from holdfast.core.ports.store_queries import GetConfiguration
from holdfast.core.secrets import mask_passwords
from holdfast.core.text.locale_format import format_time
from holdfast.core.text.translation import _
from holdfast.server.api.views.config import (
    ConfigChangeResult,
    ConfigVersionDetail,
    ConfigVersionList,
    ConfigVersionView,
    revision_of,
)
from holdfast.server.local.control_client import ControlClient, GatewayRefused
from holdfast.system.lock import is_gateway_running, read_holder
from holdfast.system.paths import Paths

T = TypeVar("T")
_LOCK_PURPOSE = "holdfast config"
_MAX_KEYS_LISTED = 3


def print_history(home: Path, *, limit: int, as_json: bool) -> None:
    listed = _fetch_history(home, limit)
    if as_json:
        print_json(msgspec.to_builtins(listed))
        return
    if not listed.versions:
        click.echo(_("No configuration is saved yet: the first start of a gateway saves one."))
        return
    rows = [
        (
            f"{each.number}{' *' if each.active else ''}",
            format_time(each.at),
            _changed_by(each),
            _list_keys(each.changed),
        )
        for each in listed.versions
    ]
    print_table((_("NUMBER"), _("SINCE"), _("BY"), _("CHANGED")), rows)
    if listed.more:
        click.echo(_("There are earlier configurations: `-n {n}` shows more.").format(n=limit * 5))


def print_diff(home: Path, number: int, other: int | None, *, as_json: bool) -> None:
    """From one configuration to the other; without `other`, to the current file."""
    before = get_config_version(home, number).text
    path = home / CONFIG_FILE
    after = (
        mask_passwords(read_text(path) or "")
        if other is None
        else get_config_version(home, other).text
    )
    changes = diff_lines(before, after, around=3)
    if as_json:
        changed = list(changed_keys(before, after))
        print_json({"from": number, "to": other, "changed": changed, "diff": changes})
        return
    if other is None:
        same = _("Configuration {number} and the current {file} do not differ.")
        title = _("From configuration {number} to the current {file}:")
    else:
        same = _("Configurations {number} and {other} do not differ.")
        title = _("From configuration {number} to configuration {other}:")
    click.echo((title if changes else same).format(number=number, other=other, file=path))
    print_diff_lines(changes)


def get_config_version(home: Path, number: int) -> ConfigVersionDetail:
    """With passwords masked. Raises for a number that does not exist."""
    try:
        return _query_versions(home, f"/config/history/{number}", ConfigVersionDetail)
    except GatewayRefused as refused:
        if refused.status != 404:
            raise
        raise HoldfastError(
            "There is no configuration {number}. `holdfast config history` lists all "
            "configurations.",
            number=number,
        ) from None


def read_stored_text(home: Path, number: int) -> str:
    """The text of a configuration with its passwords, read from the store; no gateway may run."""

    async def read(store: Store) -> str:
        version = await store.read(GetConfiguration(number=number))
        return "" if version is None else version.text

    return query_store(home, read, purpose=_LOCK_PURPOSE) or ""


def _fetch_history(home: Path, limit: int) -> ConfigVersionList:
    return _query_versions(home, f"/config/history?limit={limit}", ConfigVersionList)


def _query_versions(home: Path, path: str, response_type: type[T]) -> T:
    """From the running gateway, or else from the store.

    The gateway is asked over its control socket, which needs no token: the configuration in the
    file may be broken, and this may be the way to roll it back.
    """
    holder = read_holder(home)
    if holder is not None and holder.purpose == "gateway":
        return msgspec.convert(ControlClient(Paths(home)).get(path), response_type)
    with open_offline_api(home, purpose=_LOCK_PURPOSE) as api:
        return api.get(path, response_type)


def _changed_by(version: ConfigVersionView) -> str:
    """Who changed it, and how, unless the name says it already."""
    by = sanitize(version.by)
    return by if by.endswith(version.source) else f"{by} ({version.source})"


def _list_keys(keys: list[str]) -> str:
    named = ", ".join(map(sanitize, keys[:_MAX_KEYS_LISTED]))
    rest = len(keys) - _MAX_KEYS_LISTED
    return _("{names} and {n} more").format(names=named, n=rest) if rest > 0 else named


_CHANGE_TIMEOUT = 60.0  # seconds; changed accounts are reconnected before it answers


def set_keys(home: Path, words: Sequence[str], unset: Sequence[str], *, as_json: bool) -> None:
    """`words`: keys and values in turn."""
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
    """Writes the text of that configuration to the file, after showing it and asking."""
    version = get_config_version(home, number)
    path = home / CONFIG_FILE
    current = read_text(path) or ""
    if not as_json and not print_file_diff(path, current, migrate_text(version.text)):
        click.echo(
            _("{file} is the same as in configuration {number}.").format(file=path, number=number)
        )
    if not yes:
        confirm(_("Restore configuration {number}?").format(number=number))
    if is_gateway_running(home):
        body = {"to": number, "revision": revision_of(current)}
        _print_change(home, _request_change(home, "/config/rollback", body), as_json=as_json)
    else:
        text = read_stored_text(home, number)
        _write_change(home, partial(replace_file, home, text, expected=current), as_json=as_json)


def _make_checker(home: Path) -> Any:
    """A secret that only the service has is a warning, not an error."""
    tolerant = partial(load, home, tolerant=True)
    return lambda text: tolerant(text=text)


def _request_change(home: Path, path: str, body: Mapping[str, Any]) -> ConfigChangeResult:
    client = ControlClient(Paths(home), timeout=_CHANGE_TIMEOUT)
    try:
        return msgspec.convert(client.post(path, body), ConfigChangeResult)
    except GatewayRefused as refused:
        if refused.status == 422:  # the same error as for a file that is read here
            raise _not_written(refused.reason) from None
        raise


def _write_change(home: Path, edit: Callable[..., ConfigEdit], *, as_json: bool) -> None:
    try:
        done = edit(check=_make_checker(home))
    except FileChangedMeanwhile:  # its text says what happened to the file
        raise
    except ConfigError as error:
        raise _not_written(error) from None
    done.write()
    warnings = [*done.config.warnings]
    result = ConfigChangeResult(number=0, changes=list(done.changes), warnings=warnings)
    _print_change(home, result, as_json=as_json)


def _not_written(reason: object) -> ConfigError:
    """`reason` names a line of the file as it would have been."""
    return ConfigError(
        "{reason}\nNothing was written: {file} is unchanged.", reason=reason, file=CONFIG_FILE
    )


def _print_change(home: Path, changed: ConfigChangeResult, *, as_json: bool) -> None:
    if as_json:
        print_json(msgspec.to_builtins(changed))
        return
    for warning in changed.warnings:
        click.echo(f"{click.style(_('warning:'), fg='yellow')} {warning}", err=True)
    for each in changed.changes:
        click.echo(_change_text(each))
        if each.overridden_by:
            effect = _("{variable} takes precedence over {file}: no effect").format(
                variable=each.overridden_by, file=CONFIG_FILE
            )
        else:
            effect = _("takes effect {when}").format(when=_(ChangeEffect(each.effect).description))
        click.echo(f"  {effect}")
    _print_summary(home, changed)


def _print_summary(home: Path, changed: ConfigChangeResult) -> None:
    if not changed.changes:
        click.echo(
            _("Nothing changed: {file} already has these values.").format(file=home / CONFIG_FILE)
        )
    elif not changed.number and any(not each.overridden_by for each in changed.changes):
        click.echo(_("No gateway is running: the change applies from the next start."))
    elif changed.number:
        click.echo(
            _("The gateway has applied configuration {number}.").format(number=changed.number)
        )
        if changed.accounts:
            click.echo(
                _("Accounts reconnected, added or removed: {accounts}.").format(
                    accounts=", ".join(changed.accounts)
                )
            )
    if changed.pending_restart:
        click.echo(
            _("Restart required for: {keys}  ({command})").format(
                keys=", ".join(changed.pending_restart),
                command=f"holdfast gateway restart{home_flag(home)}",
            )
        )


def _change_text(change: KeyChange) -> str:
    if change.old == change.new:  # the default was added to the file or removed from it
        return _("{key}: {value}, as before; only {file} changes").format(
            key=change.key, value=_value_text(change.new), file=CONFIG_FILE
        )
    return f"{change.key}: {_value_text(change.old)} → {_value_text(change.new)}"


def _value_text(value: Any) -> str:
    text = _("unset") if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:199]}…"
