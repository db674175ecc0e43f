"""XMPP stanzas, parsed from XML and built as XML, and the stream that carries them as a protocol class.

Each namespace names its extension: https://xmpp.org/extensions/.
"""

import sys
from collections.abc import Sequence
from typing import Protocol
from xml.etree.ElementTree import Element

import msgspec

from holdfast.core.errors import SendRejected
from holdfast.platforms.text.markdown import sanitize

# MERGED holdfast.platforms.xmpp.stanza: A stanza: what comes over the line, as far as it concerns us, out of its XML.
#
# Each namespace says which extension it is of: https://xmpp.org/extensions/.
CLIENT = "jabber:client"
DELAY = "urn:xmpp:delay"  # XEP-0203
STANZA_ID = "urn:xmpp:sid:0"  # XEP-0359
CORRECT = "urn:xmpp:message-correct:0"  # XEP-0308
REPLY = "urn:xmpp:reply:0"  # XEP-0461
FALLBACK = "urn:xmpp:fallback:0"  # XEP-0428
REFERENCE = "urn:xmpp:reference:0"  # XEP-0372
OOB = "jabber:x:oob"  # XEP-0066
MUC_USER = "http://jabber.org/protocol/muc#user"  # XEP-0045
OCCUPANT = "urn:xmpp:occupant-id:0"  # XEP-0421
ERRORS = "urn:ietf:params:xml:ns:xmpp-stanzas"
_MAX_OFFSET_DIGITS = 9  # of an offset: no body has as many characters


class XmppReply(msgspec.Struct, frozen=True, kw_only=True):
    """What a message answers."""

    to: str = ""  # who wrote that
    id: str = ""
    quoted: str = ""  # what stands in front of the answer, for who cannot show it otherwise


class StanzaError(msgspec.Struct, frozen=True, kw_only=True):
    """That something was not taken: https://www.rfc-editor.org/rfc/rfc6120#section-8.3"""

    kind: str = "cancel"  # "wait": it may be later
    condition: str = "undefined-condition"
    text: str = ""

    @property
    def description(self) -> str:
        return f"{self.condition} ({self.text})" if self.text else self.condition


class XmppMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message. `body` is without what it quotes."""

    sender: str  # with the resource, which is the nickname in a room
    kind: str = "normal"
    id: str = ""
    archive_ids: dict[str, str] = {}  # its id in the archives that it is in, by whose they are
    body: str = ""
    corrects: str = ""  # the id of the message whose place it takes
    reply: XmppReply | None = None
    mentions: tuple[str, ...] = ()  # addresses of those it names
    url: str = ""  # of a file
    timestamp: str = ""  # when it was said, if that is not now
    real_jid: str = (
        ""  # address of who wrote it in a room, if the room tells it in the message itself
    )
    occupant_id: str = ""  # who wrote it in a room, under a name that nobody else can have
    error: StanzaError | None = None


class XmppPresence(msgspec.Struct, frozen=True, kw_only=True):
    """A presence: of somebody in a room, as a rule."""

    sender: str
    kind: str = ""  # "": there, "unavailable": gone, "subscribe": wants to see us
    codes: frozenset[str] = frozenset()
    real_jid: str = ""
    occupant_id: str = ""
    error: StanzaError | None = None

    @property
    def is_available(self) -> bool:
        return not self.kind


def bare_jid(address: str) -> str:
    return address.partition("/")[0]


def resource_of(address: str) -> str:
    return address.partition("/")[2]


def tag(name: str, namespace: str = CLIENT) -> str:
    return f"{{{namespace}}}{name}"


def parse_message(message: Element) -> XmppMessage:
    body = message.findtext(tag("body")) or ""
    quoted, body = _split_fallback(message, body)
    reply = message.find(tag("reply", REPLY))
    real, _ = _parse_muc_user(message)
    return XmppMessage(
        sender=message.get("from", ""),
        kind=message.get("type", "normal"),
        id=_attribute(message, "origin-id", STANZA_ID, "id") or message.get("id", ""),
        archive_ids={
            each.get("by", ""): each.get("id", "")
            for each in message.iterfind(tag("stanza-id", STANZA_ID))
        },
        body=body,
        corrects=_attribute(message, "replace", CORRECT, "id"),
        reply=None
        if reply is None
        else XmppReply(to=reply.get("to", ""), id=reply.get("id", ""), quoted=quoted),
        mentions=tuple(
            each.get("uri", "").removeprefix("xmpp:")
            for each in message.iterfind(tag("reference", REFERENCE))
            if each.get("type") == "mention"
        ),
        url=message.findtext(f"{tag('x', OOB)}/{tag('url', OOB)}") or "",
        timestamp=_attribute(message, "delay", DELAY, "stamp"),
        real_jid=real,
        occupant_id=_attribute(message, "occupant-id", OCCUPANT, "id"),
        error=parse_error(message) if message.get("type") == "error" else None,
    )


def parse_presence(presence: Element) -> XmppPresence:
    real, codes = _parse_muc_user(presence)
    return XmppPresence(
        sender=presence.get("from", ""),
        kind=presence.get("type", ""),
        codes=codes,
        real_jid=real,
        occupant_id=_attribute(presence, "occupant-id", OCCUPANT, "id"),
        error=parse_error(presence) if presence.get("type") == "error" else None,
    )


def parse_error(stanza: Element) -> StanzaError:
    error = stanza.find(tag("error"))
    if error is None:
        return StanzaError()
    names = [each.tag.rpartition("}")[2] for each in error if each.tag.startswith(f"{{{ERRORS}}}")]
    return StanzaError(
        kind=error.get("type", "cancel"),
        condition=next((name for name in names if name != "text"), "undefined-condition"),
        text=error.findtext(tag("text", ERRORS)) or "",
    )


def _attribute(parent: Element, name: str, namespace: str, attribute: str) -> str:
    found = parent.find(tag(name, namespace))
    return "" if found is None else found.get(attribute, "")


def _parse_muc_user(stanza: Element) -> tuple[str, frozenset[str]]:
    """What a room says of somebody: their address, if they may be known, and what happened."""
    told = stanza.findall(tag("x", MUC_USER))
    if len(told) != 1:  # of two, one is not the room's
        return "", frozenset()
    item = told[0].find(tag("item", MUC_USER))
    codes = frozenset(each.get("code", "") for each in told[0].iterfind(tag("status", MUC_USER)))
    return bare_jid("" if item is None else item.get("jid", "")), codes


def _split_fallback(message: Element, body: str) -> tuple[str, str]:
    """What is quoted in front of an answer, and the rest."""
    for fallback in message.iterfind(tag("fallback", FALLBACK)):
        part = fallback.find(tag("body", FALLBACK))
        if fallback.get("for") != REPLY or part is None:
            continue
        start, end = _offset(part.get("start")), _offset(part.get("end"))
        if start < end <= len(body):
            quoted = body[start:end].strip().splitlines()
            plain = "\n".join(line.removeprefix(">").removeprefix(" ") for line in quoted)
            return plain, body[:start] + body[end:]
    return "", body


def _offset(text: str | None) -> int:
    """Beyond everything, where it is no number: a stranger may have written it."""
    if text is None or not text.isdecimal() or len(text) > _MAX_OFFSET_DIGITS:
        return sys.maxsize
    return int(text)


# MERGED holdfast.platforms.xmpp.wire: The wire: what the parts of the door ask of a line to a server, and what it says no with.
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
