"""Keys by the names that people write: which there are, and what each may hold."""

import re
import tomllib
from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec import inspect

from holdfast.config.doors import DoorUnusable, find_door, known_doors
from holdfast.config.errors import ConfigError, dotted, explain, is_secret, nearest
from holdfast.config.platforms import ACCOUNTS, PLATFORMS, shape_of, shape_of_account
from holdfast.config.schema import Node, describe, fits, plain, shape
from holdfast.config.variables import value_of

_PART = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([^."'\s][^."']*?))\s*(\.|$)""")
_TABLES = (inspect.StructType, inspect.DictType)

Names = tuple[str, ...]


class Key(NamedTuple):
    """One key, or a table of them: where it stands, and what it holds when it holds something."""

    path: Names
    node: Node

    @property
    def name(self) -> str:
        return dotted(self.path)

    @property
    def is_table(self) -> bool:
        return isinstance(self.node, _TABLES)


def find_key(written: str) -> Key:
    """The key of that name; a name with dots in it may stand in quotes, and need not. Raises
    `ConfigError`, which says what may have been meant."""
    names = _split(written)
    found = next(_within(shape(), names), None) if names else None
    if found is None:
        raise _unknown(written, names)
    return Key(*found)


def key_names() -> list[str]:
    """Every key whose name is known beforehand. Each door is imported for it."""
    return [*section_keys(), *(name for door in known_doors() for name in door_keys(door))]


def section_keys() -> list[str]:
    """Those outside of `platforms`."""
    return list(_names(shape(), ""))


def door_keys(name: str) -> list[str]:
    """Those of one platform; none where there is no such door, or it cannot be loaded."""
    try:
        door = find_door(name)
    except DoorUnusable:
        return []
    return [] if door is None else list(_names(shape_of(door), f"{PLATFORMS}.{name}."))


def word_value(key: Key, word: str) -> Any:
    """What a word on the command line means for a key: TOML, or else the plain word. Raises
    `ConfigError` where it is nothing that the key could hold."""
    if not _is_text(word):
        raise explain(key.name, "is given what is not UTF-8", fix="write it in UTF-8")
    try:
        said = tomllib.loads(f"value = {word}")
        if said.keys() == {"value"} and fits(key.node, said["value"]):
            return said["value"]
    except tomllib.TOMLDecodeError:
        pass
    try:
        plainly = value_of(key.node, word)
        if fits(key.node, plainly):
            return plainly
    except ValueError:
        pass
    found = "" if is_secret(key.path) else word
    raise explain(key.name, "cannot hold this", found=found, allowed=describe(key.node))


def _is_text(word: str) -> bool:
    """A shell may hand over any bytes, which stand in the word as what no text has."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _split(written: str) -> Names:
    names, at = [], 0
    while part := _PART.match(written, at):
        names.append(next(each for each in part.groups()[:3] if each is not None))
        at = part.end()
        if not part[4]:
            return tuple(names)
    return ()


def _within(node: Node, names: Names) -> Iterator[tuple[Names, Node]]:
    """Every way to read these names as a key of that."""
    node, _ = plain(node)
    if not names:
        yield (), node
    elif isinstance(node, inspect.StructType):
        for field in (each for each in node.fields if each.name == names[0]):
            for path, found in _in_field(field, names[1:]):
                yield (names[0], *path), found
    elif isinstance(node, inspect.DictType):
        # A name that somebody chose may have dots in it: "gpt-4.1".
        for length in range(1, len(names) + 1):
            for path, found in _within(node.value_type, names[length:]):
                yield (".".join(names[:length]), *path), found


def _in_field(field: inspect.Field, names: Names) -> Iterator[tuple[Names, Node]]:
    inner = _in_door(names) if field.name == PLATFORMS else None
    return _within(field.type, names) if inner is None else inner


def _in_door(names: Names) -> Iterator[tuple[Names, Node]] | None:
    """Among the keys that a door declares; None: no door is named, or it cannot be loaded."""
    try:
        door = find_door(names[0]) if names else None
    except DoorUnusable:
        return None
    if door is None:
        return iter(()) if names else None
    own = shape_of(door)
    if names[1:2] == (ACCOUNTS,) and len(names) > 2:
        rest = _within(shape_of_account(own), names[3:])
        return ((names[:3] + path, found) for path, found in rest)
    return (((names[0], *path), found) for path, found in _within(own, names[1:]))


def _names(node: inspect.StructType, before: str) -> Iterator[str]:
    for field in node.fields:
        kind, _ = plain(field.type)
        if isinstance(kind, inspect.StructType):
            yield from _names(kind, f"{before}{field.name}.")
        elif not isinstance(kind, inspect.DictType):
            yield f"{before}{field.name}"


def _unknown(written: str, names: Names) -> ConfigError:
    in_list = "[" in written
    known = key_names()
    return explain(
        written or "an empty name",
        "is not a key Holdfast knows",
        nearest=None if in_list else nearest(dotted(names), known),
        fix="a list is set as a whole: name the list itself"
        if in_list
        else "`holdfast config show` lists the keys",
    )
