"""After an account was written down: the gateway opens it, and its owner is let in."""

from pathlib import Path

import click

from holdfast.cli.common.home import home_flag
from holdfast.cli.platforms.door_person import Prompter
from holdfast.cli.platforms.door_setup import AddedAccount
from holdfast.core.config.settings import DEFAULT_ACCOUNT
from holdfast.core.ports.question import SetupQuestion
from holdfast.system.lock import is_gateway_running

_CODE_QUESTION = SetupQuestion(
    key="code",
    label="The code that it answers with",
    help="It answers your first message with a code, which lets you in.",
    optional=True,
)


def connect_account(home: Path, added: AddedAccount, *, prompter: Prompter | None) -> None:
    """A gateway that runs takes it over. With a person there, the account is then checked, and the
    person let in by a code; else it is said how each is done."""
    if not is_gateway_running(home):
        click.echo(f"Start the gateway:  holdfast run{home_flag(home)}")
        _print_next_steps(home, added)
        return
    from holdfast.cli.config.config_reload import reload_running  # noqa: PLC0415 - only for a running gateway
    from holdfast.cli.platforms.platforms_shown import change_account  # noqa: PLC0415 - as above

    reload_running(home, as_json=False)
    if prompter is None:
        _print_next_steps(home, added)
        return
    change_account(home, _account_name(added), "check", as_json=False)
    if not added.owners and added.draft.settings.pairing:
        _pair_owner(home, added, prompter)


def _pair_owner(home: Path, added: AddedAccount, prompter: Prompter) -> None:
    from holdfast.cli.pairing_shown import print_decision  # noqa: PLC0415 - as above
    from holdfast.server.local.client import ControlClient  # noqa: PLC0415 - as above
    from holdfast.system.paths import Paths  # noqa: PLC0415 - as above

    click.echo(f"\n{_contact_text(added)}")
    if code := prompter.ask(_CODE_QUESTION, default="", hidden=False):
        told = ControlClient(Paths(home)).post("/pairing/approve", {"code": code})
        print_decision(told, as_json=False)


def _print_next_steps(home: Path, added: AddedAccount) -> None:
    option = home_flag(home)
    click.echo(f"Whether it is connected:  holdfast platforms check {_account_name(added)}{option}")
    click.echo(_contact_text(added))
    if not added.owners:
        click.echo("It answers your first message with a code that lets you in:")
        click.echo(f"  holdfast pairing approve CODE{option}")


def _contact_text(added: AddedAccount) -> str:
    known = added.identity
    return f"Write to {known.chat_link or known.name if known is not None else 'it'}."


def _account_name(added: AddedAccount) -> str:
    name, account = added.draft.plugin.name, added.draft.account
    return name if account == DEFAULT_ACCOUNT else f"{name}:{account}"
