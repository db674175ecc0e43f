"""Checks the values of a configuration, and describes in words what each key may hold."""

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from msgspec import inspect

from holdfast.config.document import RawConfig
from holdfast.config.errors import KeyPath, closest_match
from holdfast.config.renamed import renamed_key, renamed_value
from holdfast.core.config.settings import Settings

Node = inspect.Type


@cache
def settings_schema() -> inspect.StructType:
    """The same each time: to look through every type takes longer than to read a file by it."""
    node = inspect.type_info(Settings)
    assert isinstance(node, inspect.StructType)
    return node


def check_settings(raw: RawConfig) -> None:
    """Raise for the first key that is unknown, missing, of the wrong type or out of its range. What
    is under `platforms` is for the plugins to say."""
    check_table(raw, settings_schema(), (), {k: v for k, v in raw.tree.items() if k != "platforms"})


def check_table(raw: RawConfig, node: inspect.StructType, path: KeyPath, value: Any) -> None:
    """The same for one table of a shape that somebody else declares."""
    _check_value(raw, node, path, value)


def unwrap_optional(node: Node) -> tuple[Node, bool]:
    """What a key holds when it holds something, and whether it may hold nothing."""
    if isinstance(node, inspect.UnionType):
        inner = [kind for kind in node.types if not isinstance(kind, inspect.NoneType)]
        return inner[0], len(inner) < len(node.types)
    return node, False


def describe(node: Node) -> str:
    node, _ = unwrap_optional(node)
    match node:
        case inspect.EnumType():
            return " or ".join(f'"{member.value}"' for member in node.cls)
        case inspect.IntType() | inspect.FloatType():
            return _describe_number(node)
        case inspect.VarTupleType():
            return f"a list, each of it {describe(node.item_type)}"
        case inspect.StructType():
            return "a table with " + ", ".join(field.name for field in node.fields)
        case inspect.BoolType():
            return "true or false"
        case inspect.DictType():
            return "tables, each under its own name"
    return 'a text in "quotes"'


def _describe_number(node: inspect.IntType | inspect.FloatType) -> str:
    kind = "a whole number" if isinstance(node, inspect.IntType) else "a number"
    if node.ge is not None and node.le is not None:
        return f"{kind} from {node.ge} to {node.le}"
    return f"{kind} of at least {node.ge}" if node.ge is not None else kind


def _check_value(raw: RawConfig, node: Node, path: KeyPath, value: Any) -> None:
    node, optional = unwrap_optional(node)
    if value is None and optional:
        return
    if not is_valid(node, value):
        problem = "has a value that is not allowed" if path else "is not a table"
        new = renamed_value(path, value)
        fix = f'it is called "{new}" now: write {path[-1]} = "{new}"' if new else ""
        raise raw.error(path, problem, value=value, allowed=describe(node), fix=fix)
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
                fix = f"rename the key: write `{new}` instead of `{name}`"
                raise raw.error((*path, name), f"is called `{new}` now", fix=fix)
            raise raw.error(
                (*path, name),
                "is not a key Holdfast knows",
                value=name,  # and not what it holds: it may be a secret under a wrong name
                allowed=", ".join(fields),
                nearest=closest_match(name, fields),
            )
        _check_value(raw, fields[name].type, (*path, name), item)
    for name, field in fields.items():
        if field.required and name not in value:
            raise raw.error((*path, name), "is missing", allowed=describe(field.type))


def is_valid(node: Node, value: Any) -> bool:
    """Whether a key may hold that, as far as the value itself goes and not what is in it."""
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
