"""Checks the values of a configuration, and describes the allowed values of each key."""

import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from msgspec import inspect

from holdfast.config.document import RawConfig
from holdfast.config.errors import KeyPath, closest_match
from holdfast.config.renamed import renamed_key, renamed_value
from holdfast.core.config.settings import Settings
from holdfast.core.text.translation import N_, _

Node = inspect.Type


@cache
def settings_schema() -> inspect.StructType:
    """Cached: inspecting every type takes longer than reading a file by it."""
    node = inspect.type_info(Settings)
    assert isinstance(node, inspect.StructType)
    return node


def check_settings(raw: RawConfig) -> None:
    """Raise for the first key that is unknown, missing, of the wrong type or out of range. Plugins
    declare what is under `platforms`."""
    check_table(raw, settings_schema(), (), {k: v for k, v in raw.tree.items() if k != "platforms"})


def check_table(raw: RawConfig, node: inspect.StructType, path: KeyPath, value: Any) -> None:
    """The same for one table whose schema a plugin declares."""
    _check_value(raw, node, path, value)


def unwrap_optional(node: Node) -> tuple[Node, bool]:
    """The type of a value, and whether it may be absent."""
    if isinstance(node, inspect.UnionType):
        inner = [kind for kind in node.types if not isinstance(kind, inspect.NoneType)]
        return inner[0], len(inner) < len(node.types)
    return node, False


def describe(node: Node) -> str:
    """The allowed values, in the language of the current context."""
    node = unwrap_optional(node)[0]
    match node:
        case inspect.EnumType():
            return _(" or ").join(f'"{member.value}"' for member in node.cls)
        case inspect.IntType() | inspect.FloatType():
            return _describe_number(node)
        case inspect.VarTupleType():
            return _("a list of: {item}").format(item=describe(node.item_type))
        case inspect.StructType():
            keys = ", ".join(field.name for field in node.fields)
            return _("a table with {keys}").format(keys=keys)
        case inspect.BoolType():
            return _("true or false")
        case inspect.DictType():
            return _("tables, each with a name of its own")
    return _('a text in "quotes"')


def _describe_number(node: inspect.IntType | inspect.FloatType) -> str:
    whole = isinstance(node, inspect.IntType)
    if node.ge is None:
        return _("a whole number") if whole else _("a number")
    if node.le is None:
        text = (
            _("a whole number of at least {least}") if whole else _("a number of at least {least}")
        )
        return text.format(least=node.ge)
    text = (
        _("a whole number from {least} to {most}")
        if whole
        else _("a number from {least} to {most}")
    )
    return text.format(least=node.ge, most=node.le)


def _check_value(raw: RawConfig, declared: Node, path: KeyPath, value: Any) -> None:
    node, optional = unwrap_optional(declared)
    if value is None and optional:
        return
    if not is_valid(node, value):
        new = renamed_value(path, value)
        raise raw.error(
            path,
            N_("{key} has a value that is not allowed") if path else N_("this is not a table"),
            value=value,
            allowed=lambda: describe(node),
            fix=N_('write {name} = "{new}": the value is called "{new}" now') if new else "",
            name=path[-1] if path else "",
            new=new,
        )
    match node:
        case inspect.StructType():
            _check_fields(raw, node, path, value)
        case inspect.DictType():
            for name, item in value.items():
                _check_value(raw, node.value_type, (*path, name), item)
        case inspect.VarTupleType():
            for index, item in enumerate(value):
                _check_value(raw, node.item_type, (*path, index), item)


def _check_fields(
    raw: RawConfig, node: inspect.StructType, path: KeyPath, value: Mapping[str, Any]
) -> None:
    fields = {field.name: field for field in node.fields}
    for name, item in value.items():
        if name not in fields:
            if (new := renamed_key((*path, name))) is not None:
                raise raw.error(
                    (*path, name),
                    N_("{key} is called `{new}` now"),
                    fix=N_("rename the key: write `{new}` instead of `{old}`"),
                    new=new,
                    old=name,
                )
            raise raw.error(
                (*path, name),
                N_("{key} is not a key that Holdfast knows"),
                value=name,  # not its value, which may be a secret under a wrong name
                allowed=", ".join(fields),
                nearest=closest_match(name, fields),
            )
        _check_value(raw, fields[name].type, (*path, name), item)
    for name, field in fields.items():
        if field.required and name not in value:
            raise raw.error(
                (*path, name), N_("{key} is missing"), allowed=partial(describe, field.type)
            )


def is_valid(node: Node, value: Any) -> bool:
    """Whether a key may have this value; what a table or list contains is not checked."""
    for kind, is_one in _TYPE_CHECKS:
        if isinstance(node, kind):
            return is_one(node, value)
    return True


def _is_whole(node: Any, value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and _in_range(node, value)


def _is_number(node: Any, value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and _in_range(node, value)


def _in_range(node: Any, value: float) -> bool:
    return (node.ge is None or value >= node.ge) and (node.le is None or value <= node.le)


_TYPE_CHECKS: tuple[tuple[type, Callable[[Any, Any], bool]], ...] = (
    (inspect.StructType, lambda _, value: isinstance(value, dict)),
    (inspect.DictType, lambda _, value: isinstance(value, dict)),
    (inspect.VarTupleType, lambda _, value: isinstance(value, list)),
    (inspect.EnumType, lambda node, value: value in [member.value for member in node.cls]),
    (inspect.StrType, lambda _, value: isinstance(value, str)),
    (inspect.BoolType, lambda _, value: isinstance(value, bool)),
    (inspect.IntType, _is_whole),
    (inspect.FloatType, _is_number),
)
