"""Changes keys and lists of tables in a TOML text, and nothing else in it."""

import copy
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.core.errors import HoldfastError

TomlPath = tuple[str, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_PART = re.compile(
    r"""[ \t]*(?:(?P<bare>[A-Za-z0-9_-]+)|(?P<quoted>"(?:[^"\\\n]|\\.)*"|'[^'\n]*'))[ \t]*"""
)
# A string is one token whatever is in it: what looks like a bracket or a comment there is none.
_TOKEN = re.compile(
    r'''"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*\''''
    r"|#[^\n]*|(?P<opens>[\[{])|(?P<closes>[\]}])|[^\[\]{}\"'#]+",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^#\n]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_DOUBLE = re.compile(r"^([ \t]*)\[\[(.*?)\]\]", re.MULTILINE)
_SINGLE = re.compile(r"^([ \t]*)\[(.*?)\]", re.MULTILINE)


class TomlHeader(NamedTuple):
    """`[path]`, or `[[path]]`, from the beginning of its line to the beginning of the next."""

    path: TomlPath
    start: int
    end: int
    array: bool


class TomlEntry(NamedTuple):
    """`key = value`: its whole path, the table it stands in, its lines, and its value's place."""

    path: TomlPath
    table: TomlPath
    start: int
    end: int
    value: slice


def scan_toml(text: str) -> list[TomlHeader | TomlEntry]:
    """In the order in which they stand there. To be called with what is TOML."""
    return list(_scan_items(text))


def _scan_items(text: str) -> Iterator[TomlHeader | TomlEntry]:
    table: TomlPath = ()
    at = _skip_blank(text, 0)
    while at < len(text):
        start = text.rfind("\n", 0, at) + 1
        if text[at] == "[":
            array = text[at + 1] == "["
            table, at = read_path(text, at + 1 + array)
            end = _line_end(text, at)
            yield TomlHeader(table, start, end, array)
        else:
            path, at = read_path(text, at)
            value = _value_span(text, at + 1)
            end = _line_end(text, value.stop)
            yield TomlEntry((*table, *path), table, start, end, value)
        at = _skip_blank(text, end)


def read_path(text: str, at: int) -> tuple[TomlPath, int]:
    """The parts of a dotted key, and what comes after it. Raises `ValueError` for none."""
    parts: list[str] = []
    while part := _PART.match(text, at):
        parts.append(part["bare"] or tomllib.loads(f"k = {part['quoted']}")["k"])
        at = part.end()
        if text[at : at + 1] != ".":
            return tuple(parts), at
        at += 1
    raise ValueError(f"no key begins with {text[at : at + 20]!r}")


def _value_span(text: str, at: int) -> slice:
    at += len(text[at:]) - len(text[at:].lstrip(" \t"))
    if text[at] in "[{":
        return slice(at, _closing_bracket(text, at))
    if text[at] in "\"'":
        string = _TOKEN.match(text, at)
        assert string is not None, "a string of TOML ends"
        return slice(at, string.end())
    scalar = _SCALAR.match(text, at)
    assert scalar is not None, "it matches nothing, too"
    return slice(at, at + len(scalar[0].rstrip()))


def _closing_bracket(text: str, at: int) -> int:
    """Where the brackets that open there are closed."""
    depth = 0
    for token in _TOKEN.finditer(text, at):
        depth += bool(token["opens"]) - bool(token["closes"])
        if depth == 0:
            return token.end()
    raise ValueError("a bracket is not closed")


def _skip_blank(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    assert blank is not None, "it matches nothing, too"
    return blank.end()


def _line_end(text: str, at: int) -> int:
    newline = text.find("\n", at)
    return len(text) if newline < 0 else newline + 1


# The header, which is the first line that is no comment.

Table = Mapping[str, Any]
PatchText = Callable[[str, Mapping[TomlPath, Any]], str]
"""Sets keys of a text, or takes those out whose value is None."""


def is_list_of_tables(value: object) -> bool:
    """Whether it can be written as a list of tables; an empty one cannot."""
    return (
        isinstance(value, list | tuple)
        and len(value) > 0
        and all(isinstance(each, Mapping) for each in value)
    )


def format_tables(header: str, path: TomlPath, tables: Sequence[Table], patch: PatchText) -> str:
    return "\n".join(_format_table(header, path, table, patch) for table in tables)


class TableList:
    """Owns where the tables of one list stand in a text, each with the comment right above it.
    Raises `ValueError` where something else stands between them."""

    def __init__(
        self, text: str, path: TomlPath, *, current: Sequence[Table], patch: PatchText
    ) -> None:
        """`stood`: what the text says of them."""
        self._text = text
        self._path = path
        self._current = current
        self._patch = patch
        self._spans = list(_table_spans(text, scan_toml(text), path))

    def __bool__(self) -> bool:
        return bool(self._spans)

    def replace(self, header: str, tables: Sequence[Table]) -> str:
        """The text with these in their place. One that stays keeps its lines, wherever it moves;
        one that differs from what stood in its place is changed key by key."""
        matched = _match_tables(self._current, tables)
        used = frozenset(matched.values())
        made = []
        for at, table in enumerate(tables):
            if at in matched:
                made.append(self._lines(matched[at]))
            elif at < len(self._spans) and at not in used:
                made.append(self._changed(at, table))
            else:
                made.append(_format_table(header, self._path, table, self._patch))
        lines = "\n".join(f"{piece.rstrip()}\n" for piece in made)
        return self._text[: self._spans[0].start] + lines + self._text[self._spans[-1].stop :]

    def _lines(self, at: int) -> str:
        return self._text[self._spans[at]]

    def _changed(self, at: int, table: Table) -> str:
        current = self._current[at]
        removed = {(*self._path, key): None for key in current if key not in table}
        other = {
            (*self._path, key): each for key, each in table.items() if current.get(key) != each
        }
        return _to_array_header(
            self._patch(_to_single_header(self._lines(at)), {**removed, **other})
        )


def _table_spans(
    text: str, items: Sequence[TomlHeader | TomlEntry], path: TomlPath
) -> Iterator[slice]:
    own = [at for at, each in enumerate(items) if each.path[: len(path)] == path]
    if own and own != list(range(own[0], own[-1] + 1)):
        raise ValueError("something else stands between the tables")
    heads = [at for at in own if _is_array_header(items[at], path)]
    starts = [_comment_start(text, items[at].start) for at in heads]
    for start, end in zip(starts, [*starts[1:], items[own[-1]].end if own else 0], strict=False):
        yield slice(start, end)


def _comment_start(text: str, start: int) -> int:
    """Where the comment begins that stands right above a line, or else the line itself."""
    while (before := text.rfind("\n", 0, max(0, start - 1)) + 1) < start:
        if not text[before:start].lstrip().startswith("#"):
            break
        start = before
    return start


def _is_array_header(item: TomlHeader | TomlEntry, path: TomlPath) -> bool:
    return isinstance(item, TomlHeader) and item.array and item.path == path


def _match_tables(current: Sequence[Table], tables: Sequence[Table]) -> dict[int, int]:
    """Which of those that stood each one is that is to be, where it is one of them."""
    free = list(range(len(current)))
    matched = {}
    for at, table in enumerate(tables):
        same = [old for old in free if current[old] == table]
        if same:
            matched[at] = at if at in same else same[0]
            free.remove(matched[at])
    return matched


def _format_table(header: str, path: TomlPath, table: Table, patch: PatchText) -> str:
    keys = {(*path, key): value for key, value in table.items()}
    return _to_array_header(patch(f"[{header}]\n", keys))


def _to_single_header(piece: str) -> str:
    """As a table of its own, which can be changed like any other."""
    return _DOUBLE.sub(r"\1[\2]", piece, count=1)


def _to_array_header(piece: str) -> str:
    return _SINGLE.sub(r"\1[[\2]]", piece, count=1)


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
    exactly the requested change: otherwise `UnpatchableToml` is raised and a person must edit the
    file.
    """
    patched = text if not text or text.endswith("\n") else f"{text}\n"
    try:
        expected = tomllib.loads(text)
        for path, value in values.items():
            _set_in_tree(expected, path, value)
            patched = (
                _remove_key(patched, path) if value is None else _set_value(patched, path, value)
            )
        right = _without_empty_tables(tomllib.loads(patched)) == _without_empty_tables(expected)
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
    position = _insert_position(items, text, path[0])
    before = "\n" if text[:position].strip() and not text[:position].endswith("\n\n") else ""
    after = "\n" if text[position:].strip() and not text[position:].startswith("\n") else ""
    return _insert(text, position, f"{before}{section}{after}")


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
    removed = [each for each in items if each.path[: len(path)] == path]
    for each in reversed(removed):
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
