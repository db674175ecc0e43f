"""The B-trees of a damaged file: walked from their roots, and orphan pages assigned to the tree
they fit."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from holdfast.store.recovery.file_format import (
    TABLE_PAGE_KINDS,
    Cell,
    CorruptData,
    PageKind,
    PageReader,
    TreePage,
)
from holdfast.store.recovery.layout import TreeLayout


class OrphanPages:
    """Owns what is known of such pages: which trees their rows fit, and what stands above them.

    `layouts` are the trees that have lost something: a page can be of no other.
    """

    def __init__(self, pages: PageReader, layouts: Mapping[str, TreeLayout]) -> None:
        self._pages = pages
        self._layouts = layouts
        self._candidates: dict[int, frozenset[str]] = {}
        self._parents: dict[int, int] = {}

    def assign_to_trees(self) -> Iterator[tuple[TreePage, list[TreeLayout]]]:
        """Each page that has rows, with the trees it may be of; of one whose tree is certain,
        there is one."""
        self._scan()
        together = self._common_trees()
        for number, own in self._candidates.items():
            try:
                page = self._pages.read_page(number)
            except CorruptData:
                continue  # a row of another page has run over into it
            if page.cells:
                # What stands under one page is of one tree; unless that page is not what it was.
                names = together[self._topmost(number)] or own
                yield page, [self._layouts[name] for name in sorted(names)]

    def _scan(self) -> None:
        free = set(self._pages.freelist())
        for number in range(1, self._pages.count + 1):
            if number in self._pages.used or number in free:
                continue
            try:
                page = self._pages.read_page(number)
            except CorruptData:
                continue
            if fitting := self._matching_trees(page):
                self._candidates[number] = fitting
                self._parents |= dict.fromkeys(page.children, number)

    def _matching_trees(self, page: TreePage) -> frozenset[str]:
        if not (page.cells or page.children):
            return frozenset()
        return frozenset(
            name
            for name, layout in self._layouts.items()
            if layout.rowid is (page.kind in TABLE_PAGE_KINDS)
            and all(layout.fits(entry.values) for entry in page.cells)
        )

    def _common_trees(self) -> dict[int, frozenset[str]]:
        """By the page that stands above all others of its tree: what every one of them fits."""
        found: dict[int, frozenset[str]] = {}
        for number, fitting in self._candidates.items():
            top = self._topmost(number)
            found[top] = found.get(top, fitting) & fitting
        return found

    def _topmost(self, number: int) -> int:
        way = [number]
        while (above := self._parents.get(way[-1])) is not None and above not in way:
            way.append(above)
        return way[-1]


_SCHEMA = "sqlite_schema"
_SEQUENCES = "sqlite_sequence"
_SCHEMA_TYPES = ("table", "index", "view", "trigger")

PagesCallback = Callable[[int, int], None]
"""How many pages were read, of how many."""


class FoundRow(NamedTuple):
    layout: TreeLayout
    cell: Cell


class TreeWalker:
    """Owns the count of what could not be read: pages by the table they belonged to, and those
    of which nobody can tell (`unplaced`)."""

    def __init__(
        self, pages: PageReader, layouts: Mapping[str, TreeLayout], *, progress: PagesCallback
    ) -> None:
        self._pages = pages
        self._layouts = layouts
        self._progress = progress
        self.lost_pages: Counter[str] = Counter()
        self.unassigned_pages = 0
        self._incomplete_trees: set[str] = set()  # trees that have lost a page, indexes too
        self.unreadable_rows: Counter[str] = Counter()  # rows in pages that were readable otherwise
        self.rows_from_indexes: Counter[str] = (
            Counter()
        )  # rows of those that an index had a copy of
        self.missing_rows: Counter[str] = Counter()  # rows that others are numbered behind
        self.leaf_pages: Counter[str] = Counter()
        self.row_counts: Counter[str] = Counter()
        self.sequences: dict[str, int] = {}

    def walk(self) -> Iterator[FoundRow]:
        """Every row that can be reached, then those in leaves that cannot, and last what an index
        has of a table that has lost something: most of those rows are there by then."""
        roots, copies = self._roots(), list[FoundRow]()
        for name, layout in self._layouts.items():
            if name not in roots:
                self._incomplete_trees.add(name)
                continue
            for entry in self._cells(name, roots[name], rowid=layout.rowid):
                yield from self._classify(name, FoundRow(layout, entry), copies)
        if self._incomplete_trees:
            yield from self._orphan_rows(copies)
        yield from copies

    def _classify(self, name: str, found: FoundRow, copies: list[FoundRow]) -> Iterator[FoundRow]:
        if name == _SEQUENCES:
            self._note_sequence(found.cell)
        elif not found.layout.is_copy:
            yield from [found] if found.layout.table else []
        elif (
            found.layout.table in self._incomplete_trees or self.unreadable_rows[found.layout.table]
        ):
            copies.append(found)

    def _note_sequence(self, entry: Cell) -> None:
        match entry.values:
            case [str(table), int(number)]:
                self.sequences[table] = number

    def _roots(self) -> dict[str, int]:
        """Where each tree begins, from the file's own list of them: a tree of its own, which
        begins on the first page. Where that is lost its leaves are looked for."""
        found = _roots_by_name([*self._cells(_SCHEMA, 1, rowid=True)])
        if not self.lost_pages[_SCHEMA]:
            return found
        for number in range(2, self._pages.count + 1):
            if number in self._pages.used or self._pages.kind_byte(number) != PageKind.LEAF_TABLE:
                continue
            page = self._read_page(number, rowid=True)
            if page is not None and page.cells and all(map(_is_schema_row, page.cells)):
                self._pages.mark_used(page)
                found |= _roots_by_name(page.cells)
        return found

    def _cells(self, name: str, root: int, *, rowid: bool) -> Iterator[Cell]:
        waiting = [root]
        while waiting:
            self._progress(len(self._pages.used), self._pages.count)
            page = self._read_page(waiting.pop(), rowid=rowid)
            if page is None:
                self._incomplete_trees.add(name)
                self.lost_pages[name] += self._holds_data(name)
                continue
            self._pages.mark_used(page)
            waiting += reversed(page.children)
            if page.kind in (PageKind.LEAF_INDEX, PageKind.LEAF_TABLE):
                self.leaf_pages[name] += 1
                self.row_counts[name] += len(page.cells)
            if self._holds_data(name):
                self.unreadable_rows[name] += page.unreadable_cells
            yield from page.cells

    def _read_page(self, number: int, *, rowid: bool) -> TreePage | None:
        try:
            page = self._pages.read_page(number)
        except CorruptData:
            return None
        return page if (page.kind in TABLE_PAGE_KINDS) is rowid else None

    def _holds_data(self, name: str) -> bool:
        """Whether what is lost of it is lost: an index is made anew."""
        layout = self._layouts.get(name)
        return layout is None or bool(layout.table and not layout.is_copy)

    def _orphan_rows(self, copies: list[FoundRow]) -> Iterator[FoundRow]:
        """A page that nothing leads to belongs to the one tree that has lost something and that
        its rows fit; where there are several, nobody can tell."""
        bereft = {
            name: each for name, each in self._layouts.items() if name in self._incomplete_trees
        }
        for page, owners in OrphanPages(self._pages, bereft).assign_to_trees():
            if len(owners) > 1:
                self.unassigned_pages += 1
                continue
            [owner] = owners
            self._pages.mark_used(page)
            if owner.table and not owner.is_copy:
                self.unreadable_rows[owner.table] += page.unreadable_cells
            for entry in page.cells:
                yield from self._classify(owner.table, FoundRow(owner, entry), copies)
        if self.lost_pages[_SCHEMA]:  # else what is gone is known as the loss of a tree
            self.unassigned_pages = self._count_unused_pages()

    def _count_unused_pages(self) -> int:
        """Pages that hold something and were no part of anything."""
        return sum(
            number not in self._pages.used and not self._pages.is_blank(number)
            for number in range(2, self._pages.count + 1)
        )


def _is_schema_row(entry: Cell) -> bool:
    match entry.values:
        case [str(kind), str(), str(), int(), str() | None]:
            return kind in _SCHEMA_TYPES
    return False


def _roots_by_name(entries: list[Cell]) -> dict[str, int]:
    return {
        str(entry.values[1]): entry.values[3]
        for entry in entries
        if _is_schema_row(entry) and isinstance(entry.values[3], int)
    }
