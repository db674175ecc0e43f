"""Sheets: xlsx as rows of values with tabs between them."""

import re
from collections.abc import Mapping

from holdfast.documents.worker.markup import parse_xml
from holdfast.documents.worker.packed import ZipDocument
from holdfast.documents.worker.text_buffer import TextBuffer, UnreadableDocument

_MAX_STRINGS = 500_000
_MAX_COLUMNS = 256
_COLUMN = re.compile(r"[A-Z]{1,3}")


def read_xlsx(document: ZipDocument, buffer: TextBuffer) -> None:
    book, targets = (
        _AttributePairsHandler("sheet", "name", "id"),
        _AttributePairsHandler("Relationship", "Id", "Target"),
    )
    for name, hearer in (("xl/workbook.xml", book), ("xl/_rels/workbook.xml.rels", targets)):
        if not (data := document.read(name)):
            raise UnreadableDocument("there are no sheets in it")
        parse_xml(data, hearer)
    strings = _SharedStringsHandler()
    if shared := document.read("xl/sharedStrings.xml"):
        parse_xml(shared, strings)
    paths = dict(targets.pairs)
    for title, relation in book.pairs:
        path = paths.get(relation, "")
        buffer.new_line()
        buffer.add(f"[Sheet {title}]")
        buffer.new_line()
        if data := document.read(path.lstrip("/") if path.startswith("/") else f"xl/{path}"):
            parse_xml(data, _SheetHandler(buffer, strings.strings))


class _AttributePairsHandler:
    """Two attributes of every element of one name."""

    def __init__(self, element: str, first: str, second: str) -> None:
        self._element, self._first, self._second = element, first, second
        self.pairs: list[tuple[str, str]] = []

    def start_element(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == self._element:
            self.pairs.append((attributes.get(self._first, ""), attributes.get(self._second, "")))

    def end_element(self, name: str) -> None: ...
    def text(self, text: str) -> None: ...


class _SharedStringsHandler:
    """The texts that cells refer to by number."""

    def __init__(self) -> None:
        self.strings: list[str] = []
        self._parts: list[str] = []
        self._in_text = False

    def start_element(self, name: str, attributes: Mapping[str, str]) -> None:
        self._in_text = name == "t"
        if name == "si":
            self._parts = []

    def end_element(self, name: str) -> None:
        self._in_text = False
        if name == "si":
            if len(self.strings) >= _MAX_STRINGS:
                raise UnreadableDocument(f"it has more than {_MAX_STRINGS} texts in it")
            self.strings.append("".join(self._parts))

    def text(self, text: str) -> None:
        if self._in_text:
            self._parts.append(text)


class _SheetHandler:
    def __init__(self, buffer: TextBuffer, strings: list[str]) -> None:
        self._buffer = buffer
        self._strings = strings
        self._row: list[str] = []
        self._kind = ""
        self._value: list[str] = []
        self._in_value = False

    def start_element(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "row":
            self._row = []
        elif name == "c":
            self._kind, self._value = attributes.get("t", ""), []
            self._skip_to(attributes.get("r", ""))
        elif name in ("v", "t"):
            self._in_value = True

    def end_element(self, name: str) -> None:
        if name in ("v", "t"):
            self._in_value = False
        elif name == "c" and len(self._row) < _MAX_COLUMNS:
            self._row.append(self._cell_text("".join(self._value)))
        elif name == "row":
            self._buffer.add("\t".join(self._row).rstrip())
            self._buffer.new_line()

    def text(self, text: str) -> None:
        if self._in_value:
            self._value.append(text)

    def _skip_to(self, reference: str) -> None:
        """Cells that are empty are not written down, and would move the others to the left."""
        column = 0
        for letter in (_COLUMN.match(reference) or [""])[0]:
            column = column * 26 + ord(letter) - 64
        missing = min(column - 1, _MAX_COLUMNS) - len(self._row)
        self._row.extend([""] * max(0, missing))

    def _cell_text(self, value: str) -> str:
        if self._kind == "s":
            at = int(value) if value.isdigit() else -1
            value = self._strings[at] if 0 <= at < len(self._strings) else ""
        elif self._kind == "b":
            value = "TRUE" if value == "1" else "FALSE"
        return value.replace("\n", " ")
