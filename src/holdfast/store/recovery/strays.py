"""Strays: pages that nothing leads to any more, and the trees that each of them can be of."""

from collections.abc import Iterator, Mapping

from holdfast.store.recovery.layout import TreeLayout
from holdfast.store.recovery.pages import TABLE_PAGE_KINDS, PageReader, TreePage
from holdfast.store.recovery.records import CorruptData


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
