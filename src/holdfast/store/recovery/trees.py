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

_SCHEMA = "sqlite_schema"
_SEQUENCES = "sqlite_sequence"
_SCHEMA_TYPES = ("table", "index", "view", "trigger")

PagesCallback = Callable[[int, int], None]
"""Gets the number of pages read so far, and the number of all pages."""


class OrphanPages:
    """Pages that no tree leads to. Owns which trees their rows fit, and their parent pages.

    `layouts` are the incomplete trees: an orphan can belong to no other.
    """

    def __init__(self, pages: PageReader, layouts: Mapping[str, TreeLayout]) -> None:
        self._pages = pages
        self._layouts = layouts
        self._candidates: dict[int, frozenset[str]] = {}
        self._parents: dict[int, int] = {}

    def assign_to_trees(self) -> Iterator[tuple[TreePage, list[TreeLayout]]]:
        """Each page that has rows, with the trees it may belong to: one, if that is certain."""
        self._scan()
        together = self._common_trees()
        for number, own in self._candidates.items():
            try:
                page = self._pages.read_page(number)
            except CorruptData:
                continue  # it is an overflow page of another page's row
            if page.cells:
                # All pages below one page belong to one tree, unless that page is corrupt.
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
            if matching := self._matching_trees(page):
                self._candidates[number] = matching
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
        """By topmost page: the trees that all pages below it fit."""
        found: dict[int, frozenset[str]] = {}
        for number, matching in self._candidates.items():
            top = self._topmost(number)
            found[top] = found.get(top, matching) & matching
        return found

    def _topmost(self, number: int) -> int:
        path = [number]
        while (parent := self._parents.get(path[-1])) is not None and parent not in path:
            path.append(parent)
        return path[-1]


class FoundRow(NamedTuple):
    layout: TreeLayout
    cell: Cell


class TreeWalker:
    """Reads the rows of all trees. Owns the counts of what could not be read: pages by their table,
    and pages whose table is unknown (`unassigned_pages`)."""

    def __init__(
        self, pages: PageReader, layouts: Mapping[str, TreeLayout], *, progress: PagesCallback
    ) -> None:
        self._pages = pages
        self._layouts = layouts
        self._progress = progress
        self.lost_pages: Counter[str] = Counter()
        self.unassigned_pages = 0
        self._incomplete_trees: set[str] = set()  # that have lost a page; also indexes
        self.unreadable_rows: Counter[str] = Counter()  # in pages that were readable otherwise
        self.rows_from_indexes: Counter[str] = Counter()  # recovered from a copy in an index
        self.missing_rows: Counter[str] = Counter()  # known from gaps in their numbers
        self.leaf_pages: Counter[str] = Counter()
        self.row_counts: Counter[str] = Counter()
        self.sequences: dict[str, int] = {}

    def walk(self) -> Iterator[FoundRow]:
        """All rows of the trees, then those of orphan pages, and last the copies that indexes have
        of incomplete tables: most of those rows were found by then."""
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
        """The root page of each tree, from `sqlite_schema`, a tree whose root is the first page. If
        a page of it is lost, its leaves are searched in the whole file."""
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
        """Whether a lost page of it means lost data: indexes are rebuilt."""
        layout = self._layouts.get(name)
        return layout is None or bool(layout.table and not layout.is_copy)

    def _orphan_rows(self, copies: list[FoundRow]) -> Iterator[FoundRow]:
        """An orphan page belongs to the one incomplete tree that its rows fit; if there are
        several, it stays unassigned."""
        incomplete = {
            name: each for name, each in self._layouts.items() if name in self._incomplete_trees
        }
        for page, owners in OrphanPages(self._pages, incomplete).assign_to_trees():
            if len(owners) > 1:
                self.unassigned_pages += 1
                continue
            [owner] = owners
            self._pages.mark_used(page)
            if owner.table and not owner.is_copy:
                self.unreadable_rows[owner.table] += page.unreadable_cells
            for entry in page.cells:
                yield from self._classify(owner.table, FoundRow(owner, entry), copies)
        if self.lost_pages[_SCHEMA]:  # otherwise every loss is counted with its tree
            self.unassigned_pages = self._count_unused_pages()

    def _count_unused_pages(self) -> int:
        """Pages with content that belong to no tree."""
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
