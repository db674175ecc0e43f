"""The fonts of a PDF: which letters the codes of a text stand for, and how wide they are."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.documents.worker.pdf_file import PdfFile
from holdfast.documents.worker.pdf_letters import LIGATURES, character_named
from holdfast.documents.worker.pdf_syntax import END, PdfKeyword, PdfName, PdfParser

_MAX_CHARACTERS = 200_000  # that one font maps
_DEFAULT_WIDTH = 500.0  # thousandths of the size
_BASE_ENCODINGS = {"WinAnsiEncoding": "cp1252", "MacRomanEncoding": "mac_roman"}
# What fonts without an encoding of their own have in the places of control characters: the
# ligatures of TeX.
_TEX_LIGATURES = {0x0B: "ff", 0x0C: "fi", 0x0D: "fl", 0x0E: "ffi", 0x0F: "ffl", 0xAE: "ff"}


@dataclass(slots=True, kw_only=True)
class PdfFont:
    """`letters` by code; codes are of `size` bytes each."""

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
    letters = {code: bytes([code]).decode(codec, "ignore") for code in range(32, 256)}
    if base is None:
        letters.update(_TEX_LIGATURES)
    if isinstance(encoding, dict):
        letters.update(_differences(file.array(encoding.get("Differences"))))
    first = int(file.number(table.get("FirstChar")))
    widths = {
        first + at: file.number(width, _DEFAULT_WIDTH)
        for at, width in enumerate(file.array(table.get("Widths"))[:256])
    }
    return PdfFont(characters=letters, widths=widths)


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
            for place, width in enumerate(second[:_MAX_CHARACTERS]):
                yield first + place, file.number(width, 1000.0)
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
    for code, letters in zip(items[::2], items[1::2], strict=False):
        if isinstance(code, bytes) and isinstance(letters, bytes):
            yield int.from_bytes(code), _decode_utf16(letters)


def _ranges(items: list[Any]) -> Iterator[tuple[int, str]]:
    for first, last, to in zip(items[::3], items[1::3], items[2::3], strict=False):
        if not (isinstance(first, bytes) and isinstance(last, bytes)):
            continue
        start, end = int.from_bytes(first), int.from_bytes(last)
        for place, code in enumerate(range(start, min(end, start + 65535) + 1)):
            if isinstance(to, list):
                if place < len(to) and isinstance(to[place], bytes):
                    yield code, _decode_utf16(to[place])
            elif isinstance(to, bytes) and to:
                yield code, _decode_utf16((int.from_bytes(to) + place).to_bytes(len(to) + 1)[1:])


def _decode_utf16(letters: bytes) -> str:
    return letters.decode("utf-16-be", "ignore").replace("\x00", "").translate(LIGATURES)
