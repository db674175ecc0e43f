"""XMPP stanzas, parsed from XML and built as XML, and the protocol of the stream that carries them.

Each namespace names its extension: https://xmpp.org/extensions/.
"""

import sys
from collections.abc import Sequence
from typing import Protocol
from xml.etree.ElementTree import Element

import msgspec

from holdfast.core.errors import SendRejected
from holdfast.platforms.text.markdown import sanitize

CLIENT = "jabber:client"
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_MAX_LANGUAGE_LENGTH = (
    35  # characters of a tag; https://www.rfc-editor.org/rfc/rfc5646#section-4.4.1
)
DELAY = "urn:xmpp:delay"  # XEP-0203
STANZA_ID = "urn:xmpp:sid:0"  # XEP-0359
CORRECT = "urn:xmpp:message-correct:0"  # XEP-0308
REPLY = "urn:xmpp:reply:0"  # XEP-0461
FALLBACK = "urn:xmpp:fallback:0"  # XEP-0428
REFERENCE = "urn:xmpp:reference:0"  # XEP-0372
OOB = "jabber:x:oob"  # XEP-0066
MUC_USER = "http://jabber.org/protocol/muc#user"  # XEP-0045
OCCUPANT = "urn:xmpp:occupant-id:0"  # XEP-0421
PING = "urn:xmpp:ping"  # XEP-0199
UPLOAD = "urn:xmpp:http:upload:0"  # XEP-0363
ERRORS = "urn:ietf:params:xml:ns:xmpp-stanzas"
_MAX_OFFSET_DIGITS = 9  # no body has so many characters


class XmppReply(msgspec.Struct, frozen=True, kw_only=True):
    """The message that a message answers."""

    to: str = ""  # its author
    id: str = ""
    quoted: str = ""  # its text, quoted in front of the answer for clients without XEP-0461


class StanzaError(msgspec.Struct, frozen=True, kw_only=True):
    """A stanza error: https://www.rfc-editor.org/rfc/rfc6120#section-8.3"""

    kind: str = "cancel"  # "wait": a later attempt may succeed
    condition: str = "undefined-condition"
    text: str = ""
    file_too_large: bool = False  # of an upload: https://xmpp.org/extensions/xep-0363.html#errors

    @property
    def description(self) -> str:
        return f"{self.condition} ({self.text})" if self.text else self.condition


class XmppMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message. `body` does not include the quoted text."""

    sender: str  # with the resource, which is the nickname in a room
    kind: str = "normal"
    id: str = ""
    archive_ids: dict[str, str] = {}  # its ids in archives, by the owner of the archive
    body: str = ""
    language: str = ""  # of the body: that of the sender's client
    corrects: str = ""  # the id of the message that it replaces
    reply: XmppReply | None = None
    mentions: tuple[str, ...] = ()  # addresses of mentioned users
    url: str = ""  # of a file
    timestamp: str = ""  # when it was written, if it is delayed
    real_jid: str = ""  # of the author in a room, if it is in the message itself
    occupant_id: str = ""  # of the author in a room: unique there, unlike a nickname
    error: StanzaError | None = None


class XmppPresence(msgspec.Struct, frozen=True, kw_only=True):
    """A presence, usually of an occupant of a room."""

    sender: str
    kind: str = ""  # "": available, "unavailable", or "subscribe": asks for our presence
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
    written = message.find(tag("body"))
    body = "" if written is None else written.text or ""
    # A body has the language of its stanza, to which the server adds that of the sender's stream.
    language = "" if written is None else written.get(_LANGUAGE, "")
    language = language or message.get(_LANGUAGE, "")
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
        language=language[:_MAX_LANGUAGE_LENGTH],
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
        file_too_large=error.find(tag("file-too-large", UPLOAD)) is not None,
    )


def _attribute(parent: Element, name: str, namespace: str, attribute: str) -> str:
    found = parent.find(tag(name, namespace))
    return "" if found is None else found.get(attribute, "")


def _parse_muc_user(stanza: Element) -> tuple[str, frozenset[str]]:
    """The address of an occupant, if the room reveals it, and the status codes."""
    found = stanza.findall(tag("x", MUC_USER))
    if len(found) != 1:  # a second one was not written by the room
        return "", frozenset()
    item = found[0].find(tag("item", MUC_USER))
    codes = frozenset(each.get("code", "") for each in found[0].iterfind(tag("status", MUC_USER)))
    return bare_jid("" if item is None else item.get("jid", "")), codes


def _split_fallback(message: Element, body: str) -> tuple[str, str]:
    """The text quoted in front of an answer, and the rest of the body."""
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
    """The offset as a number; larger than any body if it is invalid, because the sender is not
    trusted."""
    if text is None or not text.isdecimal() or len(text) > _MAX_OFFSET_DIGITS:
        return sys.maxsize
    return int(text)


class StanzaRejected(SendRejected):
    """The server, or the entity that was asked, answered with an error."""

    def __init__(self, message: str, *, error: StanzaError, **values: object) -> None:
        super().__init__(message, **values)
        self.error = error

    @property
    def is_temporary(self) -> bool:
        """Whether the same request may succeed later."""
        return self.error.kind == "wait" or self.error.condition == "internal-server-error"


class XmppStream(Protocol):
    """One connection. It sends stanzas in order, and does not reconnect."""

    @property
    def has_acks(self) -> bool:
        """Whether the server acknowledges stanzas (XEP-0198)."""
        ...

    def post_message(self, message: Element) -> None:
        """Raises `NotConnected` without a connection. Returning does not mean that it arrived."""
        ...

    def post_presence(self, presence: Element) -> None:
        """As `post_message`, for a presence."""
        ...

    async def request(
        self, payload: Element, *, to: str | None = None, is_set: bool = False
    ) -> Element:
        """The whole answer. Raises `StanzaRejected`, `NotConnected`, or `OutcomeUnknown` without an
        answer."""
        ...

    async def search_archive(
        self, query: Element, *, to: str | None = None
    ) -> tuple[Sequence[Element], Element]:
        """As `request`, for an archive: the results, and the answer that ends them."""
        ...


def make_element(name: str, namespace: str, text: str = "", **attributes: str) -> Element:
    """Without characters that XML forbids: the server would close the stream at each attempt."""
    element = Element(
        tag(name, namespace), {key: sanitize(value) for key, value in attributes.items()}
    )
    element.text = sanitize(text) or None
    return element


def add_child(
    parent: Element, name: str, namespace: str, text: str = "", **attributes: str
) -> Element:
    """As `make_element`, appended to `parent`."""
    child = make_element(name, namespace, text, **attributes)
    parent.append(child)
    return child


def make_ping() -> Element:
    return make_element("ping", PING)
