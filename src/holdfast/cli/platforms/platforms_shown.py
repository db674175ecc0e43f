"""Accounts of platforms as the command line shows, checks and changes them."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import msgspec

from holdfast.cli.common.harmless import safe
from holdfast.cli.common.output import print_json, print_table
from holdfast.cli.status.account_told import account_told
from holdfast.config import load_settings
from holdfast.config.doors import DoorUnusable, find_door, outdone
from holdfast.core.config.settings import DEFAULT_ACCOUNT
from holdfast.core.ops.account import AccountState
from holdfast.core.ops.facts import PlatformFacts
from holdfast.server.api.views.account_views import AccountList, AccountView
from holdfast.server.local.client import ControlClient, GatewayDown
from holdfast.system import exits
from holdfast.system.paths import Paths

_DOWN = "The gateway does not run; these are the accounts of the configuration."
_NONE = "No account of a platform is set up: `holdfast setup --door telegram` is one way."
_TAKEN_OVER = (
    "What you change in the settings is taken over when it is saved; a secret in a file of its own "
    "by: holdfast config reload"
)


def print_accounts(home: Path, *, as_json: bool) -> None:
    try:
        accounts = _all(home)
    except GatewayDown:
        _print_configured(home, as_json=as_json)
        return
    if as_json:
        print_json(msgspec.to_builtins(accounts))
    else:
        _print(accounts)
        _print_outdone()


def check_accounts(home: Path, account: str | None, *, as_json: bool) -> None:
    """Exits with 1 unless every one of them is connected."""
    if account is not None:
        checked = [_ask(home, account, "check")]
    else:
        wanted = [each for each in _all(home) if each.state is not AccountState.PAUSED]
        checked = [_ask(home, f"{each.name}:{each.account}", "check") for each in wanted]
    if as_json:
        print_json(msgspec.to_builtins(checked))
    else:
        _print(checked)
    sys.exit(exits.OK if all(each.connected for each in checked) else exits.FAILED)


def change(home: Path, account: str, do: str, *, as_json: bool) -> None:
    """Exits with 1 where it is resumed and still not connected."""
    view = _ask(home, account, do)
    if as_json:
        print_json(msgspec.to_builtins(view))
    else:
        click.echo(f"{_name(view)} is {safe(_told(view))}.")
        _hint(view)
        _tell_of_settings([view])
    if do == "resume" and not view.connected:
        sys.exit(exits.FAILED)


def _all(home: Path) -> list[AccountView]:
    document = ControlClient(Paths(home)).get("/platforms")
    return msgspec.convert(document, AccountList).accounts


def _ask(home: Path, named: str, do: str) -> AccountView:
    name, _, account = named.partition(":")
    parts = [quote(part, safe="") or "-" for part in (name, account or DEFAULT_ACCOUNT)]
    document = ControlClient(Paths(home)).post(f"/platforms/{'/'.join(parts)}/{do}")
    return msgspec.convert(document, AccountView)


def _print(accounts: Sequence[AccountView]) -> None:
    rows = [[_name(each), safe(each.backlog), safe(_told(each, why=False))] for each in accounts]
    print_table(["ACCOUNT", "BACKLOG", "STANDS"], rows)
    for each in accounts:  # below the table: a terminal would cut a reason where its line ends
        if each.error:
            click.echo(f"{click.style(_name(each), bold=True)}: {safe(each.error)}")
        for lack in each.lacks:
            click.echo(f"{click.style(_name(each), bold=True)} lacks {safe(lack)}.")
        _hint(each)
    _tell_of_settings(accounts)


def _tell_of_settings(accounts: Sequence[AccountView]) -> None:
    """Whoever has mended a password in its file and asks again would be told of the old one."""
    if any(each.state is AccountState.PARKED for each in accounts):
        click.echo(_TAKEN_OVER, err=True)


def _name(view: AccountView) -> str:
    return f"{safe(view.name)}:{safe(view.account)}"


def _hint(view: AccountView) -> None:
    if view.remedy:
        click.echo(f"{click.style(_name(view), bold=True)}: {safe(view.remedy)}", err=True)


def _told(view: AccountView, *, why: bool = True) -> str:
    if view.here and view.connected:
        return "here"
    given = msgspec.structs.asdict(view) | ({} if why else {"error": ""})
    facts = {name: given[name] for name in PlatformFacts.__struct_fields__ if name in given}
    return account_told(PlatformFacts(**facts), now=time.time())


def _print_configured(home: Path, *, as_json: bool) -> None:
    found: list[dict[str, Any]] = [
        {"name": name, "account": account, "enabled": each.enabled, "state": None}
        for name, account, each in load_settings(home).every_account()
    ]
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo(_NONE)
        _print_outdone()
        return
    click.echo(_DOWN, err=True)
    rows = [[f"{each['name']}:{each['account']}", _configured(each)] for each in found]
    print_table(["ACCOUNT", "IS"], rows)
    _print_outdone()


def _configured(account: dict[str, Any]) -> str:
    if not account["enabled"]:
        return "switched off"
    try:
        find_door(account["name"])
    except DoorUnusable as error:
        return f"enabled, and cannot be used: {safe(str(error))}"
    return "enabled"


def _print_outdone() -> None:
    for name, package in outdone().items():
        click.echo(
            f"{name}: the package {safe(package)} brings a door of this name, too. Holdfast's own "
            "is used; that one needs another name.",
            err=True,
        )
