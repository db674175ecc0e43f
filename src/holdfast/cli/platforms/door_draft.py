"""An account on its way into the home: checked as it will stand there, and written whole."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from holdfast.cli.common.private_files import set_variable
from holdfast.cli.platforms.door_answers import Answers
from holdfast.config import load_settings, prepare_home
from holdfast.config.document import Document, read_document, read_text
from holdfast.config.dotenv import read_dotenv
from holdfast.config.draft import Draft
from holdfast.config.platforms import ACCOUNTS, check_platforms, convert_platforms
from holdfast.config.secrets import resolve
from holdfast.config.toml_patch import CannotPatch, Value, patch_table
from holdfast.config.whole_file import mode_of, write_whole
from holdfast.core.config.home_files import CONFIG_FILE, ENV_FILE
from holdfast.core.config.settings import DEFAULT_ACCOUNT, PlatformSettings, Settings, table_of
from holdfast.core.errors import HoldfastError
from holdfast.core.ports.door import Door, Opening
from holdfast.core.secret import Secret
from holdfast.system.clock import SystemClock
from holdfast.system.ids import Ids
from holdfast.system.paths import Paths

_VARIABLE = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """A file as it was; `text` None: there was none."""

    path: Path
    text: str | None
    mode: int

    @classmethod
    def of(cls, path: Path) -> "_Kept":
        if not path.exists():
            return cls(path=path, text=None, mode=0o600)
        return cls(path=path, text=path.read_bytes().decode(), mode=path.stat().st_mode & 0o777)

    def put_back(self) -> None:
        if self.text is None:
            self.path.unlink(missing_ok=True)
        else:
            write_whole(self.path, self.text, mode=self.mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountDraft:
    """What the files of the home are to be, and the account that they make."""

    home: Path
    door: Door[Any]
    account: str
    before: str
    after: str
    variables: Mapping[str, Secret]  # to be kept in `.env`
    settings: PlatformSettings
    secrets: Mapping[str, Secret]

    @property
    def opening(self) -> Opening[Any]:
        clock = SystemClock()
        return Opening(
            account=self.account,
            settings=self.settings,
            secrets=self.secrets,
            folder=Paths(self.home).platforms / self.door.name / self.account,
            clock=clock,
            new_id=Ids(clock=clock),
        )

    def write(self) -> bool:
        """Both files, or neither: whatever comes in between, Ctrl-C too, they are put back. False:
        all of it stood there already."""
        prepare_home(self.home)
        config, env = self.home / CONFIG_FILE, self.home / ENV_FILE
        old = [_Kept.of(path) for path in (env, config)]
        try:
            kept = [
                set_variable(env, name, value.reveal()) for name, value in self.variables.items()
            ]
            if self.after != self.before:
                write_whole(config, self.after, mode=mode_of(config))
            load_settings(self.home)
        except BaseException:
            for each in old:
                each.put_back()
            raise
        return any(kept) or self.after != self.before


def standing_table(home: Path, name: str, account: str) -> Mapping[str, Any]:
    """What holdfast.toml says of an account now."""
    found: Any = read_document(home / CONFIG_FILE).tree
    for part in table_of(name, account).split("."):
        found = found.get(part, {}) if isinstance(found, dict) else {}
    return found if isinstance(found, dict) else {}


def variables_of_others(home: Path, name: str, account: str) -> frozenset[str]:
    """The variables that anything but this account refers to."""
    own = table_of(name, account)
    found = _references(read_document(home / CONFIG_FILE).tree, "")
    return frozenset(
        variable
        for path, variable in found
        if not path.startswith(f"{own}.")
        or (account == DEFAULT_ACCOUNT and path.startswith(f"{own}.accounts."))
    )


def drafted(
    home: Path, door: Door[Any], account: str, answers: Answers, *, environ: Mapping[str, str]
) -> AccountDraft:
    """Raises what a start would say of such an account. Nothing is written."""
    path = home / CONFIG_FILE
    before = read_text(path) or ""
    values = _changed(standing_table(home, door.name, account), answers.values)
    table = table_of(door.name, account)
    after = _patched(path, before, table, values) if values else before
    draft = Draft(Document(path=path, text=after, tree=tomllib.loads(after)))
    check_platforms(draft)
    whole = convert_platforms(draft)[door.name]
    known = read_dotenv(home / ENV_FILE).values
    told = {name: value.reveal() for name, value in answers.secrets.items()}
    alone = Settings(platforms={door.name: _alone(whole, account)})
    variables = {**known, **environ, **told}
    resolved = resolve(draft, alone, home=home, variables=variables)
    own = f"{table_of(door.name, account)}."
    return AccountDraft(
        home=home,
        door=door,
        account=account,
        before=before,
        after=after,
        variables=answers.secrets,
        settings=whole if account == DEFAULT_ACCOUNT else whole.accounts[account],
        secrets={key.removeprefix(own): value for key, value in resolved.secrets.items()},
    )


def _alone(whole: PlatformSettings, account: str) -> PlatformSettings:
    """Without the other accounts: their secrets may be in no shell but the service's."""
    if account == DEFAULT_ACCOUNT:
        return msgspec.structs.replace(whole, accounts={})
    only = {account: whole.accounts[account]}
    return msgspec.structs.replace(whole, enabled=False, accounts=only)


def _changed(standing: Mapping[str, Any], values: Mapping[str, Value]) -> Mapping[str, Value]:
    """What differs from what stands there; an account that is set up is also switched on."""
    changed = {key: value for key, value in values.items() if _at(standing, key) != value}
    own = {key: value for key, value in standing.items() if key != ACCOUNTS}
    if standing.get("enabled") is False or not (changed or own):
        changed["enabled"] = True
    return changed


def _at(table: Any, key: str) -> Any:
    for part in key.split("."):
        table = table.get(part) if isinstance(table, dict) else None
    return table


def _patched(path: Path, before: str, table: str, values: Mapping[str, Value]) -> str:
    tables: dict[str, dict[str, Value | None]] = {table: {}}
    for key, value in values.items():
        inner, _, last = key.rpartition(".")
        tables.setdefault(f"{table}.{inner}" if inner else table, {})[last] = value
    text = before
    try:
        for name, each in tables.items():
            text = patch_table(text, name, each)
    except CannotPatch as error:
        wanted = "\n\n".join(
            patch_table("", name, each).rstrip() for name, each in tables.items() if each
        )
        raise HoldfastError(f"{path}: {error}. Write this there yourself:\n\n{wanted}") from None
    return text


def _references(node: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _references(value, f"{path}.{key}" if path else key)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value, path)
    elif isinstance(node, str) and (refers := _VARIABLE.fullmatch(node)):
        yield path, refers[1]
