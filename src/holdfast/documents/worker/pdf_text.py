"""The text of a PDF: what its pages show, in the order in which they say it."""

import re
from collections.abc import Mapping
from typing import Any

from holdfast.documents.worker.pdf_file import PdfFile
from holdfast.documents.worker.pdf_fonts import PdfFont, load_font
from holdfast.documents.worker.pdf_syntax import END, PdfKeyword, PdfName, PdfParser, PdfRef
from holdfast.documents.worker.text_buffer import TextBuffer, UnreadableDocument

Matrix = tuple[float, float, float, float, float, float]

_IDENTITY: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)
_MAX_FORM_DEPTH = 8  # forms within forms
_MAX_OPERANDS = 100
_MAX_SAVED = 500
_END_OF_IMAGE = re.compile(rb"[\x00\t\n\f\r ]EI[\x00\t\n\f\r ]")
_GAP = 0.18  # of the size of the letters: wider than that, there is a space
_LINE = 0.4  # of it: further up or down than that is another line
_PARAGRAPH = 1.9


def read_pdf(data: bytes, buffer: TextBuffer) -> None:
    """Raises `Unreadable` where no page shows a letter that has a name: pages that were scanned are
    pictures, and some fonts keep to themselves what they show."""
    file = PdfFile(data)
    writing = _TextLayout(buffer)
    fonts: dict[int, PdfFont] = {}
    pages = 0
    for page in file.pages():
        _PageReader(file, writing, fonts).read(page)
        writing.turn_page()
        pages += 1
    if not pages:
        raise UnreadableDocument("there are no pages in it, or it is damaged")
    if not buffer.text:
        raise UnreadableDocument("its pages show no text: they may be pictures of one")


class _TextLayout:
    """Owns where the last letter was put: spaces and lines are not written in a PDF, they are
    left."""

    def __init__(self, buffer: TextBuffer) -> None:
        self._buffer = buffer
        self._last_position: tuple[float, float] | None = None

    def turn_page(self) -> None:
        self._last_position = None
        self._buffer.new_line()
        self._buffer.new_line()

    def add(self, text: str, *, start: tuple[float, float], end: float, height: float) -> None:
        if self._last_position is not None and not text.isspace():
            down = abs(start[1] - self._last_position[1])
            if down > _LINE * height:
                self._buffer.new_line()
                if down > _PARAGRAPH * height:
                    self._buffer.new_line()
            elif abs(start[0] - self._last_position[0]) > _GAP * height:
                self._buffer.add(" ")
        self._buffer.add(text)
        self._last_position = (end, start[1])


class _PageReader:
    """Owns the state of the text while one page is read (9.3, 9.4)."""

    def __init__(self, file: PdfFile, writing: _TextLayout, fonts: dict[int, PdfFont]) -> None:
        self._file = file
        self._writing = writing
        self._fonts = fonts
        self._saved: list[tuple[Matrix, PdfFont | None, float]] = []
        self._page_matrix: Matrix = _IDENTITY
        self._line_matrix: Matrix = _IDENTITY
        self._text_matrix: Matrix = _IDENTITY
        self._font: PdfFont | None = None
        self._size = 1.0
        self._leading = self._char_spacing = self._word_spacing = 0.0

    def read(self, page: Mapping[str, Any]) -> None:
        contents = page.get("Contents")
        parts = contents if isinstance(contents, PdfRef) else None
        listed = self._file.array(contents)
        refs = listed if listed else [parts]
        data = b"\n".join(self._file.stream(each) for each in refs)
        self._run(data, self._file.dictionary(page.get("Resources")), depth=0)

    def _run(self, data: bytes, resources: Mapping[str, Any], *, depth: int) -> None:
        reader, operands = PdfParser(data), list[Any]()
        while (item := reader.next_object()) is not END:
            if not isinstance(item, PdfKeyword):
                operands.append(item)
                del operands[:-_MAX_OPERANDS]
                continue
            if item == "ID":
                after = _END_OF_IMAGE.search(data, reader.at)
                reader.at = after.end() if after else len(data)
            elif item == "Do":
                self._show_form(operands, resources, depth=depth)
            elif item == "Tf":
                self._choose_font(operands, resources)
            else:
                self._operate(item, operands)
            operands.clear()

    def _operate(self, operator: str, operands: list[Any]) -> None:
        match operator:
            case "Tj" | "'" | '"':
                if operator != "Tj":
                    self._move(0.0, -self._leading)
                self._show(operands[-1:])
            case "TJ":
                self._show(operands[-1] if operands and isinstance(operands[-1], list) else [])
            case "BT":
                self._line_matrix = self._text_matrix = _IDENTITY
            case "q" | "Q" | "cm":
                self._graphics_state(operator, operands)
            case _:
                self._set(operator, [float(o) for o in operands if isinstance(o, int | float)])

    def _set(self, operator: str, numbers: list[float]) -> None:
        match operator, numbers:
            case "Td", [x, y]:
                self._move(x, y)
            case "TD", [x, y]:
                self._leading = -y
                self._move(x, y)
            case "Tm", [a, b, c, d, e, f]:
                self._line_matrix = self._text_matrix = (a, b, c, d, e, f)
            case "T*", _:
                self._move(0.0, -self._leading)
            case "TL", [leading]:
                self._leading = leading
            case "Tc", [spread]:
                self._char_spacing = spread
            case "Tw", [spread]:
                self._word_spacing = spread

    def _graphics_state(self, operator: str, operands: list[Any]) -> None:
        if operator == "q" and len(self._saved) < _MAX_SAVED:
            self._saved.append((self._page_matrix, self._font, self._size))
        elif operator == "Q" and self._saved:
            self._page_matrix, self._font, self._size = self._saved.pop()
        elif operator == "cm" and (matrix := _matrix(operands)) is not None:
            self._page_matrix = _multiply(matrix, self._page_matrix)

    def _move(self, x: float, y: float) -> None:
        self._line_matrix = self._text_matrix = _multiply(
            (1.0, 0.0, 0.0, 1.0, x, y), self._line_matrix
        )

    def _choose_font(self, operands: list[Any], resources: Mapping[str, Any]) -> None:
        match operands:
            case [*_, PdfName() as name, int() | float() as size]:
                self._size = float(size)
                self._font = self._font_named(name, resources)

    def _font_named(self, name: str, resources: Mapping[str, Any]) -> PdfFont | None:
        entry = self._file.dictionary(resources.get("Font")).get(name)
        table = self._file.dictionary(entry)
        if not isinstance(entry, PdfRef):
            return load_font(self._file, table) if table else None
        if entry.number not in self._fonts:
            self._fonts[entry.number] = load_font(self._file, table)
        return self._fonts[entry.number]

    def _show(self, items: list[Any]) -> None:
        if self._font is None:
            return
        for item in items:
            if isinstance(item, bytes):
                self._show_text(item, self._font)
            elif isinstance(item, int | float):
                self._advance(-item / 1000 * self._size)

    def _show_text(self, text: bytes, font: PdfFont) -> None:
        start = self._position()
        letters = []
        for letter, width in font.decode(text):
            letters.append(letter)
            spread = self._char_spacing + (self._word_spacing if letter == " " else 0.0)
            self._advance(width / 1000 * self._size + spread)
        if shown := "".join(letters):
            whole = _multiply(self._text_matrix, self._page_matrix)
            height = max(0.1, abs(self._size) * (whole[2] ** 2 + whole[3] ** 2) ** 0.5)
            self._writing.add(shown, start=start, end=self._position()[0], height=height)

    def _advance(self, x: float) -> None:
        self._text_matrix = _multiply((1.0, 0.0, 0.0, 1.0, x, 0.0), self._text_matrix)

    def _position(self) -> tuple[float, float]:
        whole = _multiply(self._text_matrix, self._page_matrix)
        return whole[4], whole[5]

    def _show_form(self, operands: list[Any], resources: Mapping[str, Any], *, depth: int) -> None:
        name = operands[-1] if operands else None
        entry = self._file.dictionary(resources.get("XObject")).get(str(name))
        form = self._file.dictionary(entry)
        if form.get("Subtype") != "Form" or depth >= _MAX_FORM_DEPTH:
            return
        kept = self._page_matrix, self._font, self._size
        if (matrix := _matrix(self._file.array(form.get("Matrix")))) is not None:
            self._page_matrix = _multiply(matrix, self._page_matrix)
        inner = self._file.dictionary(form.get("Resources")) or resources
        self._run(self._file.stream(entry), inner, depth=depth + 1)
        self._page_matrix, self._font, self._size = kept


def _matrix(operands: list[Any]) -> Matrix | None:
    match [o for o in operands if isinstance(o, int | float)]:
        case [a, b, c, d, e, f]:
            return (float(a), float(b), float(c), float(d), float(e), float(f))
    return None


def _multiply(one: Matrix, other: Matrix) -> Matrix:
    a, b, c, d, e, f = one
    g, h, i, j, k, m = other
    return (
        a * g + b * i,
        a * h + b * j,
        c * g + d * i,
        c * h + d * j,
        e * g + f * i + k,
        e * h + f * j + m,
    )
