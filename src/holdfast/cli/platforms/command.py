"""`holdfast platforms`: adds, lists, checks, pauses and resumes platform accounts."""

import os
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
from holdfast.cli.status.rows import account_text
from holdfast.config import load_settings
from holdfast.config.platforms import PluginUnusable, find_plugin, plugin_names, shadowed_plugins
from holdfast.core.config.settings import DEFAULT_ACCOUNT
from holdfast.core.ops.account import AccountState
from holdfast.core.ops.status import AccountStatus
from holdfast.core.text.translation import _
from holdfast.server.api.views.gateway import AccountList, AccountView
from holdfast.server.local.control_client import ControlClient, GatewayDown
from holdfast.system import exit_codes
from holdfast.system.paths import Paths

_account_argument = click.argument("account", metavar="PLATFORM[:ACCOUNT]")


@click.group("platforms")
@home_option
def command() -> None:
    """Add, show, check, pause or resume accounts of chat platforms.

    \b
      holdfast platforms add telegram
      holdfast platforms list
      holdfast platforms check telegram
      holdfast platforms pause telegram:work

    The name of an account is PLATFORM:ACCOUNT; the default of ACCOUNT is "default". All commands
    except `add` need a running gateway; without one, `list` shows the configured accounts.
    """


@command.command("add")
@home_option
@json_option
@click.argument(
    "platform", metavar="PLATFORM", shell_complete=lambda *args: _complete_platform(args[-1])
)
@click.option("--account", default=DEFAULT_ACCOUNT, show_default=True, help="Name of the account.")
@click.option(
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="A setting of the account. A secret is env:NAME or file:PATH.",
)
@click.option(
    "--owner",
    "owners",
    metavar="ID",
    multiple=True,
    help="Your user id on the platform; it becomes an operator.",
)
@click.option("--base-url", metavar="URL", help="Use this address instead of the platform's.")
@click.option(
    "--key-from-env", metavar="NAME", help="Take the secret from this variable and save it in .env."
)
@click.option("--no-test", is_flag=True, help="Do not test the account.")
def add(
    platform: str,
    account: str,
    settings: tuple[str, ...],
    owners: tuple[str, ...],
    base_url: str | None,
    key_from_env: str | None,
    no_test: bool,
    as_json: bool,
) -> None:
    """Add an account of a chat platform: ask for its settings, test them and save them.

    Secrets are written to .env in the home, which only you can read. Settings given by --set are
    not asked for; with --json, or without a terminal, no question is asked. A running gateway
    connects the account at once.

    \b
    Examples:
      holdfast platforms add telegram
      holdfast platforms add slack --account work --set token=env:BOT --set app_token=env:APP
    """
    # Imported here: not for --help, and `platforms.add` uses this module.
    from holdfast.cli.platforms.add import (  # noqa: PLC0415
        AddAccountOptions,
        add_account,
        connect_account,
        print_added,
    )
    from holdfast.cli.platforms.prompts import TerminalPrompter  # noqa: PLC0415

    home = chosen_home()
    prompter = TerminalPrompter() if sys.stdin.isatty() and not as_json else None
    given = dict(_parse_setting(each) for each in settings)
    if base_url:
        given["base_url"] = base_url
    options = AddAccountOptions(
        platform=platform,
        account=account,
        settings=given,
        secret_from=key_from_env,
        owners=owners,
        test=not no_test,
        as_json=as_json,
    )
    added = add_account(home, options, prompter=prompter, environ=os.environ)
    print_added(added, as_json=as_json)
    if not as_json:
        connect_account(home, added, prompter=prompter)


def _parse_setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise click.UsageError(_("--set {text}: Write KEY=VALUE.").format(text=text))
    return key, value


def _complete_platform(incomplete: str) -> list[str]:
    return [name for name in plugin_names() if name.startswith(incomplete)]


@command.command("list")
@home_option
@json_option
def list_accounts(as_json: bool) -> None:
    """List all accounts with their state.

    If an account is not connected, shows why, and when the next attempt is.
    """
    print_accounts(chosen_home(), as_json=as_json)


@command.command("check")
@home_option
@json_option
@click.argument("account", metavar="[PLATFORM[:ACCOUNT]]", required=False)
def check(account: str | None, as_json: bool) -> None:
    """Check the connection of an account now, or try to connect it.

    Without a name, checks every account that is not paused. Exits with 1 if an account is not
    connected.
    """
    check_accounts(chosen_home(), account, as_json=as_json)


@command.command("pause")
@home_option
@json_option
@_account_argument
def pause(account: str, as_json: bool) -> None:
    """Disconnect an account until it is resumed.

    It stays paused when the gateway restarts. Running turns continue; their answers wait, and so
    do new messages if the platform keeps them.
    """
    change_account(chosen_home(), account, "pause", as_json=as_json)


@command.command("resume")
@home_option
@json_option
@_account_argument
def resume(account: str, as_json: bool) -> None:
    """Connect an account again.

    The account may be paused or refused, or wait for its next attempt. Exits with 1 if it could
    not be connected.
    """
    change_account(chosen_home(), account, "resume", as_json=as_json)


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
        checked = [
            _request_account(home, f"{each.name}:{each.account}", "check")
            for each in _fetch_accounts(home)
            if each.state is not AccountState.PAUSED
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
        click.echo(
            _("{account} is {state}.").format(
                account=_account_name(view), state=sanitize(_state_text(view))
            )
        )
        _print_remedy(view)
        _print_reload_hint([view])
    if action == "resume" and not view.connected:
        sys.exit(exit_codes.FAILED)


def _fetch_accounts(home: Path) -> list[AccountView]:
    document = ControlClient(Paths(home)).get("/platforms")
    return msgspec.convert(document, AccountList).accounts


def _request_account(home: Path, account_name: str, action: str) -> AccountView:
    name, _colon, account = account_name.partition(":")
    parts = [quote(part, safe="") or "-" for part in (name, account or DEFAULT_ACCOUNT)]
    document = ControlClient(Paths(home)).post(f"/platforms/{'/'.join(parts)}/{action}")
    return msgspec.convert(document, AccountView)


def _print_account_table(accounts: Sequence[AccountView]) -> None:
    rows = [
        [_account_name(each), sanitize(each.backlog), sanitize(_state_text(each, with_error=False))]
        for each in accounts
    ]
    print_table([_("ACCOUNT"), _("BACKLOG"), _("STATE")], rows)
    for each in accounts:  # below the table, where a terminal does not truncate a reason
        if each.error:
            click.echo(f"{click.style(_account_name(each), bold=True)}: {sanitize(each.error)}")
        for grant in each.missing_grants:
            click.echo(
                _("{account} is missing {grant}.").format(
                    account=click.style(_account_name(each), bold=True), grant=sanitize(grant)
                )
            )
        _print_remedy(each)
    _print_reload_hint(accounts)


def _print_reload_hint(accounts: Sequence[AccountView]) -> None:
    """Without a reload, a check would still use the old password of a file that was corrected."""
    if any(each.state is AccountState.BLOCKED for each in accounts):
        text = _(
            "The gateway applies changed settings when you save them. After a change of a file "
            "with a secret, run `holdfast config reload`."
        )
        click.echo(text, err=True)


def _account_name(view: AccountView) -> str:
    return f"{sanitize(view.name)}:{sanitize(view.account)}"


def _print_remedy(view: AccountView) -> None:
    if view.remedy:
        click.echo(
            f"{click.style(_account_name(view), bold=True)}: {sanitize(view.remedy)}", err=True
        )


def _state_text(view: AccountView, *, with_error: bool = True) -> str:
    if view.built_in and view.connected:
        return _("built in")
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
        click.echo(
            _("No account is set up. Add one, for example: `holdfast platforms add telegram`.")
        )
        _print_shadowed_plugins()
        return
    click.echo(_("No gateway is running; these are the configured accounts."), err=True)
    rows = [[f"{each['name']}:{each['account']}", _configured_state(each)] for each in found]
    print_table([_("ACCOUNT"), _("STATE")], rows)
    _print_shadowed_plugins()


def _configured_state(account: dict[str, Any]) -> str:
    if not account["enabled"]:
        return _("disabled")
    try:
        find_plugin(account["name"])
    except PluginUnusable as error:
        return _("enabled, but unusable: {error}").format(error=sanitize(error.for_person()))
    return _("enabled")


def _print_shadowed_plugins() -> None:
    for name, package in shadowed_plugins().items():
        click.echo(
            _(
                "{name}: package {package} also provides a platform named {name}. Holdfast's own "
                "platform is used; the other one needs another name."
            ).format(name=name, package=sanitize(package)),
            err=True,
        )
