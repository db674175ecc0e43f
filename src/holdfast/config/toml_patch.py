"""Changing a few keys of a TOML text, and nothing else in it."""

import copy
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.config.toml_lists import TableList, format_tables, is_list_of_tables
from holdfast.config.toml_scan import TomlEntry, TomlHeader, TomlPath, scan_toml
from holdfast.core.errors import HoldfastError

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")

TomlValue = str | bool | int | float | Sequence[Any] | Mapping[str, Any]


class UnpatchableToml(HoldfastError):
    """The file is written in a way that this cannot change safely."""


def patch_table(text: str, table: str, values: Mapping[str, TomlValue | None]) -> str:
    """The text with these keys of `[table]` set, or taken out where the value is None."""
    within = tuple(table.split("."))
    return patch_toml(text, {(*within, key): value for key, value in values.items()})


def patch_toml(text: str, values: Mapping[TomlPath, TomlValue | None]) -> str:
    """The text with these keys set, or taken out where the value is None; a table is taken out
    with all that it holds.

    Comments, order and every other key stay as they are. What comes out is parsed, and must say
    exactly what was asked for: else `UnpatchableToml` is raised and the file is for a person to edit.
    """
    patched = text if not text or text.endswith("\n") else f"{text}\n"
    try:
        wanted = tomllib.loads(text)
        for path, value in values.items():
            _set_in_tree(wanted, path, value)
            patched = (
                _remove_key(patched, path) if value is None else _set_value(patched, path, value)
            )
        right = _without_empty_tables(tomllib.loads(patched)) == _without_empty_tables(wanted)
    except (
        tomllib.TOMLDecodeError,
        TypeError,
        ValueError,
        AttributeError,
        IndexError,
        RecursionError,
    ):
        right = False
    if not right:
        raise UnpatchableToml(
            f"{_table_names(values)} is written in a way that cannot be changed safely"
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


def _set_value(text: str, path: TomlPath, value: TomlValue) -> str:
    items = scan_toml(text)
    for each in items:
        if isinstance(each, TomlEntry) and each.path == path[: len(each.path)]:
            return _replace_value(text, each, path[len(each.path) :], value)
    if is_list_of_tables(value):
        return _set_tables(text, items, path, [*value])  # type: ignore[misc]
    if value == [] and any(isinstance(each, TomlHeader) and each.path == path for each in items):
        text = _remove_key(text, path)  # a list of tables has no way to say that there are none
        items = scan_toml(text)
    return _add_key(text, items, path, value)


def _set_tables(
    text: str,
    items: list[TomlHeader | TomlEntry],
    path: TomlPath,
    tables: list[Mapping[str, TomlValue]],
) -> str:
    stood: Any = tomllib.loads(text)
    for name in path:
        stood = stood.get(name, {})
    there = TableList(text, path, current=stood or (), patch=patch_toml)
    header = format_path(path)
    if there:
        return there.replace(header, tables)
    return _insert_section(text, items, path, format_tables(header, path, tables, patch_toml))


def _replace_value(text: str, entry: TomlEntry, inner: TomlPath, value: TomlValue | None) -> str:
    """With another value for a key, or for one within the inline table that the key holds."""
    whole: Any = value
    if inner:
        whole = copy.deepcopy(tomllib.loads(f"v = {text[entry.value]}")["v"])
        _set_in_tree(whole, inner, value)
    return text[: entry.value.start] + format_value(whole) + text[entry.value.stop :]


def _add_key(
    text: str, items: list[TomlHeader | TomlEntry], path: TomlPath, value: TomlValue
) -> str:
    *table, name = path
    for at, each in enumerate(items):
        if isinstance(each, TomlHeader) and each.path == tuple(table) and not each.array:
            return _insert(
                text, _section_end(items, at), f"{_format_name(name)} = {format_value(value)}\n"
            )
    beside = [
        each for each in items if isinstance(each, TomlEntry) and each.path[:-1] == tuple(table)
    ]
    if beside:  # its table has no header: it is said in front of each key
        key = format_path(path[len(beside[-1].table) :])
        return _insert(text, beside[-1].end, f"{key} = {format_value(value)}\n")
    section = f"[{format_path(tuple(table))}]\n{_format_name(name)} = {format_value(value)}\n"
    return _insert_section(text, items, path, section)


def _insert_section(
    text: str, items: list[TomlHeader | TomlEntry], path: TomlPath, section: str
) -> str:
    place = _insert_position(items, text, path[0])
    before = "\n" if text[:place].strip() and not text[:place].endswith("\n\n") else ""
    after = "\n" if text[place:].strip() and not text[place:].startswith("\n") else ""
    return _insert(text, place, f"{before}{section}{after}")


def _insert_position(items: list[TomlHeader | TomlEntry], text: str, first: str) -> int:
    """A new table goes behind those that begin alike; else to the end."""
    alike = [at for at, each in enumerate(items) if isinstance(each, TomlHeader)]
    alike = [at for at in alike if items[at].path[0] == first]
    if not alike:
        return len(text)
    return _section_end(items, alike[-1])


def _remove_key(text: str, path: TomlPath) -> str:
    items = scan_toml(text)
    holder = next(
        (each for each in items if isinstance(each, TomlEntry) and _is_inline_parent(each, path)),
        None,
    )
    if holder is not None:
        return _replace_value(text, holder, path[len(holder.path) :], None)
    gone = [each for each in items if each.path[: len(path)] == path]
    for each in reversed(gone):
        text = text[: each.start] + text[each.end :]
    return text


def _is_inline_parent(entry: TomlEntry, path: TomlPath) -> bool:
    """Whether it is the inline table that the key is in."""
    return len(entry.path) < len(path) and entry.path == path[: len(entry.path)]


def _section_end(items: list[TomlHeader | TomlEntry], at: int) -> int:
    """Where the last key below a header ends, or else the header itself."""
    end = items[at].end
    for each in items[at + 1 :]:
        if isinstance(each, TomlHeader):
            break
        end = each.end
    return end


def _insert(text: str, at: int, piece: str) -> str:
    return text[:at] + piece + text[at:]


def _set_in_tree(tree: dict[str, Any], path: TomlPath, value: TomlValue | None) -> None:
    """The same change of what the text says."""
    *table, name = path
    inner = tree
    for each in table:
        inner = inner.setdefault(each, {})
    if value is None:
        inner.pop(name, None)
    else:
        inner[name] = value


def _without_empty_tables(node: Any) -> Any:
    """Without tables that hold nothing: a header that is left over says nothing."""
    if not isinstance(node, dict):
        return [*map(_without_empty_tables, node)] if isinstance(node, list | tuple) else node
    inner = {key: _without_empty_tables(value) for key, value in node.items()}
    return {key: value for key, value in inner.items() if value != {}}


def _table_names(values: Mapping[TomlPath, TomlValue | None]) -> str:
    return " and ".join(dict.fromkeys(f"[{format_path(path[:-1])}]" for path in values))


def _format_name(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _format_string(name)


def _format_string(value: str) -> str:
    """A basic string; what JSON escapes, TOML escapes alike, and one character more."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _format_multiline(value: str) -> str:
    """Over several lines, as a person would write it, where that needs no escapes."""
    lines = value.split("\n")
    plain = all(_format_string(line) == f'"{line}"' for line in lines)
    return f'"""\n{value}"""' if plain else _format_string(value)
