"""Changing a list of tables (`[[table]]` after `[[table]]`) in a TOML text, and nothing else."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from holdfast.config.toml_scan import TomlEntry, TomlHeader, TomlPath, scan_toml

# The header, which is the first line that is no comment.
_SINGLE = re.compile(r"^([ \t]*)\[(.*?)\]", re.MULTILINE)
_DOUBLE = re.compile(r"^([ \t]*)\[\[(.*?)\]\]", re.MULTILINE)

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
        kept = _match_tables(self._current, tables)
        taken = frozenset(kept.values())
        made = []
        for at, table in enumerate(tables):
            if at in kept:
                made.append(self._lines(kept[at]))
            elif at < len(self._spans) and at not in taken:
                made.append(self._changed(at, table))
            else:
                made.append(_format_table(header, self._path, table, self._patch))
        lines = "\n".join(f"{piece.rstrip()}\n" for piece in made)
        return self._text[: self._spans[0].start] + lines + self._text[self._spans[-1].stop :]

    def _lines(self, at: int) -> str:
        return self._text[self._spans[at]]

    def _changed(self, at: int, table: Table) -> str:
        stood = self._current[at]
        gone = {(*self._path, key): None for key in stood if key not in table}
        other = {(*self._path, key): each for key, each in table.items() if stood.get(key) != each}
        return _to_array_header(self._patch(_to_single_header(self._lines(at)), {**gone, **other}))


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
    kept = {}
    for at, table in enumerate(tables):
        same = [old for old in free if current[old] == table]
        if same:
            kept[at] = at if at in same else same[0]
            free.remove(kept[at])
    return kept


def _format_table(header: str, path: TomlPath, table: Table, patch: PatchText) -> str:
    keys = {(*path, key): value for key, value in table.items()}
    return _to_array_header(patch(f"[{header}]\n", keys))


def _to_single_header(piece: str) -> str:
    """As a table of its own, which can be changed like any other."""
    return _DOUBLE.sub(r"\1[\2]", piece, count=1)


def _to_array_header(piece: str) -> str:
    return _SINGLE.sub(r"\1[[\2]]", piece, count=1)
