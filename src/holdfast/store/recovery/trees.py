"""The trees of a damaged file: walked from their roots, and leaves that lost the way to theirs."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from holdfast.store.recovery.layout import Layout
from holdfast.store.recovery.pages import TABLE_KINDS, Entry, Kind, Page, Pages
from holdfast.store.recovery.records import Unreadable
from holdfast.store.recovery.strays import Strays

_SCHEMA = "sqlite_schema"
_SEQUENCES = "sqlite_sequence"
_IN_SCHEMA = ("table", "index", "view", "trigger")

Tell = Callable[[int, int], None]
"""How many pages were read, of how many."""


class Found(NamedTuple):
    layout: Layout
    entry: Entry


class Trees:
    """Owns the count of what could not be read: pages by the table they belonged to, and those
    of which nobody can tell (`unplaced`)."""

    def __init__(self, pages: Pages, layouts: Mapping[str, Layout], *, tell: Tell) -> None:
        self._pages = pages
        self._layouts = layouts
        self._tell = tell
        self.lost: Counter[str] = Counter()
        self.unplaced = 0
        self._bereft: set[str] = set()  # trees that have lost a page, indexes too
        self.broken: Counter[str] = Counter()  # rows in pages that were readable otherwise
        self.regained: Counter[str] = Counter()  # rows of those that an index had a copy of
        self.gaps: Counter[str] = Counter()  # rows that others are numbered behind
        self.leaves: Counter[str] = Counter()
        self.rows: Counter[str] = Counter()
        self.sequences: dict[str, int] = {}

    def walk(self) -> Iterator[Found]:
        """Every row that can be reached, then those in leaves that cannot, and last what an index
        has of a table that has lost something: most of those rows are there by then."""
        roots, copies = self._roots(), list[Found]()
        for name, layout in self._layouts.items():
            if name not in roots:
                self._bereft.add(name)
                continue
            for entry in self._entries(name, roots[name], rowid=layout.rowid):
                yield from self._sorted(name, Found(layout, entry), copies)
        if self._bereft:
            yield from self._stray(copies)
        yield from copies

    def _sorted(self, name: str, found: Found, copies: list[Found]) -> Iterator[Found]:
        if name == _SEQUENCES:
            self._count_on(found.entry)
        elif not found.layout.copy:
            yield from [found] if found.layout.table else []
        elif found.layout.table in self._bereft or self.broken[found.layout.table]:
            copies.append(found)

    def _count_on(self, entry: Entry) -> None:
        match entry.values:
            case [str(table), int(number)]:
                self.sequences[table] = number

    def _roots(self) -> dict[str, int]:
        """Where each tree begins, from the file's own list of them: a tree of its own, which
        begins on the first page. Where that is lost its leaves are looked for."""
        found = _named([*self._entries(_SCHEMA, 1, rowid=True)])
        if not self.lost[_SCHEMA]:
            return found
        for number in range(2, self._pages.count + 1):
            if number in self._pages.taken or self._pages.kind(number) != Kind.LEAF_TABLE:
                continue
            page = self._readable(number, rowid=True)
            if page is not None and page.entries and all(map(_of_schema, page.entries)):
                self._pages.take(page)
                found |= _named(page.entries)
        return found

    def _entries(self, name: str, root: int, *, rowid: bool) -> Iterator[Entry]:
        waiting = [root]
        while waiting:
            self._tell(len(self._pages.taken), self._pages.count)
            page = self._readable(waiting.pop(), rowid=rowid)
            if page is None:
                self._bereft.add(name)
                self.lost[name] += self._holds(name)
                continue
            self._pages.take(page)
            waiting += reversed(page.children)
            if page.kind in (Kind.LEAF_INDEX, Kind.LEAF_TABLE):
                self.leaves[name] += 1
                self.rows[name] += len(page.entries)
            if self._holds(name):
                self.broken[name] += page.broken
            yield from page.entries

    def _readable(self, number: int, *, rowid: bool) -> Page | None:
        try:
            page = self._pages.page(number)
        except Unreadable:
            return None
        return page if (page.kind in TABLE_KINDS) is rowid else None

    def _holds(self, name: str) -> bool:
        """Whether what is lost of it is lost: an index is made anew."""
        layout = self._layouts.get(name)
        return layout is None or bool(layout.table and not layout.copy)

    def _stray(self, copies: list[Found]) -> Iterator[Found]:
        """A page that nothing leads to belongs to the one tree that has lost something and that
        its rows fit; where there are several, nobody can tell."""
        bereft = {name: each for name, each in self._layouts.items() if name in self._bereft}
        for page, owners in Strays(self._pages, bereft).found():
            if len(owners) > 1:
                self.unplaced += 1
                continue
            [owner] = owners
            self._pages.take(page)
            if owner.table and not owner.copy:
                self.broken[owner.table] += page.broken
            for entry in page.entries:
                yield from self._sorted(owner.table, Found(owner, entry), copies)
        if self.lost[_SCHEMA]:  # else what is gone is known as the loss of a tree
            self.unplaced = self._left()

    def _left(self) -> int:
        """Pages that hold something and were no part of anything."""
        return sum(
            number not in self._pages.taken and not self._pages.empty(number)
            for number in range(2, self._pages.count + 1)
        )


def _of_schema(entry: Entry) -> bool:
    match entry.values:
        case [str(kind), str(), str(), int(), str() | None]:
            return kind in _IN_SCHEMA
    return False


def _named(entries: list[Entry]) -> dict[str, int]:
    return {
        str(entry.values[1]): entry.values[3]
        for entry in entries
        if _of_schema(entry) and isinstance(entry.values[3], int)
    }
