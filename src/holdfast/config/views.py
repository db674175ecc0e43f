"""The settings for display: every key with its value and origin, and the JSON Schema."""

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.config.environment import variable_name
from holdfast.config.errors import KeyPath, format_key, is_secret_path
from holdfast.config.loader import Config
from holdfast.config.platforms import usable_plugins
from holdfast.core.config.changes import change_effect
from holdfast.core.config.settings import Settings
from holdfast.core.secrets import PASSWORD_MASK, mask_passwords


class EffectiveKey(msgspec.Struct, frozen=True, kw_only=True):
    """One key. A secret's `value` is its reference, never what that refers to; an address is
    without its password."""

    key: str
    value: Any
    origin: str  # "default", or the place that set it
    variable: str  # the environment variable that overrides it


def list_keys(config: Config) -> list[EffectiveKey]:
    return [
        EffectiveKey(
            key=format_key(path),
            value=mask_value(path, value),
            origin=config.origins.get(format_key(_variable_path(path)), "default"),
            variable=variable_name(_variable_path(path)),
        )
        for path, value in _leaf_values(_settings_tree(config.settings), ())
    ]


def settings_values(settings: Settings) -> dict[str, Any]:
    """The value of every key, by its name."""
    return {
        format_key(path): mask_value(path, value)
        for path, value in _leaf_values(_settings_tree(settings), ())
    }


def json_schema() -> dict[str, Any]:
    """JSON Schema of holdfast.toml, with the keys of every installed plugin. Each key says
    in `x-effect` when a change of it takes effect."""
    plugins = usable_plugins()
    kinds = [Settings, *(plugin.settings for plugin in plugins)]
    (whole, *tables), parts = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    for table in tables:
        # An account has the keys of its plugin, and not only the common ones.
        part = parts[table["$ref"].rpartition("/")[2]]
        part["properties"]["accounts"]["additionalProperties"] = table
    parts["Settings"]["properties"]["platforms"] = {
        "type": "object",
        "properties": {plugin.name: table for plugin, table in zip(plugins, tables, strict=True)},
        "additionalProperties": False,
    }
    for section, section_schema in parts["Settings"]["properties"].items():
        _add_effects(parts, section, section_schema)
    for plugin, table in zip(plugins, tables, strict=True):
        _add_effects(parts, f"platforms.{plugin.name}", table)
    return {**whole, "$defs": parts}


def _add_effects(parts: dict[str, Any], section: str, section_schema: dict[str, Any]) -> None:
    """Of a section that is a table; one that has tables by names has one effect for all."""
    default = section_schema.get("anyOf", [section_schema])[0]
    if "$ref" not in default:
        section_schema["x-effect"] = change_effect(section).value
        return
    keys = parts[default["$ref"].rpartition("/")[2]]["properties"]
    for name, key in keys.items():
        key["x-effect"] = change_effect(f"{section}.{name}").value


def _settings_tree(settings: Settings) -> dict[str, Any]:
    tree: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(settings))
    return tree


def _leaf_values(node: dict[str, Any], path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    for name, value in node.items():
        if isinstance(value, dict):
            yield from _leaf_values(value, (*path, name))
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for index, item in enumerate(value):
                yield from _leaf_values(item, (*path, name, index))
        else:
            yield (*path, name), value


def _variable_path(path: KeyPath) -> KeyPath:
    """A list is overridden as a whole."""
    return next((path[:index] for index, part in enumerate(path) if isinstance(part, int)), path)


def mask_value(path: KeyPath, value: Any) -> Any:
    """A value that may be shown: of a secret, its reference and nothing else; of an address, all
    but its password."""
    # Loading has refused every secret that is not a reference; this holds the line should a
    # settings object ever be made in another way.
    if is_secret_path(path) and value and not str(value).startswith(("env:", "file:")):
        return PASSWORD_MASK
    if isinstance(value, str):
        return mask_passwords(value)
    return [mask_value(path, each) for each in value] if isinstance(value, list) else value
