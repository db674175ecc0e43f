"""XML as it comes by: each element told as it begins and ends, and nothing of it kept."""

from collections.abc import Mapping
from typing import Protocol
from xml.parsers import expat

from holdfast.documents.worker.text_buffer import UnreadableDocument

_MAX_DEPTH = 256


class XmlHandler(Protocol):
    """Names come without what stands before their colon."""

    def start_element(self, name: str, attributes: Mapping[str, str]) -> None: ...
    def end_element(self, name: str) -> None: ...
    def text(self, text: str) -> None: ...


def parse_xml(data: bytes, handler: XmlHandler) -> None:
    """Raises `Unreadable` for what is no XML, is nested absurdly, or declares entities: no document
    of an office has a use for those, and a few lines of them unfold to gigabytes."""
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    depth = 0

    def begins(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _MAX_DEPTH:
            raise UnreadableDocument("it is nested deeper than a document is")
        handler.start_element(
            _local_name(name), {_local_name(key): value for key, value in attributes.items()}
        )

    def ends(name: str) -> None:
        nonlocal depth
        depth -= 1
        handler.end_element(_local_name(name))

    parser.StartElementHandler = begins
    parser.EndElementHandler = ends
    parser.CharacterDataHandler = handler.text
    parser.EntityDeclHandler = _refuse_entity
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise UnreadableDocument(f"it is damaged ({error})") from None


def _refuse_entity(*_: object) -> None:
    raise UnreadableDocument("it declares entities, which no document needs")


def _local_name(name: str) -> str:
    return name.rpartition(" ")[2]
