"""The worker process: a document from stdin, its text to stdout, within resource limits."""

import json
import resource
import sys
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.documents.worker.text_buffer import LimitReached, TextBuffer, UnreadableDocument

_LIMITS = (
    (resource.RLIMIT_CPU, 20),  # seconds of the processor
    (resource.RLIMIT_AS, 2**30),  # bytes of memory
    (resource.RLIMIT_FSIZE, 0),  # bytes of any file
    (resource.RLIMIT_CORE, 0),
)


def main() -> None:
    """The first line of stdin is the kind and the limit in characters, the rest the document."""
    _confine()
    asked = json.loads(sys.stdin.buffer.readline())
    answer = read(sys.stdin.buffer.read(), kind=asked["kind"], limit=asked["limit"])
    sys.stdout.buffer.write(json.dumps(answer).encode())


def read(data: bytes, *, kind: str, limit: int) -> Mapping[str, Any]:
    gathered, more, problem = TextBuffer(limit), False, ""
    try:
        _reader_for(kind)(data, gathered)
    except LimitReached:
        more = True
    except UnreadableDocument as error:
        problem = str(error)
    except (MemoryError, RecursionError):
        problem = "it is too complex to be read"
    # The content is untrusted: a lone surrogate cannot be encoded in JSON.
    text = gathered.text.encode("utf-8", "replace").decode()
    return {"text": text, "more": more, "problem": problem}


def _confine() -> None:
    """Set the limits of this process: a hostile document harms nothing else."""
    for kind, most in _LIMITS:
        _, hard = resource.getrlimit(kind)  # it may be lower, and cannot be raised
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


def _reader_for(kind: str) -> Callable[[bytes, TextBuffer], None]:
    """Each reader is imported for its own kind only: pypdf, zipfile and expat cost a start."""
    match kind:
        case "pdf":
            from holdfast.documents.worker.pdf import read_pdf  # noqa: PLC0415 - see above

            return read_pdf
        case "html":
            return _read_html
        case "docx" | "pptx" | "xlsx" | "odt" | "ods" | "odp":
            return lambda data, buffer: _read_office(kind, data, buffer)
    raise UnreadableDocument("documents of its kind cannot be read")


def _read_html(data: bytes, buffer: TextBuffer) -> None:
    from holdfast.core.text.html import decode_page, html_to_text  # noqa: PLC0415 - for HTML alone

    buffer.add(html_to_text(decode_page(data, None)))


def _read_office(kind: str, data: bytes, buffer: TextBuffer) -> None:
    from holdfast.documents.worker import office  # noqa: PLC0415 - see `_reader_for`

    document = office.ZipDocument(data)
    match kind:
        case "docx":
            office.read_docx(document, buffer)
        case "pptx":
            office.read_pptx(document, buffer)
        case "xlsx":
            office.read_xlsx(document, buffer)
        case _:
            office.read_open_document(document, buffer)


if __name__ == "__main__":
    main()
