"""XML as it comes by: each element told as it begins and ends, and nothing of it kept."""

from collections.abc import Mapping
from typing import Protocol
from xml.parsers import expat

from holdfast.documents.worker.text_buffer import Unreadable

_DEEPEST = 256


class Hearer(Protocol):
    """Names come without what stands before their colon."""

    def begins(self, name: str, attributes: Mapping[str, str]) -> None: ...
    def ends(self, name: str) -> None: ...
    def says(self, text: str) -> None: ...


def read_markup(data: bytes, hearer: Hearer) -> None:
    """Raises `Unreadable` for what is no XML, is nested absurdly, or declares entities: no document
    of an office has a use for those, and a few lines of them unfold to gigabytes."""
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    depth = 0

    def begins(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            raise Unreadable("it is nested deeper than a document is")
        hearer.begins(_local(name), {_local(key): value for key, value in attributes.items()})

    def ends(name: str) -> None:
        nonlocal depth
        depth -= 1
        hearer.ends(_local(name))

    parser.StartElementHandler = begins
    parser.EndElementHandler = ends
    parser.CharacterDataHandler = hearer.says
    parser.EntityDeclHandler = _refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise Unreadable(f"it is damaged ({error})") from None


def _refuse(*_: object) -> None:
    raise Unreadable("it declares entities, which no document needs")


def _local(name: str) -> str:
    return name.rpartition(" ")[2]
