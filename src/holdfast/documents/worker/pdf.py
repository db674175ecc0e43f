"""The text of a PDF, by pypdf."""

from io import BytesIO

from pypdf import PdfReader
from pypdf.errors import DependencyError, LimitReachedError, PyPdfError

from holdfast.documents.worker.text_buffer import LimitReached, TextBuffer, UnreadableDocument

# Characters that are drawn as one and read as several.
_LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl"})


def read_pdf(data: bytes, buffer: TextBuffer) -> None:
    """Raises `UnreadableDocument` for a damaged file. What was read before the damage stays."""
    try:
        reader = PdfReader(BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableDocument("it is encrypted")
        for page in reader.pages:
            for line in page.extract_text().translate(_LIGATURES).splitlines():
                buffer.add(line.rstrip())
                buffer.new_line()
            buffer.new_line()
    except (LimitReached, UnreadableDocument, MemoryError, RecursionError):
        raise
    except DependencyError:  # a cipher that needs a library that is not installed
        raise UnreadableDocument("it is encrypted") from None
    except LimitReachedError:
        raise UnreadableDocument("it unpacks to far more than a document has") from None
    except PyPdfError:
        raise UnreadableDocument("it is damaged") from None
    except Exception as error:  # noqa: BLE001 - pypdf passes on KeyError, ValueError and others
        raise UnreadableDocument(f"it is damaged ({type(error).__name__})") from None
    if not buffer.text:
        raise UnreadableDocument("its pages show no text: they may be pictures of one")
