"""Changing a list of tables (`[[table]]` after `[[table]]`) in a TOML text, and nothing else."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from holdfast.config.toml_scan import Entry, Header, Path, scan

# The header, which is the first line that is no comment.
_SINGLE = re.compile(r"^([ \t]*)\[(.*?)\]", re.MULTILINE)
_DOUBLE = re.compile(r"^([ \t]*)\[\[(.*?)\]\]", re.MULTILINE)

Table = Mapping[str, Any]
Patch = Callable[[str, Mapping[Path, Any]], str]
"""Sets keys of a text, or takes those out whose value is None."""


def is_tables(value: object) -> bool:
    """Whether it can be written as a list of tables; an empty one cannot."""
    return (
        isinstance(value, list | tuple)
        and len(value) > 0
        and all(isinstance(each, Mapping) for each in value)
    )


def new_tables(header: str, path: Path, tables: Sequence[Table], patch: Patch) -> str:
    return "\n".join(_new(header, path, table, patch) for table in tables)


class TableList:
    """Owns where the tables of one list stand in a text, each with the comment right above it.
    Raises `ValueError` where something else stands between them."""

    def __init__(self, text: str, path: Path, *, stood: Sequence[Table], patch: Patch) -> None:
        """`stood`: what the text says of them."""
        self._text = text
        self._path = path
        self._stood = stood
        self._patch = patch
        self._spans = list(_spans(text, scan(text), path))

    def __bool__(self) -> bool:
        return bool(self._spans)

    def replaced(self, header: str, wanted: Sequence[Table]) -> str:
        """The text with these in their place. One that stays keeps its lines, wherever it moves;
        one that differs from what stood in its place is changed key by key."""
        kept = _kept(self._stood, wanted)
        taken = frozenset(kept.values())
        made = []
        for at, table in enumerate(wanted):
            if at in kept:
                made.append(self._lines(kept[at]))
            elif at < len(self._spans) and at not in taken:
                made.append(self._changed(at, table))
            else:
                made.append(_new(header, self._path, table, self._patch))
        lines = "\n".join(f"{piece.rstrip()}\n" for piece in made)
        return self._text[: self._spans[0].start] + lines + self._text[self._spans[-1].stop :]

    def _lines(self, at: int) -> str:
        return self._text[self._spans[at]]

    def _changed(self, at: int, table: Table) -> str:
        stood = self._stood[at]
        gone = {(*self._path, key): None for key in stood if key not in table}
        other = {(*self._path, key): each for key, each in table.items() if stood.get(key) != each}
        return _double(self._patch(_single(self._lines(at)), {**gone, **other}))


def _spans(text: str, items: Sequence[Header | Entry], path: Path) -> Iterator[slice]:
    own = [at for at, each in enumerate(items) if each.path[: len(path)] == path]
    if own and own != list(range(own[0], own[-1] + 1)):
        raise ValueError("something else stands between the tables")
    heads = [at for at in own if _is_head(items[at], path)]
    starts = [_above(text, items[at].start) for at in heads]
    for start, end in zip(starts, [*starts[1:], items[own[-1]].end if own else 0], strict=False):
        yield slice(start, end)


def _above(text: str, start: int) -> int:
    """Where the comment begins that stands right above a line, or else the line itself."""
    while (before := text.rfind("\n", 0, max(0, start - 1)) + 1) < start:
        if not text[before:start].lstrip().startswith("#"):
            break
        start = before
    return start


def _is_head(item: Header | Entry, path: Path) -> bool:
    return isinstance(item, Header) and item.array and item.path == path


def _kept(stood: Sequence[Table], wanted: Sequence[Table]) -> dict[int, int]:
    """Which of those that stood each one is that is to be, where it is one of them."""
    free = list(range(len(stood)))
    kept = {}
    for at, table in enumerate(wanted):
        same = [old for old in free if stood[old] == table]
        if same:
            kept[at] = at if at in same else same[0]
            free.remove(kept[at])
    return kept


def _new(header: str, path: Path, table: Table, patch: Patch) -> str:
    keys = {(*path, key): value for key, value in table.items()}
    return _double(patch(f"[{header}]\n", keys))


def _single(piece: str) -> str:
    """As a table of its own, which can be changed like any other."""
    return _DOUBLE.sub(r"\1[\2]", piece, count=1)


def _double(piece: str) -> str:
    return _SINGLE.sub(r"\1[[\2]]", piece, count=1)
