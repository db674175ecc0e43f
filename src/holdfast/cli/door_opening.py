"""After an account was written down: the gateway opens it, and its owner is let in."""

from pathlib import Path

import click

from holdfast.cli.door_person import Person
from holdfast.cli.door_setup import SetUp
from holdfast.cli.home import as_option
from holdfast.core.question import Question
from holdfast.core.settings import DEFAULT_ACCOUNT
from holdfast.service.lock import read_holder

_CODE = Question(
    key="code",
    label="The code that it answers with",
    help="It answers your first message with a code, which lets you in.",
    optional=True,
)


def open_account(home: Path, done: SetUp, *, person: Person | None) -> None:
    """Where a gateway runs and a person wants it so, it is restarted, the account checked, and the
    person let in by a code; else it is said how each is done."""
    holder = read_holder(home)
    running = holder is not None and holder.purpose == "gateway"
    if not (running and person is not None and person.agrees("Restart the gateway now?")):
        _tell_how(home, done, running=running)
        return
    from holdfast.cli.platforms_shown import change  # noqa: PLC0415 - only for a running gateway
    from holdfast.cli.service_driving import restart  # noqa: PLC0415 - as above

    restart(home, mode=None, timeout=120.0, as_json=False)
    change(home, _named(done), "check", as_json=False)
    if not done.owners and done.draft.settings.pairing:
        _let_in(home, done, person)


def _let_in(home: Path, done: SetUp, person: Person) -> None:
    from holdfast.cli.pairing_shown import print_decided  # noqa: PLC0415 - as above
    from holdfast.control.client import ControlClient  # noqa: PLC0415 - as above
    from holdfast.service.paths import Paths  # noqa: PLC0415 - as above

    click.echo(f"\n{_where(done)}")
    if code := person.tell(_CODE, offered="", unseen=False):
        told = ControlClient(Paths(home)).post("/pairing/approve", {"code": code})
        print_decided(told, as_json=False)


def _tell_how(home: Path, done: SetUp, *, running: bool) -> None:
    option = as_option(home)
    begin = "gateway restart" if running else "run"
    click.echo(f"Start the gateway{' anew' if running else ''}:  holdfast {begin}{option}")
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
