"""The wire: what the parts of the door ask of a line to a server, and what it says no with."""

from collections.abc import Sequence
from typing import Protocol
from xml.etree.ElementTree import Element

from holdfast.core.errors import Refused
from holdfast.platforms.text.marks import cleaned
from holdfast.platforms.xmpp.stanza import Rejection, tag

PING = "urn:xmpp:ping"  # XEP-0199


class Rejected(Refused):
    """The server, or whoever was asked over it, said no; `why` in its own terms."""

    def __init__(self, message: str, *, why: Rejection) -> None:
        super().__init__(message)
        self.why = why

    @property
    def passes(self) -> bool:
        """Whether the same question may have another answer later."""
        return self.why.kind == "wait" or self.why.condition == "internal-server-error"


class Wire(Protocol):
    """One connection. What it is given goes out in order; once it is gone it stays so."""

    @property
    def acks(self) -> bool:
        """Whether the server says what it has taken (XEP-0198)."""
        ...

    def say(self, message: Element) -> None:
        """Raises `NotConnected` where there is no connection. Nothing else is known by this."""
        ...

    def appear(self, presence: Element) -> None:
        """The same, of a presence."""
        ...

    async def ask(
        self, payload: Element, *, to: str | None = None, change: bool = False
    ) -> Element:
        """The whole answer. Raises `Rejected`, `NotConnected`, or `OutcomeUnknown` where none
        comes."""
        ...

    async def search(
        self, query: Element, *, to: str | None = None
    ) -> tuple[Sequence[Element], Element]:
        """The same, of an archive: what it found, and how that ends."""
        ...


def element(name: str, namespace: str, text: str = "", **attributes: str) -> Element:
    """Without signs that XML forbids: one of them would end the line, and again after each try."""
    made = Element(tag(name, namespace), {key: cleaned(each) for key, each in attributes.items()})
    made.text = cleaned(text) or None
    return made


def within(parent: Element, name: str, namespace: str, text: str = "", **more: str) -> Element:
    """The same, in another."""
    made = element(name, namespace, text, **more)
    parent.append(made)
    return made


def ping() -> Element:
    return element("ping", PING)
