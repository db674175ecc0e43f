"""`holdfast platforms`: lists, checks, pauses and resumes platform accounts."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import msgspec

from holdfast.cli.common.options import chosen_home, home_option
from holdfast.cli.common.output import json_option, print_json, print_table, sanitize
from holdfast.cli.status.command import account_text
from holdfast.config import load_settings
from holdfast.config.platforms import PluginUnusable, find_plugin, shadowed_plugins
from holdfast.core.config.settings import DEFAULT_ACCOUNT
from holdfast.core.ops.account import AccountState
from holdfast.core.ops.status import AccountStatus
from holdfast.server.api.views.gateway import AccountList, AccountView
from holdfast.server.local.control_client import ControlClient, GatewayDown
from holdfast.system import exit_codes
from holdfast.system.paths import Paths

# MERGED holdfast.cli.platforms.platforms: `holdfast platforms`: the accounts of chat platforms, how each stands, pausing and resuming.
_account_argument = click.argument("account", metavar="PLATFORM[:ACCOUNT]")


@click.group("platforms")
@home_option
def command() -> None:
    """Look after the accounts of chat platforms.

    \b
      holdfast platforms list
      holdfast platforms check telegram
      holdfast platforms pause telegram:work

    An account is named PLATFORM:ACCOUNT; without ACCOUNT, "default" is meant. The running gateway
    is asked; without one, `list` shows what the configuration has.
    """


@command.command("list")
@home_option
@json_option
def list_accounts(as_json: bool) -> None:
    """Show every account, and how it stands.

    Whether it is connected, and if not, why and when it is tried next.
    """

    print_accounts(chosen_home(), as_json=as_json)


@command.command("check")
@home_option
@json_option
@click.argument("account", metavar="[PLATFORM[:ACCOUNT]]", required=False)
def check(account: str | None, as_json: bool) -> None:
    """Have a round trip now, or try to connect.

    Without a name, of every account that is not paused. Exits with 1 if one is not connected.
    """

    check_accounts(chosen_home(), account, as_json=as_json)


@command.command("pause")
@home_option
@json_option
@_account_argument
def pause(account: str, as_json: bool) -> None:
    """Let an account go until it is resumed.

    It stays paused over restarts. Turns that run go on; what they answer waits, and so does what
    people write, where the platform keeps it.
    """

    change_account(chosen_home(), account, "pause", as_json=as_json)


@command.command("resume")
@home_option
@json_option
@_account_argument
def resume(account: str, as_json: bool) -> None:
    """Connect an account again.

    One that was paused or refused, or that waits for its next try. Exits with 1 if it could not be
    connected.
    """

    change_account(chosen_home(), account, "resume", as_json=as_json)


# MERGED holdfast.cli.platforms.platforms_shown: Accounts of platforms as the command line shows, checks and changes them.
_GATEWAY_DOWN = "The gateway does not run; these are the accounts of the configuration."
_NO_ACCOUNTS = "No account of a platform is set up: `holdfast setup --door telegram` is one way."
_RELOAD_HINT = (
    "What you change in the settings is taken over when it is saved; a secret in a file of its own "
    "by: holdfast config reload"
)


def print_accounts(home: Path, *, as_json: bool) -> None:
    try:
        accounts = _fetch_accounts(home)
    except GatewayDown:
        _print_configured(home, as_json=as_json)
        return
    if as_json:
        print_json(msgspec.to_builtins(accounts))
    else:
        _print_account_table(accounts)
        _print_shadowed_plugins()


def check_accounts(home: Path, account: str | None, *, as_json: bool) -> None:
    """Exits with 1 unless every one of them is connected."""
    if account is not None:
        checked = [_request_account(home, account, "check")]
    else:
        wanted = [each for each in _fetch_accounts(home) if each.state is not AccountState.PAUSED]
        checked = [
            _request_account(home, f"{each.name}:{each.account}", "check") for each in wanted
        ]
    if as_json:
        print_json(msgspec.to_builtins(checked))
    else:
        _print_account_table(checked)
    sys.exit(exit_codes.OK if all(each.connected for each in checked) else exit_codes.FAILED)


def change_account(home: Path, account: str, action: str, *, as_json: bool) -> None:
    """Exits with 1 where it is resumed and still not connected."""
    view = _request_account(home, account, action)
    if as_json:
        print_json(msgspec.to_builtins(view))
    else:
        click.echo(f"{_account_name(view)} is {sanitize(_state_text(view))}.")
        _print_remedy(view)
        _print_reload_hint([view])
    if action == "resume" and not view.connected:
        sys.exit(exit_codes.FAILED)


def _fetch_accounts(home: Path) -> list[AccountView]:
    document = ControlClient(Paths(home)).get("/platforms")
    return msgspec.convert(document, AccountList).accounts


def _request_account(home: Path, account_name: str, action: str) -> AccountView:
    name, _, account = account_name.partition(":")
    parts = [quote(part, safe="") or "-" for part in (name, account or DEFAULT_ACCOUNT)]
    document = ControlClient(Paths(home)).post(f"/platforms/{'/'.join(parts)}/{action}")
    return msgspec.convert(document, AccountView)


def _print_account_table(accounts: Sequence[AccountView]) -> None:
    rows = [
        [_account_name(each), sanitize(each.backlog), sanitize(_state_text(each, with_error=False))]
        for each in accounts
    ]
    print_table(["ACCOUNT", "BACKLOG", "STANDS"], rows)
    for each in accounts:  # below the table: a terminal would cut a reason where its line ends
        if each.error:
            click.echo(f"{click.style(_account_name(each), bold=True)}: {sanitize(each.error)}")
        for lack in each.missing_grants:
            click.echo(f"{click.style(_account_name(each), bold=True)} lacks {sanitize(lack)}.")
        _print_remedy(each)
    _print_reload_hint(accounts)


def _print_reload_hint(accounts: Sequence[AccountView]) -> None:
    """Whoever has mended a password in its file and asks again would be told of the old one."""
    if any(each.state is AccountState.BLOCKED for each in accounts):
        click.echo(_RELOAD_HINT, err=True)


def _account_name(view: AccountView) -> str:
    return f"{sanitize(view.name)}:{sanitize(view.account)}"


def _print_remedy(view: AccountView) -> None:
    if view.remedy:
        click.echo(
            f"{click.style(_account_name(view), bold=True)}: {sanitize(view.remedy)}", err=True
        )


def _state_text(view: AccountView, *, with_error: bool = True) -> str:
    if view.in_process and view.connected:
        return "here"
    given = msgspec.structs.asdict(view) | ({} if with_error else {"error": ""})
    facts = {name: given[name] for name in AccountStatus.__struct_fields__ if name in given}
    return account_text(AccountStatus(**facts), now=time.time())


def _print_configured(home: Path, *, as_json: bool) -> None:
    found: list[dict[str, Any]] = [
        {"name": name, "account": account, "enabled": each.enabled, "state": None}
        for name, account, each in load_settings(home).all_accounts()
    ]
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo(_NO_ACCOUNTS)
        _print_shadowed_plugins()
        return
    click.echo(_GATEWAY_DOWN, err=True)
    rows = [[f"{each['name']}:{each['account']}", _configured_state(each)] for each in found]
    print_table(["ACCOUNT", "IS"], rows)
    _print_shadowed_plugins()


def _configured_state(account: dict[str, Any]) -> str:
    if not account["enabled"]:
        return "switched off"
    try:
        find_plugin(account["name"])
    except PluginUnusable as error:
        return f"enabled, and cannot be used: {sanitize(str(error))}"
    return "enabled"


def _print_shadowed_plugins() -> None:
    for name, package in shadowed_plugins().items():
        click.echo(
            f"{name}: the package {sanitize(package)} brings a door of this name, too. Holdfast's own "
            "is used; that one needs another name.",
            err=True,
        )
