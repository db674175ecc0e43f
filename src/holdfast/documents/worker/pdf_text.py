"""The text of a PDF: its fonts, its characters, and what the pages show, in their order."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.documents.worker.pdf_file import END, PdfFile, PdfKeyword, PdfName, PdfParser, PdfRef
from holdfast.documents.worker.text_buffer import TextBuffer, UnreadableDocument

# Characters that are drawn as one and read as several.
LIGATURES = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl"}
_LIGATURE_NAMES = frozenset(LIGATURES.values())
# The common names of Adobe's glyph list (https://github.com/adobe-type-tools/agl-aglfn); names of
# accented letters are composed from `_ACCENTS`.
_NAMES = """
space=0020 nbspace=0020 exclam=0021 quotedbl=0022 numbersign=0023 dollar=0024 percent=0025
ampersand=0026 quotesingle=0027 parenleft=0028 parenright=0029 asterisk=002a plus=002b
comma=002c hyphen=002d minus=002d period=002e slash=002f colon=003a semicolon=003b less=003c
equal=003d greater=003e question=003f at=0040 bracketleft=005b backslash=005c bracketright=005d
asciicircum=005e underscore=005f grave=0060 braceleft=007b bar=007c braceright=007d
asciitilde=007e zero=0030 one=0031 two=0032 three=0033 four=0034 five=0035 six=0036 seven=0037
eight=0038 nine=0039 endash=2013 emdash=2014 bullet=2022 quoteleft=2018 quoteright=2019
quotedblleft=201c quotedblright=201d quotesinglbase=201a quotedblbase=201e guillemotleft=00ab
guillemotright=00bb ellipsis=2026 dagger=2020 daggerdbl=2021 section=00a7 paragraph=00b6
copyright=00a9 registered=00ae trademark=2122 degree=00b0 plusminus=00b1 multiply=00d7
divide=00f7 Euro=20ac sterling=00a3 yen=00a5 cent=00a2 germandbls=00df ae=00e6 AE=00c6 oe=0153
OE=0152 oslash=00f8 Oslash=00d8 dotlessi=0131 lslash=0142 Lslash=0141 eth=00f0 thorn=00fe
mu=00b5 Omega=03a9 alpha=03b1 beta=03b2 gamma=03b3 delta=03b4 epsilon=03b5 lambda=03bb pi=03c0
sigma=03c3 tau=03c4 phi=03c6 exclamdown=00a1 questiondown=00bf periodcentered=00b7 fraction=2044
"""
_NAMED = {name: chr(int(code, 16)) for name, code in (each.split("=") for each in _NAMES.split())}
_ACCENTS = {
    **{"grave": "\u0300", "acute": "\u0301", "circumflex": "\u0302", "tilde": "\u0303"},
    **{"macron": "\u0304", "breve": "\u0306", "dotaccent": "\u0307", "dieresis": "\u0308"},
    **{"ring": "\u030a", "hungarumlaut": "\u030b", "caron": "\u030c", "cedilla": "\u0327"},
    **{"ogonek": "\u0328"},
}


def character_named(name: str) -> str:
    """The character with a name of Adobe's glyph list; "" if unknown."""
    name = name.partition(".")[0]
    if len(name) == 1 or name in _LIGATURE_NAMES:
        return name
    if name in _NAMED:
        return _NAMED[name]
    digits = name.removeprefix("uni") if name.startswith("uni") else name.removeprefix("u")
    if digits != name and 4 <= len(digits) <= 6:
        return _from_hex(digits)
    if name[1:] in _ACCENTS:
        return unicodedata.normalize("NFC", name[0] + _ACCENTS[name[1:]])
    return ""


def _from_hex(digits: str) -> str:
    try:
        return chr(int(digits, 16))
    except (ValueError, OverflowError):
        return ""


_MAX_CHARACTERS = 200_000  # that one font maps
_DEFAULT_WIDTH = 500.0  # thousandths of the size
_BASE_ENCODINGS = {"WinAnsiEncoding": "cp1252", "MacRomanEncoding": "mac_roman"}
# TeX's ligatures, which fonts without an encoding have at the codes of control characters.
_TEX_LIGATURES = {0x0B: "ff", 0x0C: "fi", 0x0D: "fl", 0x0E: "ffi", 0x0F: "ffl", 0xAE: "ff"}


@dataclass(slots=True, kw_only=True)
class PdfFont:
    """Which characters the codes of a text stand for, and how wide they are."""

    characters: dict[int, str] = field(default_factory=dict)
    code_bytes: int = 1
    widths: dict[int, float] = field(default_factory=dict)
    default_width: float = _DEFAULT_WIDTH

    def decode(self, text: bytes) -> Iterator[tuple[str, float]]:
        """Each letter with its width in thousandths; "" for one that nobody can name."""
        for at in range(0, len(text) - self.code_bytes + 1, self.code_bytes):
            code = int.from_bytes(text[at : at + self.code_bytes])
            yield self.characters.get(code, ""), self.widths.get(code, self.default_width)


def load_font(file: PdfFile, table: Mapping[str, Any]) -> PdfFont:
    composite = table.get("Subtype") == "Type0"
    font = _composite(file, table) if composite else _simple(file, table)
    if data := file.stream(table.get("ToUnicode")):
        _apply_cmap(data, font)
    return font


def _simple(file: PdfFile, table: Mapping[str, Any]) -> PdfFont:
    encoding = file.resolve(table.get("Encoding"))
    base = encoding.get("BaseEncoding") if isinstance(encoding, dict) else encoding
    codec = _BASE_ENCODINGS.get(base or "", "cp1252")
    characters = {code: bytes([code]).decode(codec, "ignore") for code in range(32, 256)}
    if base is None:
        characters.update(_TEX_LIGATURES)
    if isinstance(encoding, dict):
        characters.update(_differences(file.array(encoding.get("Differences"))))
    first = int(file.number(table.get("FirstChar")))
    widths = {
        first + at: file.number(width, _DEFAULT_WIDTH)
        for at, width in enumerate(file.array(table.get("Widths"))[:256])
    }
    return PdfFont(characters=characters, widths=widths)


def _composite(file: PdfFile, table: Mapping[str, Any]) -> PdfFont:
    inner = next(iter(file.array(table.get("DescendantFonts"))), None)
    below = file.dictionary(inner)
    usual = file.number(below.get("DW"), 1000.0)
    return PdfFont(code_bytes=2, widths=dict(_widths(file, below)), default_width=usual)


def _widths(file: PdfFile, below: Mapping[str, Any]) -> Iterator[tuple[int, float]]:
    """`first [w w w]`, or `first last w`, one after the other (9.7.4.3)."""
    items = [file.resolve(item) for item in file.array(below.get("W"))[:_MAX_CHARACTERS]]
    at = 0
    while at + 1 < len(items):
        first, second = items[at], items[at + 1]
        if not isinstance(first, int):
            return
        if isinstance(second, list):
            for index, width in enumerate(second[:_MAX_CHARACTERS]):
                yield first + index, file.number(width, 1000.0)
            at += 2
        elif at + 2 < len(items) and isinstance(second, int):
            for code in range(first, min(second, first + 65536) + 1):
                yield code, file.number(items[at + 2], 1000.0)
            at += 3
        else:
            return


def _differences(items: list[Any]) -> Iterator[tuple[int, str]]:
    code = 0
    for item in items:
        if isinstance(item, PdfName):
            yield code, character_named(item)
            code += 1
        elif isinstance(item, int):
            code = item


def _apply_cmap(data: bytes, font: PdfFont) -> None:
    """Of a CMap (9.10.3), how long its codes are and what they stand for."""
    reader, items = PdfParser(data), list[Any]()
    while (item := reader.next_object()) is not END:
        if not isinstance(item, PdfKeyword):
            items.append(item)
            continue
        if item == "endcodespacerange" and items and isinstance(items[-1], bytes):
            font.code_bytes = max(1, min(len(items[-1]), 4))
        elif item == "endbfchar":
            font.characters.update(_pairs(items))
        elif item == "endbfrange":
            font.characters.update(_ranges(items))
        items.clear()
        if len(font.characters) > _MAX_CHARACTERS:
            return


def _pairs(items: list[Any]) -> Iterator[tuple[int, str]]:
    for code, characters in zip(items[::2], items[1::2], strict=False):
        if isinstance(code, bytes) and isinstance(characters, bytes):
            yield int.from_bytes(code), _decode_utf16(characters)


def _ranges(items: list[Any]) -> Iterator[tuple[int, str]]:
    for first, last, to in zip(items[::3], items[1::3], items[2::3], strict=False):
        if not (isinstance(first, bytes) and isinstance(last, bytes)):
            continue
        start, end = int.from_bytes(first), int.from_bytes(last)
        for index, code in enumerate(range(start, min(end, start + 65535) + 1)):
            if isinstance(to, list):
                if index < len(to) and isinstance(to[index], bytes):
                    yield code, _decode_utf16(to[index])
            elif isinstance(to, bytes) and to:
                yield code, _decode_utf16((int.from_bytes(to) + index).to_bytes(len(to) + 1)[1:])


def _decode_utf16(characters: bytes) -> str:
    return characters.decode("utf-16-be", "ignore").replace("\x00", "").translate(LIGATURES)


Matrix = tuple[float, float, float, float, float, float]

_IDENTITY: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)
_MAX_FORM_DEPTH = 8  # forms within forms
_MAX_OPERANDS = 100
_MAX_SAVED = 500
_END_OF_IMAGE = re.compile(rb"[\x00\t\n\f\r ]EI[\x00\t\n\f\r ]")
_GAP = 0.18  # of the font size: a wider gap is a space
_LINE = 0.4  # of the font size: further up or down is another line
_PARAGRAPH = 1.9


def read_pdf(data: bytes, buffer: TextBuffer) -> None:
    """Raises `UnreadableDocument` where no page shows a known character: scanned pages are images,
    and some fonts do not say what they show."""
    file = PdfFile(data)
    layout = _TextLayout(buffer)
    fonts: dict[int, PdfFont] = {}
    pages = 0
    for page in file.pages():
        _PageReader(file, layout, fonts).read(page)
        layout.turn_page()
        pages += 1
    if not pages:
        raise UnreadableDocument("there are no pages in it, or it is damaged")
    if not buffer.text:
        raise UnreadableDocument("its pages show no text: they may be pictures of one")


class _TextLayout:
    """Owns the position of the last character: a PDF has no spaces and line breaks, only gaps."""

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
        characters = []
        for letter, width in font.decode(text):
            characters.append(letter)
            spread = self._char_spacing + (self._word_spacing if letter == " " else 0.0)
            self._advance(width / 1000 * self._size + spread)
        if shown := "".join(characters):
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
        saved_state = self._page_matrix, self._font, self._size
        if (matrix := _matrix(self._file.array(form.get("Matrix")))) is not None:
            self._page_matrix = _multiply(matrix, self._page_matrix)
        inner = self._file.dictionary(form.get("Resources")) or resources
        self._run(self._file.stream(entry), inner, depth=depth + 1)
        self._page_matrix, self._font, self._size = saved_state


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
