"""The kinds of documents that can be read, told by their bytes first and their names second."""

import codecs
from enum import StrEnum

_PDF_HEADER_WITHIN = 1024  # bytes at the beginning, in which a PDF says that it is one
_SNIFFED_BYTES = 8192  # bytes by which words are told from anything else
_HTML_SUFFIXES = (".html", ".htm", ".xhtml")
# Old encodings have no mark: letters of them are believed where the name promises a text.
_TEXT_SUFFIXES = (".txt", ".csv", ".tsv", ".md", ".log", ".ini", ".srt", ".tex", ".rst", ".eml")
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROLS = frozenset(map(chr, range(32))) - frozenset("\t\n\r\f\x1b")


class DocumentKind(StrEnum):
    TEXT = "text"
    HTML = "html"
    PDF = "pdf"
    DOCX = "docx"
    XLSX = "xlsx"
    PPTX = "pptx"
    ODT = "odt"
    ODS = "ods"
    ODP = "odp"


_ZIP_KINDS = {
    **{
        f".{kind}": kind
        for kind in DocumentKind
        if kind not in (DocumentKind.TEXT, DocumentKind.HTML, DocumentKind.PDF)
    },
    **{
        ".docm": DocumentKind.DOCX,
        ".xlsm": DocumentKind.XLSX,
        ".pptm": DocumentKind.PPTX,
        ".ott": DocumentKind.ODT,
    },
}


def kind_of(name: str, data: bytes) -> DocumentKind | None:
    """None: nothing that could be read as text."""
    lowered = name.lower()
    if b"%PDF-" in data[:_PDF_HEADER_WITHIN]:
        return DocumentKind.PDF
    if data.startswith(b"PK\x03\x04"):
        return _ZIP_KINDS.get(f".{lowered.rpartition('.')[2]}")
    if encoding_of(name, data) is None:
        return None
    begins = data[:256].lstrip().lower()
    page = lowered.endswith(_HTML_SUFFIXES) or begins.startswith((b"<!doctype html", b"<html"))
    return DocumentKind.HTML if page else DocumentKind.TEXT


def encoding_of(name: str, data: bytes) -> str | None:
    """How these bytes are words; None: they are not."""
    if not data.strip():
        return None
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return encoding
    head = data[:_SNIFFED_BYTES]
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head, len(data) <= _SNIFFED_BYTES)
    except UnicodeDecodeError:
        promised = name.lower().endswith(_TEXT_SUFFIXES) and b"\x00" not in head
        return "cp1252" if promised else None
    return None if _CONTROLS & set(text) else "utf-8"


def decode_text(name: str, data: bytes, *, limit: int) -> tuple[str, bool]:
    """Of a text, the beginning, and whether there is more. No more is decoded than is wanted."""
    encoding = encoding_of(name, data) or "utf-8"
    head = data[: 4 * (limit + 1)]
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    text = decoder.decode(head, len(head) == len(data)).strip()
    return text[:limit], len(text) > limit or len(head) < len(data)
