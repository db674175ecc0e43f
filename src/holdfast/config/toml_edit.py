"""Changes keys and lists of tables in a TOML text, and nothing else in it.

tomlkit parses a text without loss: each table has a body of entries, in which comments and blank
lines have no key. An edit replaces, adds or removes entries of one body.
"""

import copy
import json
import re
import tomllib
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple, TypeGuard

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, InlineTable, Item, Key, SingleKey, Table, Whitespace

from holdfast.core.errors import HoldfastError

TomlPath = tuple[str, ...]
TomlValue = str | bool | int | float | Sequence[Any] | Mapping[str, Any]
Body = list[tuple[Key | None, Item]]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
# A line in the place of an entry, in a text that tomlkit renders. No TOML contains it.
_MARK = "\0\n"
_BLANK_END = re.compile(r"(?:^[ \t]*(?:#[^\n]*)?\n)+\Z", re.MULTILINE)
_TABLE_HEAD = re.compile(r"(?:^[ \t]*#[^\n]*\n)*^[^\n]+\n\Z", re.MULTILINE)


class UnpatchableToml(HoldfastError):
    """The file is written in a way that cannot be changed safely."""


def patch_table(text: str, table: str, values: Mapping[str, TomlValue | None]) -> str:
    """The text with these keys of `[table]` set, or removed where the value is None."""
    within = tuple(table.split("."))
    return patch_toml(text, {(*within, key): value for key, value in values.items()})


def patch_toml(text: str, values: Mapping[TomlPath, TomlValue | None]) -> str:
    """The text with these keys set, or removed where the value is None. Removing a table removes
    everything in it.

    Comments, order and every other key stay. The result is parsed and must differ from the text by
    exactly the requested change. Otherwise `UnpatchableToml` is raised, and a person must edit the
    file.
    """
    patched = text if not text or text.endswith("\n") else f"{text}\n"
    try:
        expected = tomllib.loads(text)
        for path, value in values.items():
            _set_in_tree(expected, path, value)
            patched = _remove(patched, path) if value is None else _set(patched, path, value)
        right = _without_empty_tables(tomllib.loads(patched)) == _without_empty_tables(expected)
    except (
        TOMLKitError,
        tomllib.TOMLDecodeError,
        TypeError,
        ValueError,
        AttributeError,
        IndexError,
        RecursionError,
    ):
        right = False
    if not right:
        tables = dict.fromkeys(f"[{format_path(path[:-1])}]" for path in values)
        raise UnpatchableToml(
            "{tables} is written in a way that cannot be changed safely",
            tables=" and ".join(tables),
        )
    return patched


def format_value(value: TomlValue) -> str:
    """A value as TOML writes it."""
    match value:
        case bool() | int() | float():
            return json.dumps(value)
        case str():
            return _format_multiline(value) if "\n" in value else _format_string(value)
        case Mapping():
            inside = (f"{_format_name(key)} = {format_value(each)}" for key, each in value.items())
            return f"{{ {', '.join(inside)} }}" if value else "{}"
    return f"[{', '.join(map(format_value, value))}]"


def format_path(path: TomlPath) -> str:
    return ".".join(map(_format_name, path))


class _Entry(NamedTuple):
    """Where a key is: an entry of a body. `inner` is the rest of its path if the entry is an inline
    table that contains the key."""

    body: Body
    at: int
    inner: TomlPath

    @property
    def item(self) -> Item:
        return self.body[self.at][1]


def _find(body: Body, path: TomlPath) -> list[_Entry]:
    """The entries of a key. A table that is not written in one piece has several."""
    found = []
    for index, (key, item) in enumerate(body):
        if key is None or key.key != path[0]:
            continue
        if len(path) == 1 or isinstance(item, InlineTable):
            found.append(_Entry(body, index, path[1:]))
        elif isinstance(item, Table):
            found += _find(item.value.body, path[1:])
        else:
            raise TypeError(f"{path[0]} is no table")
    return found


def _set(text: str, path: TomlPath, value: TomlValue) -> str:
    document = tomlkit.parse(text)
    found = _find(document.body, path)
    if not found:
        if is_list_of_tables(value):
            return _add_section(document, path, _format_tables(path, value))
        return _add_value(document, path, value)
    (entry,) = found
    if not isinstance(entry.item, AoT):
        return _replace_value(document, entry, value)
    if value == []:  # a list of tables cannot state that there are none
        return _set(_remove(text, path), path, value)
    if not is_list_of_tables(value):
        raise TypeError(f"{format_path(path)} is a list of tables")
    return _replace_tables(document, entry, path, value)


def _replace_value(document: TOMLDocument, entry: _Entry, value: TomlValue | None) -> str:
    """Replace the value of an entry, or of a key within its inline table, which is written anew.
    The comment behind it stays."""
    key, old = entry.body[entry.at]
    whole: Any = value
    if entry.inner:
        whole = copy.deepcopy(old.unwrap())
        _set_in_tree(whole, entry.inner, value)
    new = tomlkit.value(format_value(whole))
    for part in ("indent", "comment_ws", "comment", "trail"):
        setattr(new.trivia, part, getattr(old.trivia, part))
    entry.body[entry.at] = (key, new)
    return document.as_string()


def _add_value(document: TOMLDocument, path: TomlPath, value: TomlValue) -> str:
    *table, name = path
    line = f"{_format_name(name)} = {format_value(value)}\n"
    if not table:
        _insert_after_values(document.body, line)
        return document.as_string()
    for entry in _find(document.body, tuple(table)):
        key, item = entry.body[entry.at]
        if not isinstance(item, Table):
            raise TypeError(f"{format_path(path[:-1])} is no table")
        if key is not None and key.is_dotted():  # the table is named in front of each of its keys
            item.append(SingleKey(name), tomlkit.value(format_value(value)))
            return document.as_string()
        if not item.is_super_table():
            _insert_after_values(item.value.body, line)
            return document.as_string()
    return _add_section(document, path, f"[{format_path(tuple(table))}]\n{line}")


def _insert_after_values(body: Body, line: str) -> None:
    """Behind the last value, before the comment of the table that follows."""
    values = [
        at
        for at, (key, item) in enumerate(body)
        if key is not None and (key.is_dotted() or not isinstance(item, Table | AoT))
    ]
    body.insert(values[-1] + 1 if values else 0, (None, Whitespace(line)))


def _add_section(document: TOMLDocument, path: TomlPath, section: str) -> str:
    """Behind the last section that begins alike, or else at the end."""
    alike = _find(document.body, path[:1])
    if alike:
        before, own, after = _split(document, alike[-1])
        before += own
    else:
        before, after = document.as_string(), ""
    above = "\n" if before.strip() and not before.endswith("\n\n") else ""
    below = "\n" if after.strip() and not after.startswith("\n") else ""
    return f"{before}{above}{section}{below}{after}"


def _remove(text: str, path: TomlPath) -> str:
    document = tomlkit.parse(text)
    found = _find(document.body, path)
    if not found:
        return text
    if found[-1].inner:
        return _replace_value(document, found[-1], None)
    before, _, after = _split(document, found[-1])
    return _remove(before + after, path)


def _split(document: TOMLDocument, entry: _Entry) -> tuple[str, str, str]:
    """The text before an entry, its own, and the text after it. Comments and blank lines behind its
    last value are after it."""
    text, held = document.as_string(), entry.body[entry.at]
    entry.body[entry.at] = (None, Whitespace(_MARK))
    before, after = document.as_string().split(_MARK)
    entry.body[entry.at] = held
    own = text[len(before) : len(text) - len(after)]
    blank = _BLANK_END.search(own)
    end = blank.start() if blank else len(own)
    return before, own[:end], own[end:] + after


# Lists of tables


def is_list_of_tables(value: object) -> TypeGuard[Sequence[Mapping[str, Any]]]:
    """Whether it can be written as a list of tables; an empty one cannot."""
    return (
        isinstance(value, list | tuple)
        and len(value) > 0
        and all(isinstance(each, Mapping) for each in value)
    )


def _replace_tables(
    document: TOMLDocument, entry: _Entry, path: TomlPath, tables: Sequence[Mapping[str, Any]]
) -> str:
    """A table that stays keeps its lines and the comment right above it, wherever it moves. One
    that differs from what was in its place is changed key by key."""
    written = entry.item
    assert isinstance(written, AoT)
    _, _, after = _split(document, entry)
    before, heads, bodies = _split_tables(document, written, after)
    current = [each.unwrap() for each in written.body]
    matched = _match_tables(current, tables)
    used = frozenset(matched.values())
    pieces = []
    for at, table in enumerate(tables):
        if at in matched:
            pieces.append(heads[matched[at]] + bodies[matched[at]])
        elif at < len(current) and at not in used:
            pieces.append(heads[at] + _change_keys(bodies[at], current[at], table))
        else:
            pieces.append(_format_table(path, table))
    return before + "\n".join(f"{piece.rstrip()}\n" for piece in pieces) + after


def _split_tables(
    document: TOMLDocument, tables: AoT, after: str
) -> tuple[str, list[str], list[str]]:
    """The text before a list, the head of each of its tables (the header with the comment right
    above it), and the text below each header."""
    for table in tables.body:
        table.value.body.insert(0, (None, Whitespace(_MARK)))
    *uppers, last = document.as_string().removesuffix(after).split(_MARK)
    heads, bodies = [], []
    for upper in uppers:
        head = _TABLE_HEAD.search(upper)
        if head is None:
            raise ValueError("a table has no header")
        heads.append(head[0])
        bodies.append(upper[: head.start()])
    for table in tables.body:
        del table.value.body[0]
    return bodies[0], heads, [*bodies[1:], last]


def _change_keys(body: str, current: Mapping[str, Any], table: Mapping[str, Any]) -> str:
    changes: dict[TomlPath, Any] = {(key,): None for key in current if key not in table}
    changes |= {(key,): value for key, value in table.items() if current.get(key) != value}
    return patch_toml(body, changes)


def _match_tables(
    current: Sequence[Mapping[str, Any]], tables: Sequence[Mapping[str, Any]]
) -> dict[int, int]:
    """The place of each table that is in the list already."""
    free = list(range(len(current)))
    matched = {}
    for at, table in enumerate(tables):
        same = [old for old in free if current[old] == table]
        if same:
            matched[at] = at if at in same else same[0]
            free.remove(matched[at])
    return matched


def _format_table(path: TomlPath, table: Mapping[str, Any]) -> str:
    keys = [f"{_format_name(key)} = {format_value(value)}\n" for key, value in table.items()]
    return f"[[{format_path(path)}]]\n{''.join(keys)}"


def _format_tables(path: TomlPath, tables: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(_format_table(path, table) for table in tables)


# The expected content


def _set_in_tree(tree: MutableMapping[str, Any], path: TomlPath, value: TomlValue | None) -> None:
    """The same change in the parsed text."""
    *table, name = path
    inner = tree
    for each in table:
        inner = inner.setdefault(each, {})
    if value is None:
        inner.pop(name, None)
    else:
        inner[name] = value


def _without_empty_tables(node: Any) -> Any:
    """A header that is left without keys means nothing."""
    if not isinstance(node, dict):
        return [*map(_without_empty_tables, node)] if isinstance(node, list | tuple) else node
    inner = {key: _without_empty_tables(value) for key, value in node.items()}
    return {key: value for key, value in inner.items() if value != {}}


# Formatting


def _format_name(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _format_string(name)


def _format_string(value: str) -> str:
    """A basic string. JSON's escapes are TOML's, except for one character more."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _format_multiline(value: str) -> str:
    """Over several lines, as a person would write it, where that needs no escapes."""
    lines = value.split("\n")
    plain = all(_format_string(line) == f'"{line}"' for line in lines)
    return f'"""\n{value}"""' if plain else _format_string(value)
