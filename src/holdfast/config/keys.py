"""Keys by the names that people write: which exist, and how command-line values are read."""

import re
import tomllib
from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec import inspect

from holdfast.config.environment import parse_value
from holdfast.config.errors import (
    ConfigError,
    closest_match,
    config_error,
    format_key,
    is_secret_path,
)
from holdfast.config.platforms import (
    ACCOUNTS,
    PLATFORMS,
    PluginUnusable,
    account_schema,
    find_plugin,
    plugin_names,
    plugin_schema,
)
from holdfast.config.renamed import renamed_key
from holdfast.config.validation import Node, describe, is_valid, settings_schema, unwrap_optional
from holdfast.core.text.translation import N_

_NAME_PART = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([^."'\s][^."']*?))\s*(\.|$)""")
_TABLES = (inspect.StructType, inspect.DictType)

Names = tuple[str, ...]


class Key(NamedTuple):
    """One key, or a table of keys: its path and its type."""

    path: Names
    node: Node

    @property
    def name(self) -> str:
        return format_key(self.path)

    @property
    def is_table(self) -> bool:
        return isinstance(self.node, _TABLES)


def find_key(name: str) -> Key:
    """The key of that name. A part that contains dots may be quoted. Raises `ConfigError`, which
    names the most similar key."""
    names = _split_name(name)
    found = next(_find_in_node(settings_schema(), names), None) if names else None
    if found is None:
        raise _unknown_key_error(name, names)
    return Key(*found)


def key_names() -> list[str]:
    """All keys with a fixed name. Imports every plugin."""
    return [*section_keys(), *(name for plugin in plugin_names() for name in platform_keys(plugin))]


def section_keys() -> list[str]:
    """The keys outside of `platforms`."""
    return list(_key_names(settings_schema(), ""))


def platform_keys(name: str) -> list[str]:
    """The keys of one platform; none if there is no such plugin, or it cannot be loaded."""
    try:
        plugin = find_plugin(name)
    except PluginUnusable:
        return []
    return [] if plugin is None else list(_key_names(plugin_schema(plugin), f"{PLATFORMS}.{name}."))


def parse_word(key: Key, word: str) -> Any:
    """The value of a word on the command line: as TOML, or else the word itself. Raises
    `ConfigError` if it does not fit the key."""
    if not _is_utf8(word):
        raise config_error(
            key.name, N_("the value is not UTF-8"), fix=N_("write the value in UTF-8")
        )
    try:
        parsed = tomllib.loads(f"value = {word}")
        if parsed.keys() == {"value"} and is_valid(key.node, parsed["value"]):
            return parsed["value"]
    except tomllib.TOMLDecodeError:
        pass
    try:
        plainly = parse_value(key.node, word)
        if is_valid(key.node, plainly):
            return plainly
    except ValueError:
        pass
    found = "" if is_secret_path(key.path) else word
    raise config_error(
        key.name,
        N_("the value does not fit this key"),
        found=found,
        allowed=lambda: describe(key.node),
    )


def _is_utf8(word: str) -> bool:
    """A shell may pass any bytes; those that are not UTF-8 become lone surrogates."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _split_name(written: str) -> Names:
    names, at = [], 0
    while part := _NAME_PART.match(written, at):
        names.append(next(each for each in part.groups()[:3] if each is not None))
        at = part.end()
        if not part[4]:
            return tuple(names)
    return ()


def _find_in_node(node: Node, names: Names) -> Iterator[tuple[Names, Node]]:
    """All ways to read these names as a key of this node."""
    node, _ = unwrap_optional(node)
    if not names:
        yield (), node
    elif isinstance(node, inspect.StructType):
        for field in (each for each in node.fields if each.name == names[0]):
            for path, found in _find_in_field(field, names[1:]):
                yield (names[0], *path), found
    elif isinstance(node, inspect.DictType):
        # A name that a person chose may contain dots: "gpt-4.1".
        for length in range(1, len(names) + 1):
            for path, found in _find_in_node(node.value_type, names[length:]):
                yield (".".join(names[:length]), *path), found


def _find_in_field(field: inspect.Field, names: Names) -> Iterator[tuple[Names, Node]]:
    inner = _find_in_plugin(names) if field.name == PLATFORMS else None
    return _find_in_node(field.type, names) if inner is None else inner


def _find_in_plugin(names: Names) -> Iterator[tuple[Names, Node]] | None:
    """Among the keys that a plugin declares; None: there is no plugin, or it cannot be loaded."""
    try:
        plugin = find_plugin(names[0]) if names else None
    except PluginUnusable:
        return None
    if plugin is None:
        return iter(()) if names else None
    own = plugin_schema(plugin)
    if names[1:2] == (ACCOUNTS,) and len(names) > 2:
        rest = _find_in_node(account_schema(own), names[3:])
        return ((names[:3] + path, found) for path, found in rest)
    return (((names[0], *path), found) for path, found in _find_in_node(own, names[1:]))


def _key_names(node: inspect.StructType, before: str) -> Iterator[str]:
    for field in node.fields:
        kind, _ = unwrap_optional(field.type)
        if isinstance(kind, inspect.StructType):
            yield from _key_names(kind, f"{before}{field.name}.")
        elif not isinstance(kind, inspect.DictType):
            yield f"{before}{field.name}"


def _unknown_key_error(name: str, names: Names) -> ConfigError:
    in_list = "[" in name
    if (new := renamed_key(names)) is not None:
        new_name = format_key((*names[:-1], new))
        return config_error(
            name,
            N_("this key is called {new} now"),
            fix=N_("write {new} instead of {old}"),
            new=new_name,
            old=name,
        )
    known = key_names()
    return config_error(
        name or '""',
        N_("there is no key of this name"),
        nearest=None if in_list else closest_match(format_key(names), known),
        fix=N_("name the list itself: a list is set as a whole")
        if in_list
        else N_("choose one of the keys that `holdfast config show` lists"),
    )
