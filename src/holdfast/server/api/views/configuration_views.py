"""The configuration as it is told over HTTP: its keys, its changes, and its history."""

import hashlib
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from holdfast.config.difference import diff_lines
from holdfast.config.editor import KeyChange
from holdfast.config.errors import is_secret_path
from holdfast.config.loading import Config
from holdfast.config.schema import describe
from holdfast.config.views import EffectiveKey, list_keys, settings_values
from holdfast.core.address_passwords import mask_passwords
from holdfast.core.config.configuration import ConfigStatus
from holdfast.core.config.effect import ChangeEffect, change_effect
from holdfast.core.config.home_files import CONFIG_FILE
from holdfast.core.config.kept_configuration import ConfigSource, ConfigVersion
from holdfast.core.config.settings import Settings
from holdfast.server.api.views.key_kinds import KeyKind, choices_of, kind_of
from holdfast.server.api.views.table_lists import (
    TableListView,
    base_key,
    is_in_table_list,
    table_list_views,
)

ConfigNumber = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]  # of a configuration


class ConfigKeyView(msgspec.Struct, frozen=True, kw_only=True):
    """One key. `value` is what the file and whatever goes before it come to. `in_force` differs
    from it where the key `waits` for a restart."""

    key: str
    value: Any
    origin: str  # "default", or the place that set it
    effect: ChangeEffect
    variable: str  # the environment variable that goes before the file
    kind: KeyKind
    allowed: str
    choices: list[str] = []
    in_file: bool = False
    pending_restart: bool = False
    live_value: Any = None


class ConfigView(msgspec.Struct, frozen=True, kw_only=True):
    """`revision` tells one text of the file from another, also one that was not taken over.
    `problem`: why the file cannot be used; then these are the keys that are in force. `lists`:
    those of tables, whose tables are among the keys one by one as well."""

    path: str
    number: int
    since: float
    revision: str
    problem: str
    pending_restart: list[str]
    warnings: list[str]
    keys: list[ConfigKeyView]
    lists: list[TableListView] = []


class ExpectedVersion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody looked at who wants a change: where it is no more, nothing is changed."""

    number: int | None = None
    revision: str | None = None


class ConfigChange(ExpectedVersion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    set: dict[str, Any] = {}
    unset: list[str] = []


class RollbackParams(ExpectedVersion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    to: ConfigNumber


class ConfigChangeResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. `waits`: keys that hold only after a restart."""

    number: int
    changes: list[KeyChange]
    accounts: list[str] = []
    pending_restart: list[str] = []
    warnings: list[str] = []


class ConfigVersionView(msgspec.Struct, frozen=True, kw_only=True):
    """One that was in force."""

    number: int
    at: float
    by: str
    source: ConfigSource
    changed: list[str]
    active: bool


class ConfigVersionList(msgspec.Struct, frozen=True, kw_only=True):
    versions: list[ConfigVersionView]
    more: bool


class ConfigVersionDetail(ConfigVersionView, frozen=True, kw_only=True):
    """`diff`: the lines that it has otherwise than the one that it is held `against`, which is
    the one before it where nobody says; 0: there is none. Passwords of addresses are hidden."""

    text: str
    against: int
    diff: list[str]


def revision_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def config_view(
    config: Config, text: str, *, settings: Settings, status: ConfigStatus, problem: str
) -> ConfigView:
    """`settings` are those in force."""
    shown = list_keys(config)
    return ConfigView(
        path=str(config.home / CONFIG_FILE),
        number=status.number,
        since=status.since,
        revision=revision_of(text),
        problem=problem,
        pending_restart=list(status.pending_restart),
        warnings=list(config.warnings),
        keys=list(_key_views(shown, settings_values(settings), frozenset(status.pending_restart))),
        lists=table_list_views(shown),
    )


def version_view(version: ConfigVersion, *, active: int) -> ConfigVersionView:
    return ConfigVersionView(
        number=version.number,
        at=version.at,
        by=version.by,
        source=version.source,
        changed=list(version.changed),
        active=version.number == active,
    )


def version_detail(
    version: ConfigVersion, other: ConfigVersion | None, *, active: int
) -> ConfigVersionDetail:
    before = mask_passwords("" if other is None else other.text)
    text = mask_passwords(version.text)
    return ConfigVersionDetail(
        **msgspec.structs.asdict(version_view(version, active=active)),
        text=text,
        against=0 if other is None else other.number,
        diff=diff_lines(before, text, around=3),
    )


def _key_views(
    keys: list[EffectiveKey], live: dict[str, Any], pending_restart: frozenset[str]
) -> Iterator[ConfigKeyView]:
    for each in keys:
        whole = base_key(each.key)
        tables = is_in_table_list(each.key)
        yield ConfigKeyView(
            key=each.key,
            value=each.value,
            origin=each.origin,
            effect=change_effect(each.key),
            variable=each.variable,
            kind=KeyKind.TABLES
            if tables
            else kind_of(whole.node, secret=is_secret_path(whole.path)),
            allowed=describe(whole.node),
            choices=choices_of(whole.node),
            in_file=each.origin == CONFIG_FILE,
            pending_restart=each.key in pending_restart,
            live_value=live.get(each.key) if each.key in pending_restart else None,
        )
