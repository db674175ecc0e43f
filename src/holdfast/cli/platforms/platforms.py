"""`holdfast platforms`: the accounts of chat platforms, how each stands, pausing and resuming."""

import click

from holdfast.cli.common.home import chosen_home, home_option
from holdfast.cli.common.output import json_option

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
    from holdfast.cli.platforms.platforms_shown import print_accounts  # noqa: PLC0415 - not for --help

    print_accounts(chosen_home(), as_json=as_json)


@command.command("check")
@home_option
@json_option
@click.argument("account", metavar="[PLATFORM[:ACCOUNT]]", required=False)
def check(account: str | None, as_json: bool) -> None:
    """Have a round trip now, or try to connect.

    Without a name, of every account that is not paused. Exits with 1 if one is not connected.
    """
    from holdfast.cli.platforms.platforms_shown import check_accounts  # noqa: PLC0415 - not for --help

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
    from holdfast.cli.platforms.platforms_shown import change_account  # noqa: PLC0415 - not for --help

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
    from holdfast.cli.platforms.platforms_shown import change_account  # noqa: PLC0415 - not for --help

    change_account(chosen_home(), account, "resume", as_json=as_json)
