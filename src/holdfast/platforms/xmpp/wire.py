"""The wire: what the parts of the door ask of a line to a server, and what it says no with."""

from collections.abc import Sequence
from typing import Protocol
from xml.etree.ElementTree import Element

from holdfast.core.errors import SendRejected
from holdfast.platforms.text.marks import sanitize
from holdfast.platforms.xmpp.stanza import StanzaError, tag

PING = "urn:xmpp:ping"  # XEP-0199


class StanzaRejected(SendRejected):
    """The server, or whoever was asked over it, said no; `why` in its own terms."""

    def __init__(self, message: str, *, error: StanzaError) -> None:
        super().__init__(message)
        self.error = error

    @property
    def is_temporary(self) -> bool:
        """Whether the same question may have another answer later."""
        return self.error.kind == "wait" or self.error.condition == "internal-server-error"


class XmppStream(Protocol):
    """One connection. What it is given goes out in order; once it is gone it stays so."""

    @property
    def has_acks(self) -> bool:
        """Whether the server says what it has taken (XEP-0198)."""
        ...

    def post_message(self, message: Element) -> None:
        """Raises `NotConnected` where there is no connection. Nothing else is known by this."""
        ...

    def post_presence(self, presence: Element) -> None:
        """The same, of a presence."""
        ...

    async def request(
        self, payload: Element, *, to: str | None = None, is_set: bool = False
    ) -> Element:
        """The whole answer. Raises `StanzaRejected`, `NotConnected`, or `OutcomeUnknown` where none
        comes."""
        ...

    async def search_archive(
        self, query: Element, *, to: str | None = None
    ) -> tuple[Sequence[Element], Element]:
        """The same, of an archive: what it found, and how that ends."""
        ...


def make_element(name: str, namespace: str, text: str = "", **attributes: str) -> Element:
    """Without signs that XML forbids: one of them would end the line, and again after each try."""
    made = Element(tag(name, namespace), {key: sanitize(each) for key, each in attributes.items()})
    made.text = sanitize(text) or None
    return made


def add_child(
    parent: Element, name: str, namespace: str, text: str = "", **attributes: str
) -> Element:
    """The same, in another."""
    made = make_element(name, namespace, text, **attributes)
    parent.append(made)
    return made


def make_ping() -> Element:
    return make_element("ping", PING)
