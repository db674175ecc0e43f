"""Lists of tables in the configuration (`[[model.fallbacks]]`), as whoever edits one needs them."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import inspect

from holdfast.config.errors import is_secret_path
from holdfast.config.keys import Key, find_key
from holdfast.config.schema import Node, describe, unwrap_optional
from holdfast.config.views import EffectiveKey
from holdfast.server.api.views.key_kinds import KeyKind, choices_of, kind_of

_TABLE_INDEX = re.compile(r"\[(\d+)\]\.?")


class TableFieldView(msgspec.Struct, frozen=True, kw_only=True):
    """A key that each table of a list has. `default`: what holds where a table does not say it."""

    name: str
    kind: KeyKind
    allowed: str
    choices: list[str] = []
    required: bool = False
    default: Any = None


class TableListView(msgspec.Struct, frozen=True, kw_only=True):
    """`rows` have what differs from the defaults. It is set as a whole."""

    key: str
    fields: list[TableFieldView]
    rows: list[dict[str, Any]]


def base_key(name: str) -> Key:
    """The key itself, or the list that a key of one of its tables is in."""
    return find_key(_TABLE_INDEX.split(name)[0])


def is_in_table_list(name: str) -> bool:
    return _TABLE_INDEX.search(name) is not None


def table_list_views(shown: Iterable[EffectiveKey]) -> list[TableListView]:
    """Of all that are shown, those whose tables hold nothing but plain values."""
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
    """None where it is no list of tables, or of such that hold more than plain values."""
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
