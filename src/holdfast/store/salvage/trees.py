"""The trees of a damaged file: walked from their roots, and leaves that lost the way to theirs."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from holdfast.store.salvage.layout import Layout
from holdfast.store.salvage.pages import Entry, Kind, Page, Pages
from holdfast.store.salvage.records import Unreadable

_TABLE = (Kind.INNER_TABLE, Kind.LEAF_TABLE)
_SCHEMA_COLUMNS = 5
_SCHEMA = "sqlite_schema"
_SEQUENCES = "sqlite_sequence"

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
        self.leaves: Counter[str] = Counter()
        self.rows: Counter[str] = Counter()
        self.sequences: dict[str, int] = {}

    def roots(self) -> dict[str, int]:
        """Where each tree begins, from the file's own list of them."""
        rows = (entry.values for entry in self._entries(_SCHEMA, 1, rowid=True))
        found: dict[str, int] = {}
        for values in rows:
            if len(values) == _SCHEMA_COLUMNS and isinstance(values[3], int):
                found[str(values[1])] = values[3]
        return found

    def walk(self) -> Iterator[Found]:
        """Every row that can be reached, and then those in leaves that cannot."""
        roots = self.roots()
        for name, layout in self._layouts.items():
            if name not in roots:
                continue
            for entry in self._entries(name, roots[name], rowid=layout.rowid):
                if name == _SEQUENCES:
                    self._count_on(entry)
                elif layout.table:
                    yield Found(layout, entry)
        if self.lost:
            yield from self._stray()

    def _count_on(self, entry: Entry) -> None:
        match entry.values:
            case [str(table), int(number)]:
                self.sequences[table] = number

    def _entries(self, name: str, root: int, *, rowid: bool) -> Iterator[Entry]:
        waiting = [root]
        while waiting:
            page = self._page(name, waiting.pop(), rowid=rowid)
            if page is None:
                continue
            waiting += reversed(page.children)
            if page.kind in (Kind.LEAF_INDEX, Kind.LEAF_TABLE):
                self.leaves[name] += 1
                self.rows[name] += len(page.entries)
            yield from page.entries

    def _page(self, name: str, number: int, *, rowid: bool) -> Page | None:
        self._tell(len(self._pages.seen), self._pages.count)
        try:
            page = self._pages.page(number)
        except Unreadable:
            page = None
        if page is None or (page.kind in _TABLE) is not rowid:
            self._bereft.add(name)
            if self._holds(name):
                self.lost[name] += 1
            return None
        if self._holds(name):
            self.broken[name] += page.broken
        return page

    def _holds(self, name: str) -> bool:
        """Whether what is lost of it is lost: an index is made anew."""
        layout = self._layouts.get(name)
        return layout is None or bool(layout.table)

    def _stray(self) -> Iterator[Found]:
        """A leaf whose parent is lost belongs to the one tree that has lost something and that its
        rows fit; where there are several, nobody can tell."""
        free = set(self._pages.freelist())
        for number in range(1, self._pages.count + 1):
            if number in self._pages.seen or number in free:
                continue
            try:
                page = self._pages.page(number)
            except Unreadable:
                continue
            owners = self._owners(page)
            if len(owners) > 1:
                self.unplaced += 1
            elif owners and owners[0].table:
                for entry in page.entries:
                    yield Found(owners[0], entry)

    def _owners(self, page: Page) -> list[Layout]:
        if not page.entries:
            return []
        return [
            layout
            for name, layout in self._layouts.items()
            if (name in self._bereft or _SCHEMA in self._bereft)
            and layout.rowid is (page.kind in _TABLE)
            and all(layout.fits(entry.values) for entry in page.entries)
        ]
