"""Wire types of the configuration: keys, lists of tables, changes, and versions."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import inspect

from holdfast.config.editor import KeyChange
from holdfast.config.errors import is_secret_path
from holdfast.config.files import diff_lines
from holdfast.config.keys import Key, find_key
from holdfast.config.loader import Config
from holdfast.config.validation import Node, describe, unwrap_optional
from holdfast.config.views import EffectiveKey, list_keys, settings_values
from holdfast.core.config.changes import ChangeEffect, change_effect
from holdfast.core.config.settings import Settings
from holdfast.core.config.versions import CONFIG_FILE, ConfigSource, ConfigStatus, ConfigVersion
from holdfast.core.secrets import mask_passwords


class KeyKind(StrEnum):
    BOOLEAN = "boolean"
    INTEGER = "integer"
    NUMBER = "number"
    CHOICE = "choice"
    TEXT = "text"
    SECRET = "secret"  # a reference to one
    LIST = "list"  # of texts
    TABLES = "tables"  # a list of tables: set as a whole


def kind_of(node: Node, *, secret: bool) -> KeyKind:
    match node:
        case inspect.BoolType():
            return KeyKind.BOOLEAN
        case inspect.IntType():
            return KeyKind.INTEGER
        case inspect.FloatType():
            return KeyKind.NUMBER
        case inspect.EnumType():
            return KeyKind.CHOICE
        case inspect.VarTupleType(item_type=inspect.StrType()):
            return KeyKind.LIST
        case inspect.VarTupleType():
            return KeyKind.TABLES
    return KeyKind.SECRET if secret else KeyKind.TEXT


def choices_of(node: Node) -> list[str]:
    if isinstance(node, inspect.EnumType):
        return [str(member.value) for member in node.cls]
    return []


_TABLE_INDEX = re.compile(r"\[(\d+)\]\.?")


class TableFieldView(msgspec.Struct, frozen=True, kw_only=True):
    """A key of the tables of a list. `default`: its value in a table that does not set it."""

    name: str
    kind: KeyKind
    allowed: str
    choices: list[str] = []
    required: bool = False
    default: Any = None


class TableListView(msgspec.Struct, frozen=True, kw_only=True):
    """`rows` have the values that differ from the defaults. It is set as a whole."""

    key: str
    fields: list[TableFieldView]
    rows: list[dict[str, Any]]


def base_key(name: str) -> Key:
    """The key itself, or the list that a key of one of its tables is in."""
    return find_key(_TABLE_INDEX.split(name)[0])


def is_in_table_list(name: str) -> bool:
    return _TABLE_INDEX.search(name) is not None


def table_list_views(shown: Iterable[EffectiveKey]) -> list[TableListView]:
    """The lists whose tables have plain values only."""
    lists: dict[str, TableListView] = {}
    for each in shown:
        key = base_key(each.key)
        fields = lists[key.name].fields if key.name in lists else _table_fields(key)
        if not fields:
            continue
        view = lists.setdefault(key.name, TableListView(key=key.name, fields=fields, rows=[]))
        _, *inside = _TABLE_INDEX.split(each.key, maxsplit=1)
        if inside:
            _set_value(view, int(inside[0]), inside[1], each.value)
    return list(lists.values())


def _set_value(view: TableListView, index: int, name: str, value: Any) -> None:
    while len(view.rows) <= index:
        view.rows.append({})
    if any(field.name == name and value != field.default for field in view.fields):
        view.rows[index][name] = value


def _table_fields(key: Key) -> list[TableFieldView]:
    """Empty if it is not a list of tables, or if they hold more than plain values."""
    match key.node:
        case inspect.VarTupleType(item_type=inspect.StructType() as table):
            fields = list(_field_views(table))
            return [] if any(field.kind is KeyKind.TABLES for field in fields) else fields
    return []


def _field_views(table: inspect.StructType) -> Iterator[TableFieldView]:
    for field in table.fields:
        node, _ = unwrap_optional(field.type)
        yield TableFieldView(
            name=field.name,
            kind=_field_kind(field.name, node),
            allowed=describe(node),
            choices=choices_of(node),
            required=field.required,
            default=_default(field),
        )


def _field_kind(name: str, node: Node) -> KeyKind:
    if isinstance(node, inspect.StructType | inspect.DictType):
        return KeyKind.TABLES
    return kind_of(node, secret=is_secret_path((name,)))


def _default(field: inspect.Field) -> Any:
    return None if field.default is msgspec.NODEFAULT else msgspec.to_builtins(field.default)


ConfigNumber = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]  # of a configuration


class ConfigKeyView(msgspec.Struct, frozen=True, kw_only=True):
    """One key. `value`: as the file and the sources that override it say. `live_value`: the active
    one, where the change of the key is `pending_restart`."""

    key: str
    value: Any
    origin: str  # "default", or the place that set it
    effect: ChangeEffect
    variable: str  # the environment variable that overrides the file
    kind: KeyKind
    allowed: str
    choices: list[str] = []
    in_file: bool = False
    pending_restart: bool = False
    live_value: Any = None


class ConfigView(msgspec.Struct, frozen=True, kw_only=True):
    """`revision`: a hash of the text of the file, also of one that was not applied. `problem`: why
    the file is invalid; then these are the active keys. `lists`: of tables, whose tables are also
    among the keys one by one."""

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
    """The version that the client has read: if it is not the current one, nothing is changed."""

    number: int | None = None
    revision: str | None = None


class ConfigChange(ExpectedVersion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    set: dict[str, Any] = {}
    unset: list[str] = []


class RollbackParams(ExpectedVersion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    to: ConfigNumber


class ConfigChangeResult(msgspec.Struct, frozen=True, kw_only=True):
    """`pending_restart`: keys that take effect after a restart."""

    number: int
    changes: list[KeyChange]
    accounts: list[str] = []
    pending_restart: list[str] = []
    warnings: list[str] = []


class ConfigVersionView(msgspec.Struct, frozen=True, kw_only=True):
    """One version in a list."""

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
    """`diff`: the difference to the version `against`, by default the one before it; 0: there is
    none. Passwords in URLs are masked."""

    text: str
    against: int
    diff: list[str]


def revision_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def config_view(
    config: Config, text: str, *, settings: Settings, status: ConfigStatus, problem: str
) -> ConfigView:
    """`settings`: the active ones."""
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
