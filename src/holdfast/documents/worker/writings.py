"""Writings and slides: docx, pptx, and the documents of the OpenDocument family."""

import re
from collections.abc import Mapping

from holdfast.documents.worker.markup import parse_xml
from holdfast.documents.worker.packed import ZipDocument
from holdfast.documents.worker.text_buffer import TextBuffer, UnreadableDocument

_SLIDE = re.compile(r"ppt/slides/slide(\d+)\.xml")
_MAX_SPACES = 100  # that stand for one mark of OpenDocument


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
    """Words stand in runs of paragraphs, in Word and PowerPoint alike. What stands in a drawing is
    written down twice, the second time for programs that cannot draw it (`Fallback`)."""

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
        elif name == "tab" and "val" not in attributes:  # with one, it is a stop of the ruler
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
    """Words stand in paragraphs and headings; what is between those is layout."""

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
