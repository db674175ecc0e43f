"""Setting up an account of a door: asked for, tried, written down, and its owner let in."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from holdfast.cli.common.file_change import print_file_diff
from holdfast.cli.common.output import print_json, wrap_text
from holdfast.cli.platforms.door_answers import AccountAnswers, AccountQuestionnaire, KnownSettings
from holdfast.cli.platforms.door_draft import (
    AccountDraft,
    current_table,
    draft_account,
    variables_used_elsewhere,
)
from holdfast.cli.platforms.door_person import Prompter
from holdfast.config.doors import find_plugin, plugin_names
from holdfast.config.dotenv import read_dotenv
from holdfast.config.errors import closest_match
from holdfast.config.platforms import is_account_name
from holdfast.config.toml_patch import TomlValue
from holdfast.core.config.home_files import CONFIG_FILE, ENV_FILE
from holdfast.core.errors import ConnectError, ConnectRefused, HoldfastError, SendError
from holdfast.core.ports.door import AccountIdentity, PlatformPlugin
from holdfast.core.ports.question import SetupQuestion

_TEST_TIMEOUT = 40.0  # seconds; a person waits


@dataclass(frozen=True, slots=True, kw_only=True)
class AddAccountOptions:
    """What was said on the command line."""

    platform: str
    account: str
    settings: Mapping[str, str]  # keys of the account's table, as texts
    secret_from: str | None = None  # the variable that the first secret is in
    owners: tuple[str, ...] = ()
    test: bool = True
    as_json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedAccount:
    """What came of it."""

    draft: AccountDraft
    identity: AccountIdentity | None  # None: the vendor was not asked
    owners: tuple[str, ...]
    changed: bool


def add_account(
    home: Path, options: AddAccountOptions, *, prompter: Prompter | None, environ: Mapping[str, str]
) -> AddedAccount:
    """Nothing is written before the vendor knows the account, or a person wants it all the same.
    `person` None: nobody is asked anything."""
    door = _find_plugin(options.platform)
    if not is_account_name(options.account):
        raise HoldfastError(f'--account {options.account}: say letters, digits, "_" and "-".')
    if prompter is not None and door.setup_guide:
        click.echo(wrap_text(door.setup_guide))
    around = KnownSettings(
        current=current_table(home, door.name, options.account),
        environ=environ,
        dotenv=read_dotenv(home / ENV_FILE).values,
        reserved_variables=variables_used_elsewhere(home, door.name, options.account),
    )
    answers = _collect_answers(door, options, around, prompter)
    owners = _ask_owners(door, options, around, prompter)
    answers.values.update(_access_lists(around, owners))
    draft = draft_account(home, door, options.account, answers, environ=environ)
    known = _test_account(draft, prompter) if options.test and door.check is not None else None
    if known is not None and not options.as_json:
        click.echo(f"It is {known.name}.")
        for lack in known.missing_grants:
            click.echo(click.style(f"It lacks {lack}.", fg="yellow"))
    shown = not options.as_json and print_file_diff(home / CONFIG_FILE, draft.before, draft.after)
    if shown and prompter is not None and not prompter.confirm("Write this?"):
        raise click.Abort
    return AddedAccount(draft=draft, identity=known, owners=owners, changed=draft.write())


def print_added(added: AddedAccount, *, as_json: bool) -> None:
    home, draft, known = added.draft.home, added.draft, added.identity
    if as_json:
        print_json(
            {
                "platform": draft.plugin.name,
                "account": draft.account,
                "changed": added.changed,
                "config": str(home / CONFIG_FILE),
                "variables": sorted(draft.variables),
                "name": known.name if known is not None else None,
                "address": known.chat_link if known is not None else None,
                "lacks": list(known.missing_grants) if known is not None else [],
                "owners": list(added.owners),
            }
        )
        return
    for variable in draft.variables:
        click.echo(f"{variable} is in {home / ENV_FILE}, for you alone (mode 0600).")
    if not added.changed:
        click.echo("All of it stood there already; nothing was changed.")


def _find_plugin(name: str) -> PlatformPlugin[Any]:
    door = find_plugin(name)
    if door is None:
        names = plugin_names()
        near = closest_match(name, names)
        meant = f" Did you mean {near}?" if near else ""
        raise HoldfastError(f"There is no door {name!r}.{meant} There are: {', '.join(names)}.")
    if door.open is None:
        raise HoldfastError(f"{name} is there without being set up: `holdfast run` says where.")
    return door


def _collect_answers(
    plugin: PlatformPlugin[Any],
    options: AddAccountOptions,
    known: KnownSettings,
    prompter: Prompter | None,
) -> AccountAnswers:
    given = dict(options.settings)
    if options.secret_from is not None:
        given.setdefault(_first_secret_key(plugin), f"env:{options.secret_from}")
    return AccountQuestionnaire(plugin, options.account, known, prompter=prompter).collect(given)


def _first_secret_key(plugin: PlatformPlugin[Any]) -> str:
    secret = next((each.key for each in plugin.setup_questions if each.secret), None)
    if secret is None:
        raise HoldfastError(f"{plugin.name} asks for no secret that --key-from-env could be.")
    return secret


def _ask_owners(
    plugin: PlatformPlugin[Any],
    options: AddAccountOptions,
    known: KnownSettings,
    prompter: Prompter | None,
) -> tuple[str, ...]:
    """Who is let in from the beginning, and may run the gateway from there."""
    if options.owners or prompter is None or not plugin.user_id_help or known.current.get("allow"):
        return options.owners
    asked = SetupQuestion(
        key="allow",
        label="Who you are there",
        help=f"You can be let in right away, by {plugin.user_id_help}. Else the account answers your first "
        "message with a code.",
        optional=True,
    )
    told = prompter.ask(asked, default="", hidden=False)
    return (told,) if told else ()


def _access_lists(known: KnownSettings, owners: Sequence[str]) -> dict[str, TomlValue]:
    """The keys that name people, with the owners among them."""
    lists: dict[str, TomlValue] = {}
    for key in ("allow", "operators"):
        listed = [str(each) for each in known.current.get(key, ())]
        if new := [owner for owner in owners if owner not in listed]:
            lists[key] = [*listed, *new]
    return lists


def _test_account(draft: AccountDraft, prompter: Prompter | None) -> AccountIdentity | None:
    """None: it does not work, and a person wants it all the same."""
    try:
        return asyncio.run(_check_account(draft))
    except (ConnectError, SendError, OSError) as error:
        remedy = f" {error.remedy}." if isinstance(error, ConnectRefused) and error.remedy else ""
        told = f"{str(error) or type(error).__name__}.{remedy}"
    if prompter is None:
        raise HoldfastError(f"The account does not work, and nothing was written: {told}")
    click.echo(click.style(told, fg="red"))
    if not prompter.confirm("Write it down all the same?", default=False):
        raise click.Abort
    return None


async def _check_account(draft: AccountDraft) -> AccountIdentity:
    assert draft.plugin.check is not None, "only such doors are tried"
    async with asyncio.timeout(_TEST_TIMEOUT):
        return await draft.plugin.check(draft.plugin_context)
