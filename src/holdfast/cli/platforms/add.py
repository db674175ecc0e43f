"""`holdfast platforms add`: collects the settings of an account, tests it, writes it, connects it, and pairs its owner.

holdfast.toml and .env are both written or neither, and not before the platform has accepted the account.
"""

import asyncio
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from holdfast.cli.common.config_files import print_file_diff, set_env_variable
from holdfast.cli.common.options import home_flag
from holdfast.cli.common.output import print_json, wrap_text
from holdfast.cli.platforms.prompts import (
    AccountAnswers,
    AccountQuestionnaire,
    KnownSettings,
    Prompter,
)
from holdfast.config import load_settings, prepare_home
from holdfast.config.document import ConfigDocument, RawConfig, read_document, read_text
from holdfast.config.environment import read_dotenv
from holdfast.config.errors import closest_match
from holdfast.config.files import mode_of, write_atomically
from holdfast.config.platforms import (
    ACCOUNTS,
    check_platforms,
    convert_platforms,
    find_plugin,
    is_account_name,
    plugin_names,
)
from holdfast.config.secrets import resolve_secrets
from holdfast.config.toml_edit import TomlValue, UnpatchableToml, patch_table
from holdfast.core.config.settings import DEFAULT_ACCOUNT, PlatformSettings, Settings, account_table
from holdfast.core.config.versions import CONFIG_FILE, ENV_FILE
from holdfast.core.errors import ConnectError, ConnectRefused, HoldfastError, SendError
from holdfast.core.ports.platform_plugin import (
    AccountIdentity,
    PlatformPlugin,
    PluginContext,
    SetupQuestion,
)
from holdfast.core.secrets import Secret
from holdfast.system.clock import IdGenerator, SystemClock
from holdfast.system.lock import is_gateway_running
from holdfast.system.paths import Paths

# MERGED holdfast.cli.platforms.door_draft: An account on its way into the home: checked as it will stand there, and written whole.
_ENV_REFERENCE = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileBackup:
    """A file as it was; `text` None: there was none."""

    path: Path
    text: str | None
    mode: int

    @classmethod
    def read(cls, path: Path) -> "_FileBackup":
        if not path.exists():
            return cls(path=path, text=None, mode=0o600)
        return cls(path=path, text=path.read_bytes().decode(), mode=path.stat().st_mode & 0o777)

    def restore(self) -> None:
        if self.text is None:
            self.path.unlink(missing_ok=True)
        else:
            write_atomically(self.path, self.text, mode=self.mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountDraft:
    """What the files of the home are to be, and the account that they make."""

    home: Path
    plugin: PlatformPlugin[Any]
    account: str
    before: str
    after: str
    variables: Mapping[str, Secret]  # to be kept in `.env`
    settings: PlatformSettings
    secrets: Mapping[str, Secret]

    @property
    def plugin_context(self) -> PluginContext[Any]:
        clock = SystemClock()
        return PluginContext(
            account=self.account,
            settings=self.settings,
            secrets=self.secrets,
            folder=Paths(self.home).platforms / self.plugin.name / self.account,
            clock=clock,
            new_id=IdGenerator(clock=clock),
        )

    def write(self) -> bool:
        """Both files, or neither: whatever comes in between, Ctrl-C too, they are put back. False:
        all of it stood there already."""
        prepare_home(self.home)
        config, env = self.home / CONFIG_FILE, self.home / ENV_FILE
        old = [_FileBackup.read(path) for path in (env, config)]
        try:
            kept = [
                set_env_variable(env, name, value.reveal())
                for name, value in self.variables.items()
            ]
            if self.after != self.before:
                write_atomically(config, self.after, mode=mode_of(config))
            load_settings(self.home)
        except BaseException:
            for each in old:
                each.restore()
            raise
        return any(kept) or self.after != self.before


def current_table(home: Path, name: str, account: str) -> Mapping[str, Any]:
    """What holdfast.toml says of an account now."""
    found: Any = read_document(home / CONFIG_FILE).tree
    for part in account_table(name, account).split("."):
        found = found.get(part, {}) if isinstance(found, dict) else {}
    return found if isinstance(found, dict) else {}


def variables_used_elsewhere(home: Path, name: str, account: str) -> frozenset[str]:
    """The variables that anything but this account refers to."""
    own = account_table(name, account)
    found = _find_references(read_document(home / CONFIG_FILE).tree, "")
    return frozenset(
        variable
        for path, variable in found
        if not path.startswith(f"{own}.")
        or (account == DEFAULT_ACCOUNT and path.startswith(f"{own}.accounts."))
    )


def draft_account(
    home: Path,
    plugin: PlatformPlugin[Any],
    account: str,
    answers: AccountAnswers,
    *,
    environ: Mapping[str, str],
) -> AccountDraft:
    """Raises what a start would say of such an account. Nothing is written."""
    path = home / CONFIG_FILE
    before = read_text(path) or ""
    values = _changed_values(current_table(home, plugin.name, account), answers.values)
    table = account_table(plugin.name, account)
    after = _patch_tables(path, before, table, values) if values else before
    draft = RawConfig(ConfigDocument(path=path, text=after, tree=tomllib.loads(after)))
    check_platforms(draft)
    whole = convert_platforms(draft)[plugin.name]
    known = read_dotenv(home / ENV_FILE).values
    told = {name: value.reveal() for name, value in answers.secrets.items()}
    alone = Settings(platforms={plugin.name: _only_account(whole, account)})
    variables = {**known, **environ, **told}
    resolved = resolve_secrets(draft, alone, home=home, variables=variables)
    own = f"{account_table(plugin.name, account)}."
    return AccountDraft(
        home=home,
        plugin=plugin,
        account=account,
        before=before,
        after=after,
        variables=answers.secrets,
        settings=whole if account == DEFAULT_ACCOUNT else whole.accounts[account],
        secrets={key.removeprefix(own): value for key, value in resolved.secrets.items()},
    )


def _only_account(whole: PlatformSettings, account: str) -> PlatformSettings:
    """Without the other accounts: their secrets may be in no shell but the service's."""
    if account == DEFAULT_ACCOUNT:
        return msgspec.structs.replace(whole, accounts={})
    only = {account: whole.accounts[account]}
    return msgspec.structs.replace(whole, enabled=False, accounts=only)


def _changed_values(
    current: Mapping[str, Any], values: Mapping[str, TomlValue]
) -> Mapping[str, TomlValue]:
    """What differs from what stands there; an account that is set up is also switched on."""
    changed = {key: value for key, value in values.items() if _lookup(current, key) != value}
    own = {key: value for key, value in current.items() if key != ACCOUNTS}
    if current.get("enabled") is False or not (changed or own):
        changed["enabled"] = True
    return changed


def _lookup(table: Any, key: str) -> Any:
    for part in key.split("."):
        table = table.get(part) if isinstance(table, dict) else None
    return table


def _patch_tables(path: Path, before: str, table: str, values: Mapping[str, TomlValue]) -> str:
    tables: dict[str, dict[str, TomlValue | None]] = {table: {}}
    for key, value in values.items():
        inner, _, last = key.rpartition(".")
        tables.setdefault(f"{table}.{inner}" if inner else table, {})[last] = value
    text = before
    try:
        for name, each in tables.items():
            text = patch_table(text, name, each)
    except UnpatchableToml as error:
        wanted = "\n\n".join(
            patch_table("", name, each).rstrip() for name, each in tables.items() if each
        )
        raise HoldfastError(f"{path}: {error}. Write this there yourself:\n\n{wanted}") from None
    return text


def _find_references(node: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _find_references(value, f"{path}.{key}" if path else key)
    elif isinstance(node, list):
        for value in node:
            yield from _find_references(value, path)
    elif isinstance(node, str) and (refers := _ENV_REFERENCE.fullmatch(node)):
        yield path, refers[1]


# MERGED holdfast.cli.platforms.door_setup: Setting up an account of a door: asked for, tried, written down, and its owner let in.
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


# MERGED holdfast.cli.platforms.door_opening: After an account was written down: the gateway opens it, and its owner is let in.
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
    from holdfast.cli.config.command import reload_running  # noqa: PLC0415 - only for a running gateway
    from holdfast.cli.platforms.command import change_account  # noqa: PLC0415 - as above

    reload_running(home, as_json=False)
    if prompter is None:
        _print_next_steps(home, added)
        return
    change_account(home, _account_name(added), "check", as_json=False)
    if not added.owners and added.draft.settings.pairing:
        _pair_owner(home, added, prompter)


def _pair_owner(home: Path, added: AddedAccount, prompter: Prompter) -> None:
    from holdfast.cli.pairing import print_decision  # noqa: PLC0415 - as above
    from holdfast.server.local.control_client import ControlClient  # noqa: PLC0415 - as above
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
