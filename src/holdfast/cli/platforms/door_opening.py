"""After an account was written down: the gateway opens it, and its owner is let in."""

from pathlib import Path

import click

from holdfast.cli.common.home import as_option
from holdfast.cli.platforms.door_person import Person
from holdfast.cli.platforms.door_setup import SetUp
from holdfast.core.config.settings import DEFAULT_ACCOUNT
from holdfast.core.ports.question import Question
from holdfast.system.lock import gateway_runs

_CODE = Question(
    key="code",
    label="The code that it answers with",
    help="It answers your first message with a code, which lets you in.",
    optional=True,
)


def open_account(home: Path, done: SetUp, *, person: Person | None) -> None:
    """A gateway that runs takes it over. With a person there, the account is then checked, and the
    person let in by a code; else it is said how each is done."""
    if not gateway_runs(home):
        click.echo(f"Start the gateway:  holdfast run{as_option(home)}")
        _tell_how(home, done)
        return
    from holdfast.cli.config.config_reload import reload  # noqa: PLC0415 - only for a running gateway
    from holdfast.cli.platforms.platforms_shown import change  # noqa: PLC0415 - as above

    reload(home, as_json=False)
    if person is None:
        _tell_how(home, done)
        return
    change(home, _named(done), "check", as_json=False)
    if not done.owners and done.draft.settings.pairing:
        _let_in(home, done, person)


def _let_in(home: Path, done: SetUp, person: Person) -> None:
    from holdfast.cli.pairing_shown import print_decided  # noqa: PLC0415 - as above
    from holdfast.server.local.client import ControlClient  # noqa: PLC0415 - as above
    from holdfast.system.paths import Paths  # noqa: PLC0415 - as above

    click.echo(f"\n{_where(done)}")
    if code := person.tell(_CODE, offered="", unseen=False):
        told = ControlClient(Paths(home)).post("/pairing/approve", {"code": code})
        print_decided(told, as_json=False)


def _tell_how(home: Path, done: SetUp) -> None:
    option = as_option(home)
    click.echo(f"Whether it is connected:  holdfast platforms check {_named(done)}{option}")
    click.echo(_where(done))
    if not done.owners:
        click.echo("It answers your first message with a code that lets you in:")
        click.echo(f"  holdfast pairing approve CODE{option}")


def _where(done: SetUp) -> str:
    known = done.known
    return f"Write to {known.at or known.name if known is not None else 'it'}."


def _named(done: SetUp) -> str:
    name, account = done.draft.door.name, done.draft.account
    return name if account == DEFAULT_ACCOUNT else f"{name}:{account}"
