"""The text of Office and OpenDocument files: docx, pptx, xlsx, odt, ods, odp.

They are zip archives of XML files. Neither may expand to more than a document can have: an archive
is unpacked up to a limit and a ratio, and XML may not declare entities.
"""

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import Protocol
from xml.parsers import expat

from holdfast.documents.worker.text_buffer import TextBuffer, UnreadableDocument

_MAX_FILE_BYTES = 64 * 2**20  # of one file in the archive, unpacked
_MAX_TOTAL_BYTES = 128 * 2**20
_MAX_RATIO = 250  # text compresses to a twentieth, and a zip bomb to a thousandth
_RATIO_FREE_BYTES = 2**20  # too few for a zip bomb, whatever the ratio
_MAX_FILES = 20_000
_ENCRYPTED_FLAG = 0x1
_MAX_DEPTH = 256  # of nested XML elements
_SLIDE = re.compile(r"ppt/slides/slide(\d+)\.xml")
_MAX_SPACES = 100  # for one space element of OpenDocument
_MAX_STRINGS = 500_000
_MAX_COLUMNS = 256
_COLUMN = re.compile(r"[A-Z]{1,3}")
# What zipfile raises for data that is no archive, or a damaged one.
_DAMAGED_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    NotImplementedError,
    EOFError,
    OSError,
    ValueError,
)


class ZipDocument:
    """Owns the open archive, and how much of it has been unpacked. The sizes in its directory are
    not trusted: what is unpacked is counted."""

    def __init__(self, data: bytes) -> None:
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(data))
        except _DAMAGED_ERRORS as error:
            raise UnreadableDocument(f"it is damaged ({error})") from None
        self._left = _MAX_TOTAL_BYTES
        if len(self._archive.filelist) > _MAX_FILES:
            raise UnreadableDocument(f"it has more than {_MAX_FILES} files in it")

    @property
    def names(self) -> list[str]:
        return self._archive.namelist()

    def read(self, name: str) -> bytes:
        """The whole file; b"" where there is none of that name."""
        try:
            info = self._archive.getinfo(name)
        except KeyError:
            return b""
        if info.flag_bits & _ENCRYPTED_FLAG:
            raise UnreadableDocument("it is encrypted")
        limit = min(_MAX_FILE_BYTES, self._left)
        try:
            with self._archive.open(info) as file:
                data = file.read(limit + 1)
        except _DAMAGED_ERRORS as error:
            raise UnreadableDocument(f"it is damaged ({error})") from None
        if len(data) > limit or len(data) > max(_RATIO_FREE_BYTES, _MAX_RATIO * info.compress_size):
            raise UnreadableDocument("it unpacks to far more than a document has")
        self._left -= len(data)
        return data


class XmlHandler(Protocol):
    """Gets each element as it starts and ends. Names come without their namespace."""

    def start_element(self, name: str, attributes: Mapping[str, str]) -> None: ...
    def end_element(self, name: str) -> None: ...
    def text(self, text: str) -> None: ...


def parse_xml(data: bytes, handler: XmlHandler) -> None:
    """Raises `UnreadableDocument` for what is no XML, is nested too deeply, or declares entities:
    Office files have none, and a few lines of them expand to gigabytes."""
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    depth = 0

    def begins(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _MAX_DEPTH:
            raise UnreadableDocument("it is nested deeper than a document is")
        handler.start_element(
            _local_name(name), {_local_name(key): value for key, value in attributes.items()}
        )

    def ends(name: str) -> None:
        nonlocal depth
        depth -= 1
        handler.end_element(_local_name(name))

    parser.StartElementHandler = begins
    parser.EndElementHandler = ends
    parser.CharacterDataHandler = handler.text
    parser.EntityDeclHandler = _refuse_entity
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise UnreadableDocument(f"it is damaged ({error})") from None


def _refuse_entity(*_: object) -> None:
    raise UnreadableDocument("it declares entities, which no document needs")


def _local_name(name: str) -> str:
    return name.rpartition(" ")[2]


def read_docx(document: ZipDocument, buffer: TextBuffer) -> None:
    body = document.read("word/document.xml")
    if not body:
        raise UnreadableDocument("there is no text of a document in it")
    for data in (body, document.read("word/footnotes.xml"), document.read("word/endnotes.xml")):
        if data:
            parse_xml(data, _RunsHandler(buffer))


def read_pptx(document: ZipDocument, buffer: TextBuffer) -> None:
    slides = sorted(
        (int(at[1]), at[0]) for name in document.names if (at := _SLIDE.fullmatch(name))
    )
    if not slides:
        raise UnreadableDocument("there are no slides in it")
    for number, name in slides:
        buffer.new_line()
        buffer.add(f"[Slide {number}]")
        buffer.new_line()
        parse_xml(document.read(name), _RunsHandler(buffer))


def read_open_document(document: ZipDocument, buffer: TextBuffer) -> None:
    content = document.read("content.xml")
    if not content:
        raise UnreadableDocument("there is no text of a document in it")
    parse_xml(content, _OpenDocumentHandler(buffer))


class _RunsHandler:
    """Text is in runs of paragraphs, in Word and PowerPoint alike. Text in a drawing is there
    twice, the second time for programs that cannot draw it (`Fallback`)."""

    def __init__(self, buffer: TextBuffer) -> None:
        self._buffer = buffer
        self._in_run = False
        self._in_row = False
        self._fallback_depth = 0

    def start_element(self, name: str, attributes: Mapping[str, str]) -> None:
        self._fallback_depth += name == "Fallback"
        if self._fallback_depth:
            return
        if name == "t":
            self._in_run = True
        elif name == "tab" and "val" not in attributes:  # with one, it is a tab stop definition
            self._buffer.add("\t")
        elif name in ("br", "cr"):
            self._buffer.new_line()
        elif name == "tr":
            self._in_row = True

    def end_element(self, name: str) -> None:
        if self._fallback_depth:
            self._fallback_depth -= name == "Fallback"
            return
        if name == "t":
            self._in_run = False
        elif name == "tr":
            self._in_row = False
            self._buffer.new_line()
        elif name == "tc":
            self._buffer.add("\t")
        elif name == "p" and not self._in_row:
            self._buffer.new_line()
        elif name == "p":
            self._buffer.add(" ")

    def text(self, text: str) -> None:
        if self._in_run:
            self._buffer.add(text)


class _OpenDocumentHandler:
    """Text is in paragraphs and headings; what is between those is layout."""

    def __init__(self, buffer: TextBuffer) -> None:
        self._buffer = buffer
        self._paragraphs = 0
        self._in_cell = 0

    def start_element(self, name: str, attributes: Mapping[str, str]) -> None:
        if name in ("p", "h"):
            self._paragraphs += 1
        elif name == "s":
            count = attributes.get("c", "1")
            self._buffer.add(" " * min(int(count) if count.isdigit() else 1, _MAX_SPACES))
        elif name == "tab":
            self._buffer.add("\t")
        elif name == "line-break":
            self._buffer.new_line()
        elif name == "table-cell":
            self._in_cell += 1

    def end_element(self, name: str) -> None:
        if name in ("p", "h"):
            self._paragraphs -= 1
            if self._in_cell:
                self._buffer.add(" ")
            else:
                self._buffer.new_line()
        elif name == "table-cell":
            self._in_cell -= 1
            self._buffer.add("\t")
        elif name in ("table-row", "page"):
            self._buffer.new_line()

    def text(self, text: str) -> None:
        if self._paragraphs:
            self._buffer.add(text)


def read_xlsx(document: ZipDocument, buffer: TextBuffer) -> None:
    """Each sheet as rows of values separated by tabs."""
    book = _AttributePairsHandler("sheet", "name", "id")
    targets = _AttributePairsHandler("Relationship", "Id", "Target")
    for name, handler in (("xl/workbook.xml", book), ("xl/_rels/workbook.xml.rels", targets)):
        if not (data := document.read(name)):
            raise UnreadableDocument("there are no sheets in it")
        parse_xml(data, handler)
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
