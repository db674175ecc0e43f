"""An account on its way into the home: checked as it will stand there, and written whole."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from holdfast.cli.common.private_files import set_env_variable
from holdfast.cli.platforms.door_answers import AccountAnswers
from holdfast.config import load_settings, prepare_home
from holdfast.config.document import ConfigDocument, read_document, read_text
from holdfast.config.dotenv import read_dotenv
from holdfast.config.draft import RawConfig
from holdfast.config.platforms import ACCOUNTS, check_platforms, convert_platforms
from holdfast.config.secrets import resolve_secrets
from holdfast.config.toml_patch import TomlValue, UnpatchableToml, patch_table
from holdfast.config.whole_file import mode_of, write_atomically
from holdfast.core.config.home_files import CONFIG_FILE, ENV_FILE
from holdfast.core.config.settings import DEFAULT_ACCOUNT, PlatformSettings, Settings, account_table
from holdfast.core.errors import HoldfastError
from holdfast.core.ports.door import PlatformPlugin, PluginContext
from holdfast.core.secret import Secret
from holdfast.system.clock import SystemClock
from holdfast.system.ids import IdGenerator
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
