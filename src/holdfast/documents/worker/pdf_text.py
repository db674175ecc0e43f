"""The text of a PDF: what its pages show, in the order in which they say it."""

import re
from collections.abc import Mapping
from typing import Any

from holdfast.documents.worker.pdf_file import PdfFile
from holdfast.documents.worker.pdf_fonts import Font, font_of
from holdfast.documents.worker.pdf_syntax import END, Name, Reader, Ref, Word
from holdfast.documents.worker.text_buffer import Gathered, Unreadable

Matrix = tuple[float, float, float, float, float, float]

_PLAIN: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)
_DEEPEST = 8  # forms within forms
_MOST_OPERANDS = 100
_MOST_SAVED = 500
_END_OF_IMAGE = re.compile(rb"[\x00\t\n\f\r ]EI[\x00\t\n\f\r ]")
_GAP = 0.18  # of the size of the letters: wider than that, there is a space
_LINE = 0.4  # of it: further up or down than that is another line
_PARAGRAPH = 1.9


def read_pdf(data: bytes, gathered: Gathered) -> None:
    """Raises `Unreadable` where no page shows a letter that has a name: pages that were scanned are
    pictures, and some fonts keep to themselves what they show."""
    file = PdfFile(data)
    writing = _Writing(gathered)
    fonts: dict[int, Font] = {}
    pages = 0
    for page in file.pages():
        _Page(file, writing, fonts).read(page)
        writing.turn_page()
        pages += 1
    if not pages:
        raise Unreadable("there are no pages in it, or it is damaged")
    if not gathered.text:
        raise Unreadable("its pages show no text: they may be pictures of one")


class _Writing:
    """Owns where the last letter was put: spaces and lines are not written in a PDF, they are
    left."""

    def __init__(self, gathered: Gathered) -> None:
        self._gathered = gathered
        self._at: tuple[float, float] | None = None

    def turn_page(self) -> None:
        self._at = None
        self._gathered.line()
        self._gathered.line()

    def put(self, text: str, *, start: tuple[float, float], end: float, height: float) -> None:
        if self._at is not None and not text.isspace():
            down = abs(start[1] - self._at[1])
            if down > _LINE * height:
                self._gathered.line()
                if down > _PARAGRAPH * height:
                    self._gathered.line()
            elif abs(start[0] - self._at[0]) > _GAP * height:
                self._gathered.add(" ")
        self._gathered.add(text)
        self._at = (end, start[1])


class _Page:
    """Owns the state of the text while one page is read (9.3, 9.4)."""

    def __init__(self, file: PdfFile, writing: _Writing, fonts: dict[int, Font]) -> None:
        self._file = file
        self._writing = writing
        self._fonts = fonts
        self._saved: list[tuple[Matrix, Font | None, float]] = []
        self._space: Matrix = _PLAIN
        self._line: Matrix = _PLAIN
        self._text: Matrix = _PLAIN
        self._font: Font | None = None
        self._size = 1.0
        self._leading = self._spread = self._word_spread = 0.0

    def read(self, page: Mapping[str, Any]) -> None:
        contents = page.get("Contents")
        parts = contents if isinstance(contents, Ref) else None
        listed = self._file.items(contents)
        refs = listed if listed else [parts]
        data = b"\n".join(self._file.stream(each) for each in refs)
        self._run(data, self._file.table(page.get("Resources")), depth=0)

    def _run(self, data: bytes, resources: Mapping[str, Any], *, depth: int) -> None:
        reader, operands = Reader(data), list[Any]()
        while (item := reader.object()) is not END:
            if not isinstance(item, Word):
                operands.append(item)
                del operands[:-_MOST_OPERANDS]
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

    def _operate(self, word: str, operands: list[Any]) -> None:
        match word:
            case "Tj" | "'" | '"':
                if word != "Tj":
                    self._move(0.0, -self._leading)
                self._show(operands[-1:])
            case "TJ":
                self._show(operands[-1] if operands and isinstance(operands[-1], list) else [])
            case "BT":
                self._line = self._text = _PLAIN
            case "q" | "Q" | "cm":
                self._place(word, operands)
            case _:
                self._set(word, [float(o) for o in operands if isinstance(o, int | float)])

    def _set(self, word: str, numbers: list[float]) -> None:
        match word, numbers:
            case "Td", [x, y]:
                self._move(x, y)
            case "TD", [x, y]:
                self._leading = -y
                self._move(x, y)
            case "Tm", [a, b, c, d, e, f]:
                self._line = self._text = (a, b, c, d, e, f)
            case "T*", _:
                self._move(0.0, -self._leading)
            case "TL", [leading]:
                self._leading = leading
            case "Tc", [spread]:
                self._spread = spread
            case "Tw", [spread]:
                self._word_spread = spread

    def _place(self, word: str, operands: list[Any]) -> None:
        if word == "q" and len(self._saved) < _MOST_SAVED:
            self._saved.append((self._space, self._font, self._size))
        elif word == "Q" and self._saved:
            self._space, self._font, self._size = self._saved.pop()
        elif word == "cm" and (matrix := _matrix(operands)) is not None:
            self._space = _times(matrix, self._space)

    def _move(self, x: float, y: float) -> None:
        self._line = self._text = _times((1.0, 0.0, 0.0, 1.0, x, y), self._line)

    def _choose_font(self, operands: list[Any], resources: Mapping[str, Any]) -> None:
        match operands:
            case [*_, Name() as name, int() | float() as size]:
                self._size = float(size)
                self._font = self._font_named(name, resources)

    def _font_named(self, name: str, resources: Mapping[str, Any]) -> Font | None:
        entry = self._file.table(resources.get("Font")).get(name)
        table = self._file.table(entry)
        if not isinstance(entry, Ref):
            return font_of(self._file, table) if table else None
        if entry.number not in self._fonts:
            self._fonts[entry.number] = font_of(self._file, table)
        return self._fonts[entry.number]

    def _show(self, items: list[Any]) -> None:
        if self._font is None:
            return
        for item in items:
            if isinstance(item, bytes):
                self._show_text(item, self._font)
            elif isinstance(item, int | float):
                self._advance(-item / 1000 * self._size)

    def _show_text(self, text: bytes, font: Font) -> None:
        start = self._where()
        letters = []
        for letter, width in font.shown(text):
            letters.append(letter)
            spread = self._spread + (self._word_spread if letter == " " else 0.0)
            self._advance(width / 1000 * self._size + spread)
        if shown := "".join(letters):
            whole = _times(self._text, self._space)
            height = max(0.1, abs(self._size) * (whole[2] ** 2 + whole[3] ** 2) ** 0.5)
            self._writing.put(shown, start=start, end=self._where()[0], height=height)

    def _advance(self, x: float) -> None:
        self._text = _times((1.0, 0.0, 0.0, 1.0, x, 0.0), self._text)

    def _where(self) -> tuple[float, float]:
        whole = _times(self._text, self._space)
        return whole[4], whole[5]

    def _show_form(self, operands: list[Any], resources: Mapping[str, Any], *, depth: int) -> None:
        name = operands[-1] if operands else None
        entry = self._file.table(resources.get("XObject")).get(str(name))
        form = self._file.table(entry)
        if form.get("Subtype") != "Form" or depth >= _DEEPEST:
            return
        kept = self._space, self._font, self._size
        if (matrix := _matrix(self._file.items(form.get("Matrix")))) is not None:
            self._space = _times(matrix, self._space)
        inner = self._file.table(form.get("Resources")) or resources
        self._run(self._file.stream(entry), inner, depth=depth + 1)
        self._space, self._font, self._size = kept


def _matrix(operands: list[Any]) -> Matrix | None:
    match [o for o in operands if isinstance(o, int | float)]:
        case [a, b, c, d, e, f]:
            return (float(a), float(b), float(c), float(d), float(e), float(f))
    return None


def _times(one: Matrix, other: Matrix) -> Matrix:
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
