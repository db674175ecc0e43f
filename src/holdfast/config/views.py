"""The settings as a person or a program reads them: every key, its value, where it was set."""

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.config.doors import usable_doors
from holdfast.config.errors import KeyPath, dotted, is_secret
from holdfast.config.loading import Config
from holdfast.config.variables import variable_for
from holdfast.core.address_passwords import HIDDEN, without_passwords
from holdfast.core.config.effect import effect_of
from holdfast.core.config.settings import Settings


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """One key. A secret's `value` is its reference, never what that refers to; an address is
    without its password."""

    key: str
    value: Any
    origin: str  # "default", or the place that set it
    variable: str  # the environment variable that overrides it


def show(config: Config) -> list[Shown]:
    return [
        Shown(
            key=dotted(path),
            value=masked(path, value),
            origin=config.origins.get(dotted(_overridable(path)), "default"),
            variable=variable_for(_overridable(path)),
        )
        for path, value in _leaves(_tree(config.settings), ())
    ]


def values_of(settings: Settings) -> dict[str, Any]:
    """The value of every key, by its name."""
    return {dotted(path): masked(path, value) for path, value in _leaves(_tree(settings), ())}


def schema() -> dict[str, Any]:
    """JSON Schema of holdfast.toml, with what every door that is installed declares. Each key says
    in `x-effect` when a change of it takes effect."""
    doors = usable_doors()
    kinds = [Settings, *(door.settings for door in doors)]
    (whole, *tables), parts = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    for table in tables:
        # An account has the keys of its door, and not only those that every door has.
        part = parts[table["$ref"].rpartition("/")[2]]
        part["properties"]["accounts"]["additionalProperties"] = table
    parts["Settings"]["properties"]["platforms"] = {
        "type": "object",
        "properties": {door.name: table for door, table in zip(doors, tables, strict=True)},
        "additionalProperties": False,
    }
    for section, held in parts["Settings"]["properties"].items():
        _say_effects(parts, section, held)
    for door, table in zip(doors, tables, strict=True):
        _say_effects(parts, f"platforms.{door.name}", table)
    return {**whole, "$defs": parts}


def _say_effects(parts: dict[str, Any], section: str, held: dict[str, Any]) -> None:
    """Of a section that is a table; one that has tables by names has one effect for all."""
    default = held.get("anyOf", [held])[0]
    if "$ref" not in default:
        held["x-effect"] = effect_of(section).value
        return
    keys = parts[default["$ref"].rpartition("/")[2]]["properties"]
    for name, key in keys.items():
        key["x-effect"] = effect_of(f"{section}.{name}").value


def _tree(settings: Settings) -> dict[str, Any]:
    tree: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(settings))
    return tree


def _leaves(node: dict[str, Any], path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    for name, value in node.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*path, name))
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for index, item in enumerate(value):
                yield from _leaves(item, (*path, name, index))
        else:
            yield (*path, name), value


def _overridable(path: KeyPath) -> KeyPath:
    """A list is overridden as a whole."""
    return next((path[:index] for index, part in enumerate(path) if isinstance(part, int)), path)


def masked(path: KeyPath, value: Any) -> Any:
    """A value that may be shown: of a secret, its reference and nothing else; of an address, all
    but its password."""
    # Loading has refused every secret that is not a reference; this holds the line should a
    # settings object ever be made in another way.
    if is_secret(path) and value and not str(value).startswith(("env:", "file:")):
        return HIDDEN
    if isinstance(value, str):
        return without_passwords(value)
    return [masked(path, each) for each in value] if isinstance(value, list) else value
