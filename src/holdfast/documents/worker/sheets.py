"""Sheets: xlsx as rows of values with tabs between them."""

import re
from collections.abc import Mapping

from holdfast.documents.worker.markup import read_markup
from holdfast.documents.worker.packed import Packed
from holdfast.documents.worker.text_buffer import Gathered, Unreadable

_MOST_STRINGS = 500_000
_MOST_COLUMNS = 256
_COLUMN = re.compile(r"[A-Z]{1,3}")


def read_xlsx(packed: Packed, gathered: Gathered) -> None:
    book, targets = _Names("sheet", "name", "id"), _Names("Relationship", "Id", "Target")
    for name, hearer in (("xl/workbook.xml", book), ("xl/_rels/workbook.xml.rels", targets)):
        if not (data := packed.read(name)):
            raise Unreadable("there are no sheets in it")
        read_markup(data, hearer)
    strings = _Strings()
    if shared := packed.read("xl/sharedStrings.xml"):
        read_markup(shared, strings)
    paths = dict(targets.pairs)
    for title, relation in book.pairs:
        path = paths.get(relation, "")
        gathered.line()
        gathered.add(f"[Sheet {title}]")
        gathered.line()
        if data := packed.read(path.lstrip("/") if path.startswith("/") else f"xl/{path}"):
            read_markup(data, _Rows(gathered, strings.found))


class _Names:
    """Two attributes of every element of one name."""

    def __init__(self, element: str, first: str, second: str) -> None:
        self._element, self._first, self._second = element, first, second
        self.pairs: list[tuple[str, str]] = []

    def begins(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == self._element:
            self.pairs.append((attributes.get(self._first, ""), attributes.get(self._second, "")))

    def ends(self, name: str) -> None: ...
    def says(self, text: str) -> None: ...


class _Strings:
    """The texts that cells refer to by number."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._parts: list[str] = []
        self._in_text = False

    def begins(self, name: str, attributes: Mapping[str, str]) -> None:
        self._in_text = name == "t"
        if name == "si":
            self._parts = []

    def ends(self, name: str) -> None:
        self._in_text = False
        if name == "si":
            if len(self.found) >= _MOST_STRINGS:
                raise Unreadable(f"it has more than {_MOST_STRINGS} texts in it")
            self.found.append("".join(self._parts))

    def says(self, text: str) -> None:
        if self._in_text:
            self._parts.append(text)


class _Rows:
    def __init__(self, gathered: Gathered, strings: list[str]) -> None:
        self._gathered = gathered
        self._strings = strings
        self._row: list[str] = []
        self._kind = ""
        self._value: list[str] = []
        self._in_value = False

    def begins(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "row":
            self._row = []
        elif name == "c":
            self._kind, self._value = attributes.get("t", ""), []
            self._skip_to(attributes.get("r", ""))
        elif name in ("v", "t"):
            self._in_value = True

    def ends(self, name: str) -> None:
        if name in ("v", "t"):
            self._in_value = False
        elif name == "c" and len(self._row) < _MOST_COLUMNS:
            self._row.append(self._shown("".join(self._value)))
        elif name == "row":
            self._gathered.add("\t".join(self._row).rstrip())
            self._gathered.line()

    def says(self, text: str) -> None:
        if self._in_value:
            self._value.append(text)

    def _skip_to(self, place: str) -> None:
        """Cells that are empty are not written down, and would move the others to the left."""
        column = 0
        for letter in (_COLUMN.match(place) or [""])[0]:
            column = column * 26 + ord(letter) - 64
        missing = min(column - 1, _MOST_COLUMNS) - len(self._row)
        self._row.extend([""] * max(0, missing))

    def _shown(self, value: str) -> str:
        if self._kind == "s":
            at = int(value) if value.isdigit() else -1
            value = self._strings[at] if 0 <= at < len(self._strings) else ""
        elif self._kind == "b":
            value = "TRUE" if value == "1" else "FALSE"
        return value.replace("\n", " ")
