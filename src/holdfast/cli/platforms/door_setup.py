"""Setting up an account of a door: asked for, tried, written down, and its owner let in."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from holdfast.cli.common.file_change import show_change
from holdfast.cli.common.output import print_json, wrapped
from holdfast.cli.platforms.door_answers import Answering, Answers, Surroundings
from holdfast.cli.platforms.door_draft import (
    AccountDraft,
    drafted,
    standing_table,
    variables_of_others,
)
from holdfast.cli.platforms.door_person import Person
from holdfast.config.doors import find_door, known_doors
from holdfast.config.dotenv import read_dotenv
from holdfast.config.errors import nearest
from holdfast.config.platforms import is_account_name
from holdfast.config.toml_patch import Value
from holdfast.core.config.home_files import CONFIG_FILE, ENV_FILE
from holdfast.core.errors import ConnectError, ConnectRefused, HoldfastError, SendError
from holdfast.core.ports.door import Door, Known
from holdfast.core.ports.question import Question

_LONGEST_TRIAL = 40.0  # seconds; a person waits


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What was said on the command line."""

    door: str
    account: str
    given: Mapping[str, str]  # keys of the account's table, as texts
    secret_from: str | None = None  # the variable that the first secret is in
    owners: tuple[str, ...] = ()
    test: bool = True
    as_json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SetUp:
    """What came of it."""

    draft: AccountDraft
    known: Known | None  # None: the vendor was not asked
    owners: tuple[str, ...]
    changed: bool


def install(home: Path, wish: Wish, *, person: Person | None, environ: Mapping[str, str]) -> SetUp:
    """Nothing is written before the vendor knows the account, or a person wants it all the same.
    `person` None: nobody is asked anything."""
    door = _door(wish.door)
    if not is_account_name(wish.account):
        raise HoldfastError(f'--account {wish.account}: say letters, digits, "_" and "-".')
    if person is not None and door.guide:
        click.echo(wrapped(door.guide))
    around = Surroundings(
        standing=standing_table(home, door.name, wish.account),
        environ=environ,
        kept=read_dotenv(home / ENV_FILE).values,
        taken=variables_of_others(home, door.name, wish.account),
    )
    answers = _answers(door, wish, around, person)
    owners = _owners(door, wish, around, person)
    answers.values.update(_lists(around, owners))
    draft = drafted(home, door, wish.account, answers, environ=environ)
    known = _tried(draft, person) if wish.test and door.check is not None else None
    if known is not None and not wish.as_json:
        click.echo(f"It is {known.name}.")
        for lack in known.lacks:
            click.echo(click.style(f"It lacks {lack}.", fg="yellow"))
    shown = not wish.as_json and show_change(home / CONFIG_FILE, draft.before, draft.after)
    if shown and person is not None and not person.agrees("Write this?"):
        raise click.Abort
    return SetUp(draft=draft, known=known, owners=owners, changed=draft.write())


def tell(done: SetUp, *, as_json: bool) -> None:
    home, draft, known = done.draft.home, done.draft, done.known
    if as_json:
        print_json(
            {
                "platform": draft.door.name,
                "account": draft.account,
                "changed": done.changed,
                "config": str(home / CONFIG_FILE),
                "variables": sorted(draft.variables),
                "name": known.name if known is not None else None,
                "address": known.at if known is not None else None,
                "lacks": list(known.lacks) if known is not None else [],
                "owners": list(done.owners),
            }
        )
        return
    for variable in draft.variables:
        click.echo(f"{variable} is in {home / ENV_FILE}, for you alone (mode 0600).")
    if not done.changed:
        click.echo("All of it stood there already; nothing was changed.")


def _door(name: str) -> Door[Any]:
    door = find_door(name)
    if door is None:
        names = known_doors()
        near = nearest(name, names)
        meant = f" Did you mean {near}?" if near else ""
        raise HoldfastError(f"There is no door {name!r}.{meant} There are: {', '.join(names)}.")
    if door.open is None:
        raise HoldfastError(f"{name} is there without being set up: `holdfast run` says where.")
    return door


def _answers(door: Door[Any], wish: Wish, around: Surroundings, person: Person | None) -> Answers:
    given = dict(wish.given)
    if wish.secret_from is not None:
        given.setdefault(_first_secret(door), f"env:{wish.secret_from}")
    return Answering(door, wish.account, around, person=person).answers(given)


def _first_secret(door: Door[Any]) -> str:
    secret = next((each.key for each in door.questions if each.secret), None)
    if secret is None:
        raise HoldfastError(f"{door.name} asks for no secret that --key-from-env could be.")
    return secret


def _owners(
    door: Door[Any], wish: Wish, around: Surroundings, person: Person | None
) -> tuple[str, ...]:
    """Who is let in from the beginning, and may run the gateway from there."""
    if wish.owners or person is None or not door.people or around.standing.get("allow"):
        return wish.owners
    asked = Question(
        key="allow",
        label="Who you are there",
        help=f"You can be let in right away, by {door.people}. Else the account answers your first "
        "message with a code.",
        optional=True,
    )
    told = person.tell(asked, offered="", unseen=False)
    return (told,) if told else ()


def _lists(around: Surroundings, owners: Sequence[str]) -> dict[str, Value]:
    """The keys that name people, with the owners among them."""
    lists: dict[str, Value] = {}
    for key in ("allow", "operators"):
        listed = [str(each) for each in around.standing.get(key, ())]
        if new := [owner for owner in owners if owner not in listed]:
            lists[key] = [*listed, *new]
    return lists


def _tried(draft: AccountDraft, person: Person | None) -> Known | None:
    """None: it does not work, and a person wants it all the same."""
    try:
        return asyncio.run(_asked(draft))
    except (ConnectError, SendError, OSError) as error:
        remedy = f" {error.remedy}." if isinstance(error, ConnectRefused) and error.remedy else ""
        told = f"{str(error) or type(error).__name__}.{remedy}"
    if person is None:
        raise HoldfastError(f"The account does not work, and nothing was written: {told}")
    click.echo(click.style(told, fg="red"))
    if not person.agrees("Write it down all the same?", usually=False):
        raise click.Abort
    return None


async def _asked(draft: AccountDraft) -> Known:
    assert draft.door.check is not None, "only such doors are tried"
    async with asyncio.timeout(_LONGEST_TRIAL):
        return await draft.door.check(draft.opening)
