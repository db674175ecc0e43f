"""Writings and slides: docx, pptx, and the documents of the OpenDocument family."""

import re
from collections.abc import Mapping

from holdfast.documents.worker.markup import read_markup
from holdfast.documents.worker.packed import Packed
from holdfast.documents.worker.text_buffer import Gathered, Unreadable

_SLIDE = re.compile(r"ppt/slides/slide(\d+)\.xml")
_MOST_SPACES = 100  # that stand for one mark of OpenDocument


def read_docx(packed: Packed, gathered: Gathered) -> None:
    body = packed.read("word/document.xml")
    if not body:
        raise Unreadable("there is no text of a document in it")
    for data in (body, packed.read("word/footnotes.xml"), packed.read("word/endnotes.xml")):
        if data:
            read_markup(data, _Runs(gathered))


def read_pptx(packed: Packed, gathered: Gathered) -> None:
    slides = sorted((int(at[1]), at[0]) for name in packed.names if (at := _SLIDE.fullmatch(name)))
    if not slides:
        raise Unreadable("there are no slides in it")
    for number, name in slides:
        gathered.line()
        gathered.add(f"[Slide {number}]")
        gathered.line()
        read_markup(packed.read(name), _Runs(gathered))


def read_open_document(packed: Packed, gathered: Gathered) -> None:
    content = packed.read("content.xml")
    if not content:
        raise Unreadable("there is no text of a document in it")
    read_markup(content, _Content(gathered))


class _Runs:
    """Words stand in runs of paragraphs, in Word and PowerPoint alike. What stands in a drawing is
    written down twice, the second time for programs that cannot draw it (`Fallback`)."""

    def __init__(self, gathered: Gathered) -> None:
        self._gathered = gathered
        self._in_run = False
        self._in_row = False
        self._said_before = 0

    def begins(self, name: str, attributes: Mapping[str, str]) -> None:
        self._said_before += name == "Fallback"
        if self._said_before:
            return
        if name == "t":
            self._in_run = True
        elif name == "tab" and "val" not in attributes:  # with one, it is a stop of the ruler
            self._gathered.add("\t")
        elif name in ("br", "cr"):
            self._gathered.line()
        elif name == "tr":
            self._in_row = True

    def ends(self, name: str) -> None:
        if self._said_before:
            self._said_before -= name == "Fallback"
            return
        if name == "t":
            self._in_run = False
        elif name == "tr":
            self._in_row = False
            self._gathered.line()
        elif name == "tc":
            self._gathered.add("\t")
        elif name == "p" and not self._in_row:
            self._gathered.line()
        elif name == "p":
            self._gathered.add(" ")

    def says(self, text: str) -> None:
        if self._in_run:
            self._gathered.add(text)


class _Content:
    """Words stand in paragraphs and headings; what is between those is layout."""

    def __init__(self, gathered: Gathered) -> None:
        self._gathered = gathered
        self._paragraphs = 0
        self._in_cell = 0

    def begins(self, name: str, attributes: Mapping[str, str]) -> None:
        if name in ("p", "h"):
            self._paragraphs += 1
        elif name == "s":
            count = attributes.get("c", "1")
            self._gathered.add(" " * min(int(count) if count.isdigit() else 1, _MOST_SPACES))
        elif name == "tab":
            self._gathered.add("\t")
        elif name == "line-break":
            self._gathered.line()
        elif name == "table-cell":
            self._in_cell += 1

    def ends(self, name: str) -> None:
        if name in ("p", "h"):
            self._paragraphs -= 1
            if self._in_cell:
                self._gathered.add(" ")
            else:
                self._gathered.line()
        elif name == "table-cell":
            self._in_cell -= 1
            self._gathered.add("\t")
        elif name in ("table-row", "page"):
            self._gathered.line()

    def says(self, text: str) -> None:
        if self._paragraphs:
            self._gathered.add(text)
