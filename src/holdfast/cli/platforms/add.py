"""`holdfast platforms add`: collects the settings of an account, tests, writes and connects it.

holdfast.toml and .env are both written or neither, and not before the platform has accepted the
account. After that the owner is paired.
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
from holdfast.cli.common.language import error_text
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
from holdfast.core.text.translation import N_, _
from holdfast.system.clock import IdGenerator, SystemClock
from holdfast.system.lock import is_gateway_running
from holdfast.system.paths import Paths

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
    """The new content of both files of the home, and the account that results from it."""

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
        """Writes both files or neither: after any failure, Ctrl-C too, they are restored. False:
        nothing had to change."""
        prepare_home(self.home)
        config, env = self.home / CONFIG_FILE, self.home / ENV_FILE
        old = [_FileBackup.read(path) for path in (env, config)]
        try:
            written = [
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
        return any(written) or self.after != self.before


def current_table(home: Path, name: str, account: str) -> Mapping[str, Any]:
    """The table of an account in holdfast.toml."""
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
    """Raises the error that a start with this account would raise. Writes nothing."""
    path = home / CONFIG_FILE
    before = read_text(path) or ""
    values = _changed_values(current_table(home, plugin.name, account), answers.values)
    table = account_table(plugin.name, account)
    after = _patch_tables(path, before, table, values) if values else before
    draft = RawConfig(ConfigDocument(path=path, text=after, tree=tomllib.loads(after)))
    check_platforms(draft)
    whole = convert_platforms(draft)[plugin.name]
    known = read_dotenv(home / ENV_FILE).values
    given = {name: value.reveal() for name, value in answers.secrets.items()}
    alone = Settings(platforms={plugin.name: _only_account(whole, account)})
    variables = {**known, **environ, **given}
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
    """Without the other accounts: their secrets may be set for the service only."""
    if account == DEFAULT_ACCOUNT:
        return msgspec.structs.replace(whole, accounts={})
    only = {account: whole.accounts[account]}
    return msgspec.structs.replace(whole, enabled=False, accounts=only)


def _changed_values(
    current: Mapping[str, Any], values: Mapping[str, TomlValue]
) -> Mapping[str, TomlValue]:
    """The settings that differ from the current ones; an added account is also enabled."""
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
        snippet = "\n\n".join(
            patch_table("", name, each).rstrip() for name, each in tables.items() if each
        )
        raise HoldfastError(
            "{file} could not be changed: {error}. Add this yourself:\n\n{snippet}",
            file=path,
            error=error,
            snippet=snippet,
        ) from None
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


_TEST_TIMEOUT = 40.0  # seconds; a person waits


@dataclass(frozen=True, slots=True, kw_only=True)
class AddAccountOptions:
    """The options of the command line."""

    platform: str
    account: str
    settings: Mapping[str, str]  # keys of the account's table, as texts
    secret_from: str | None = None  # the variable that the first secret is in
    owners: tuple[str, ...] = ()
    test: bool = True
    as_json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedAccount:
    """The account that was written, and whether that changed a file."""

    draft: AccountDraft
    identity: AccountIdentity | None  # None: the vendor was not asked
    owners: tuple[str, ...]
    changed: bool


def add_account(
    home: Path, options: AddAccountOptions, *, prompter: Prompter | None, environ: Mapping[str, str]
) -> AddedAccount:
    """Nothing is written before the platform has accepted the account, unless the user confirms it.
    `prompter` None: there is no terminal, and no question is asked."""
    plugin = _find_plugin(options.platform)
    if not is_account_name(options.account):
        raise HoldfastError(
            '--account {account}: an account name has only letters, digits, "_" and "-".',
            account=options.account,
        )
    if prompter is not None and plugin.setup_guide:
        click.echo(wrap_text(_(plugin.setup_guide)))
    known_settings = KnownSettings(
        current=current_table(home, plugin.name, options.account),
        environ=environ,
        dotenv=read_dotenv(home / ENV_FILE).values,
        reserved_variables=variables_used_elsewhere(home, plugin.name, options.account),
    )
    answers = _collect_answers(plugin, options, known_settings, prompter)
    owners = _ask_owners(plugin, options, known_settings, prompter)
    answers.values.update(_access_lists(known_settings, owners))
    draft = draft_account(home, plugin, options.account, answers, environ=environ)
    identity = _test_account(draft, prompter) if options.test and plugin.check is not None else None
    if identity is not None and not options.as_json:
        click.echo(_("The account is {name}.").format(name=identity.name))
        for grant in identity.missing_grants:
            text = _("The account is missing {grant}.").format(grant=grant.for_person())
            click.echo(click.style(text, fg="yellow"))
    shown = not options.as_json and print_file_diff(home / CONFIG_FILE, draft.before, draft.after)
    if shown and prompter is not None and not prompter.confirm(_("Write this?")):
        raise click.Abort
    return AddedAccount(draft=draft, identity=identity, owners=owners, changed=draft.write())


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
                "missing_grants": [*map(str, known.missing_grants)] if known is not None else [],
                "owners": list(added.owners),
            }
        )
        return
    for variable in draft.variables:
        click.echo(
            _("{variable} is in {file}, which only you can read (mode 0600).").format(
                variable=variable, file=home / ENV_FILE
            )
        )
    if not added.changed:
        click.echo(_("The account is already set up; nothing was changed."))


def _find_plugin(name: str) -> PlatformPlugin[Any]:
    plugin = find_plugin(name)
    if plugin is None:
        names = plugin_names()
        if near := closest_match(name, names):
            raise HoldfastError(
                "There is no platform {name!r}. Did you mean {near}? The platforms are: {names}.",
                name=name,
                near=near,
                names=", ".join(names),
            )
        raise HoldfastError(
            "There is no platform {name!r}. The platforms are: {names}.",
            name=name,
            names=", ".join(names),
        )
    if plugin.open is None:
        raise HoldfastError(
            "{platform} is built in and needs no account. `holdfast run` prints its address.",
            platform=name,
        )
    return plugin


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
        raise HoldfastError(
            "{platform} needs no secret, so --key-from-env does not apply. Leave it out.",
            platform=plugin.name,
        )
    return secret


def _ask_owners(
    plugin: PlatformPlugin[Any],
    options: AddAccountOptions,
    known: KnownSettings,
    prompter: Prompter | None,
) -> tuple[str, ...]:
    """The users who are allowed from the start and are operators of the gateway."""
    if options.owners or prompter is None or not plugin.user_id_help or known.current.get("allow"):
        return options.owners
    question = SetupQuestion(
        key="allow",
        label=_("Your user id there"),
        help=_(
            "With {id} you are allowed right away. Without it, the account answers your first "
            "message with a code."
        ).format(id=_(plugin.user_id_help)),
        optional=True,
    )
    answer = prompter.ask(question, default="", hidden=False)
    return (answer,) if answer else ()


def _access_lists(known: KnownSettings, owners: Sequence[str]) -> dict[str, TomlValue]:
    """The keys that list users, with the owners added."""
    lists: dict[str, TomlValue] = {}
    for key in ("allow", "operators"):
        listed = [str(each) for each in known.current.get(key, ())]
        if new := [owner for owner in owners if owner not in listed]:
            lists[key] = [*listed, *new]
    return lists


def _test_account(draft: AccountDraft, prompter: Prompter | None) -> AccountIdentity | None:
    """None: it does not work, and the user wants it written anyway."""
    try:
        return asyncio.run(_check_account(draft))
    except (ConnectError, SendError, OSError) as error:
        reason = f"{error_text(error) or type(error).__name__}."
        if isinstance(error, ConnectRefused) and error.remedy:
            reason += f" {error.remedy.for_person()}"
    if prompter is None:
        raise HoldfastError(
            "The account does not work, so nothing was written: {reason}", reason=reason
        )
    click.echo(click.style(reason, fg="red"))
    if not prompter.confirm(_("Write it anyway?"), default=False):
        raise click.Abort
    return None


async def _check_account(draft: AccountDraft) -> AccountIdentity:
    assert draft.plugin.check is not None, "only plugins with a check are tested"
    async with asyncio.timeout(_TEST_TIMEOUT):
        return await draft.plugin.check(draft.plugin_context)


_CODE_QUESTION = SetupQuestion(
    key="code",
    label=N_("The code that it answers with"),
    help=N_("The account answers your first message with a code. The code pairs you with it."),
    optional=True,
)


def connect_account(home: Path, added: AddedAccount, *, prompter: Prompter | None) -> None:
    """A running gateway applies the new configuration. At a terminal, the account is then checked
    and its owner paired by a code; otherwise the next steps are printed."""
    if not is_gateway_running(home):
        command = f"holdfast run{home_flag(home)}"
        click.echo(_("Start the gateway:  {command}").format(command=command))
        _print_next_steps(home, added)
        return
    # Imported here: only a running gateway needs it, and `platforms.command` imports this module.
    from holdfast.cli.config.command import reload_running  # noqa: PLC0415
    from holdfast.cli.platforms.command import change_account  # noqa: PLC0415

    reload_running(home, as_json=False)
    if prompter is None:
        _print_next_steps(home, added)
        return
    change_account(home, _account_name(added), "check", as_json=False)
    if not added.owners and added.draft.settings.pairing:
        _pair_owner(home, added, prompter)


def _pair_owner(home: Path, added: AddedAccount, prompter: Prompter) -> None:
    from holdfast.cli.pairing import print_decision  # noqa: PLC0415 - only at a terminal
    from holdfast.server.local.control_client import ControlClient  # noqa: PLC0415

    click.echo(f"\n{_contact_text(added)}")
    if code := prompter.ask(_CODE_QUESTION, default="", hidden=False):
        decision = ControlClient(Paths(home)).post("/pairing/approve", {"code": code})
        print_decision(decision, as_json=False)


def _print_next_steps(home: Path, added: AddedAccount) -> None:
    option = home_flag(home)
    command = f"holdfast platforms check {_account_name(added)}{option}"
    click.echo(_("Check the connection:  {command}").format(command=command))
    click.echo(_contact_text(added))
    if not added.owners:
        click.echo(_("It answers your first message with a code. Approve it:"))
        click.echo(f"  holdfast pairing approve CODE{option}")


def _contact_text(added: AddedAccount) -> str:
    known = added.identity
    if known is None:
        return _("Write to the account.")
    return _("Write to {account}.").format(account=known.chat_link or known.name)


def _account_name(added: AddedAccount) -> str:
    name, account = added.draft.plugin.name, added.draft.account
    return name if account == DEFAULT_ACCOUNT else f"{name}:{account}"
