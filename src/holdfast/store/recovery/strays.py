"""Strays: pages that nothing leads to any more, and the trees that each of them can be of."""

from collections.abc import Iterator, Mapping

from holdfast.store.recovery.layout import Layout
from holdfast.store.recovery.pages import TABLE_KINDS, Page, Pages
from holdfast.store.recovery.records import Unreadable


class Strays:
    """Owns what is known of such pages: which trees their rows fit, and what stands above them.

    `layouts` are the trees that have lost something: a page can be of no other.
    """

    def __init__(self, pages: Pages, layouts: Mapping[str, Layout]) -> None:
        self._pages = pages
        self._layouts = layouts
        self._fitting: dict[int, frozenset[str]] = {}
        self._above: dict[int, int] = {}

    def found(self) -> Iterator[tuple[Page, list[Layout]]]:
        """Each page that has rows, with the trees it may be of; of one whose tree is certain,
        there is one."""
        self._survey()
        together = self._together()
        for number, own in self._fitting.items():
            try:
                page = self._pages.page(number)
            except Unreadable:
                continue  # a row of another page has run over into it
            if page.entries:
                # What stands under one page is of one tree; unless that page is not what it was.
                names = together[self._top(number)] or own
                yield page, [self._layouts[name] for name in sorted(names)]

    def _survey(self) -> None:
        free = set(self._pages.freelist())
        for number in range(1, self._pages.count + 1):
            if number in self._pages.taken or number in free:
                continue
            try:
                page = self._pages.page(number)
            except Unreadable:
                continue
            if fitting := self._fits(page):
                self._fitting[number] = fitting
                self._above |= dict.fromkeys(page.children, number)

    def _fits(self, page: Page) -> frozenset[str]:
        if not (page.entries or page.children):
            return frozenset()
        return frozenset(
            name
            for name, layout in self._layouts.items()
            if layout.rowid is (page.kind in TABLE_KINDS)
            and all(layout.fits(entry.values) for entry in page.entries)
        )

    def _together(self) -> dict[int, frozenset[str]]:
        """By the page that stands above all others of its tree: what every one of them fits."""
        found: dict[int, frozenset[str]] = {}
        for number, fitting in self._fitting.items():
            top = self._top(number)
            found[top] = found.get(top, fitting) & fitting
        return found

    def _top(self, number: int) -> int:
        way = [number]
        while (above := self._above.get(way[-1])) is not None and above not in way:
            way.append(above)
        return way[-1]
