"""Changing a few keys of a TOML text, and nothing else in it."""

import copy
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.config.toml_lists import TableList, is_tables, new_tables
from holdfast.config.toml_scan import Entry, Header, Path, scan
from holdfast.core.errors import HoldfastError

_BARE = re.compile(r"[A-Za-z0-9_-]+")

Value = str | bool | int | float | Sequence[Any] | Mapping[str, Any]


class CannotPatch(HoldfastError):
    """The file is written in a way that this cannot change safely."""


def patch_table(text: str, table: str, values: Mapping[str, Value | None]) -> str:
    """The text with these keys of `[table]` set, or taken out where the value is None."""
    within = tuple(table.split("."))
    return patch(text, {(*within, key): value for key, value in values.items()})


def patch(text: str, values: Mapping[Path, Value | None]) -> str:
    """The text with these keys set, or taken out where the value is None; a table is taken out
    with all that it holds.

    Comments, order and every other key stay as they are. What comes out is parsed, and must say
    exactly what was asked for: else `CannotPatch` is raised and the file is for a person to edit.
    """
    patched = text if not text or text.endswith("\n") else f"{text}\n"
    try:
        wanted = tomllib.loads(text)
        for path, value in values.items():
            _want(wanted, path, value)
            patched = _taken_out(patched, path) if value is None else _put(patched, path, value)
        right = _full(tomllib.loads(patched)) == _full(wanted)
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
        raise CannotPatch(f"{_tables(values)} is written in a way that cannot be changed safely")
    return patched


def written(value: Value) -> str:
    """A value as TOML writes it."""
    match value:
        case bool() | int() | float():
            return json.dumps(value)
        case str():
            return _long(value) if "\n" in value else _quoted(value)
        case Mapping():
            inside = (f"{_name(key)} = {written(each)}" for key, each in value.items())
            return f"{{ {', '.join(inside)} }}" if value else "{}"
    return f"[{', '.join(map(written, value))}]"


def written_path(path: Path) -> str:
    return ".".join(map(_name, path))


def _put(text: str, path: Path, value: Value) -> str:
    items = scan(text)
    for each in items:
        if isinstance(each, Entry) and each.path == path[: len(each.path)]:
            return _replaced(text, each, path[len(each.path) :], value)
    if is_tables(value):
        return _put_tables(text, items, path, [*value])  # type: ignore[misc]
    if value == [] and any(isinstance(each, Header) and each.path == path for each in items):
        text = _taken_out(text, path)  # a list of tables has no way to say that there are none
        items = scan(text)
    return _added(text, items, path, value)


def _put_tables(
    text: str, items: list[Header | Entry], path: Path, tables: list[Mapping[str, Value]]
) -> str:
    stood: Any = tomllib.loads(text)
    for name in path:
        stood = stood.get(name, {})
    there = TableList(text, path, stood=stood or (), patch=patch)
    header = written_path(path)
    if there:
        return there.replaced(header, tables)
    return _with_section(text, items, path, new_tables(header, path, tables, patch))


def _replaced(text: str, entry: Entry, inner: Path, value: Value | None) -> str:
    """With another value for a key, or for one within the inline table that the key holds."""
    whole: Any = value
    if inner:
        whole = copy.deepcopy(tomllib.loads(f"v = {text[entry.value]}")["v"])
        _want(whole, inner, value)
    return text[: entry.value.start] + written(whole) + text[entry.value.stop :]


def _added(text: str, items: list[Header | Entry], path: Path, value: Value) -> str:
    *table, name = path
    for at, each in enumerate(items):
        if isinstance(each, Header) and each.path == tuple(table) and not each.array:
            return _inserted(text, _end(items, at), f"{_name(name)} = {written(value)}\n")
    beside = [each for each in items if isinstance(each, Entry) and each.path[:-1] == tuple(table)]
    if beside:  # its table has no header: it is said in front of each key
        key = written_path(path[len(beside[-1].table) :])
        return _inserted(text, beside[-1].end, f"{key} = {written(value)}\n")
    section = f"[{written_path(tuple(table))}]\n{_name(name)} = {written(value)}\n"
    return _with_section(text, items, path, section)


def _with_section(text: str, items: list[Header | Entry], path: Path, section: str) -> str:
    place = _room_for(items, text, path[0])
    before = "\n" if text[:place].strip() and not text[:place].endswith("\n\n") else ""
    after = "\n" if text[place:].strip() and not text[place:].startswith("\n") else ""
    return _inserted(text, place, f"{before}{section}{after}")


def _room_for(items: list[Header | Entry], text: str, first: str) -> int:
    """A new table goes behind those that begin alike; else to the end."""
    alike = [at for at, each in enumerate(items) if isinstance(each, Header)]
    alike = [at for at in alike if items[at].path[0] == first]
    if not alike:
        return len(text)
    return _end(items, alike[-1])


def _taken_out(text: str, path: Path) -> str:
    items = scan(text)
    holder = next((each for each in items if isinstance(each, Entry) and _holds(each, path)), None)
    if holder is not None:
        return _replaced(text, holder, path[len(holder.path) :], None)
    gone = [each for each in items if each.path[: len(path)] == path]
    for each in reversed(gone):
        text = text[: each.start] + text[each.end :]
    return text


def _holds(entry: Entry, path: Path) -> bool:
    """Whether it is the inline table that the key is in."""
    return len(entry.path) < len(path) and entry.path == path[: len(entry.path)]


def _end(items: list[Header | Entry], at: int) -> int:
    """Where the last key below a header ends, or else the header itself."""
    end = items[at].end
    for each in items[at + 1 :]:
        if isinstance(each, Header):
            break
        end = each.end
    return end


def _inserted(text: str, at: int, piece: str) -> str:
    return text[:at] + piece + text[at:]


def _want(tree: dict[str, Any], path: Path, value: Value | None) -> None:
    """The same change of what the text says."""
    *table, name = path
    inner = tree
    for each in table:
        inner = inner.setdefault(each, {})
    if value is None:
        inner.pop(name, None)
    else:
        inner[name] = value


def _full(node: Any) -> Any:
    """Without tables that hold nothing: a header that is left over says nothing."""
    if not isinstance(node, dict):
        return [*map(_full, node)] if isinstance(node, list | tuple) else node
    inner = {key: _full(value) for key, value in node.items()}
    return {key: value for key, value in inner.items() if value != {}}


def _tables(values: Mapping[Path, Value | None]) -> str:
    return " and ".join(dict.fromkeys(f"[{written_path(path[:-1])}]" for path in values))


def _name(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quoted(name)


def _quoted(value: str) -> str:
    """A basic string; what JSON escapes, TOML escapes alike, and one character more."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _long(value: str) -> str:
    """Over several lines, as a person would write it, where that needs no escapes."""
    lines = value.split("\n")
    plain = all(_quoted(line) == f'"{line}"' for line in lines)
    return f'"""\n{value}"""' if plain else _quoted(value)
