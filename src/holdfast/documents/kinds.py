"""The kinds of documents that can be read, told by their bytes first and their names second."""

import codecs
from enum import StrEnum

_PDF_WITHIN = 1024  # bytes at the beginning, in which a PDF says that it is one
_LOOKED_AT = 8192  # bytes by which words are told from anything else
_ENDINGS_OF_PAGES = (".html", ".htm", ".xhtml")
# Old encodings have no mark: letters of them are believed where the name promises a text.
_ENDINGS_OF_TEXTS = (".txt", ".csv", ".tsv", ".md", ".log", ".ini", ".srt", ".tex", ".rst", ".eml")
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROLS = frozenset(map(chr, range(32))) - frozenset("\t\n\r\f\x1b")


class Kind(StrEnum):
    TEXT = "text"
    HTML = "html"
    PDF = "pdf"
    DOCX = "docx"
    XLSX = "xlsx"
    PPTX = "pptx"
    ODT = "odt"
    ODS = "ods"
    ODP = "odp"


_PACKED = {
    **{f".{kind}": kind for kind in Kind if kind not in (Kind.TEXT, Kind.HTML, Kind.PDF)},
    **{".docm": Kind.DOCX, ".xlsm": Kind.XLSX, ".pptm": Kind.PPTX, ".ott": Kind.ODT},
}


def kind_of(name: str, data: bytes) -> Kind | None:
    """None: nothing that could be read as text."""
    lowered = name.lower()
    if b"%PDF-" in data[:_PDF_WITHIN]:
        return Kind.PDF
    if data.startswith(b"PK\x03\x04"):
        return _PACKED.get(f".{lowered.rpartition('.')[2]}")
    if encoding_of(name, data) is None:
        return None
    begins = data[:256].lstrip().lower()
    page = lowered.endswith(_ENDINGS_OF_PAGES) or begins.startswith((b"<!doctype html", b"<html"))
    return Kind.HTML if page else Kind.TEXT


def encoding_of(name: str, data: bytes) -> str | None:
    """How these bytes are words; None: they are not."""
    if not data.strip():
        return None
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return encoding
    head = data[:_LOOKED_AT]
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head, len(data) <= _LOOKED_AT)
    except UnicodeDecodeError:
        promised = name.lower().endswith(_ENDINGS_OF_TEXTS) and b"\x00" not in head
        return "cp1252" if promised else None
    return None if _CONTROLS & set(text) else "utf-8"


def words_of(name: str, data: bytes, *, limit: int) -> tuple[str, bool]:
    """Of a text, the beginning, and whether there is more. No more is decoded than is wanted."""
    encoding = encoding_of(name, data) or "utf-8"
    head = data[: 4 * (limit + 1)]
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    text = decoder.decode(head, len(head) == len(data)).strip()
    return text[:limit], len(text) > limit or len(head) < len(data)
