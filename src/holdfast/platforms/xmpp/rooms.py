"""Multi-user chat rooms: entering, occupants, and whether we are still in one.

https://xmpp.org/extensions/xep-0045.html
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from xml.etree.ElementTree import Element

from holdfast.core.errors import AccountDisconnected, OutcomeUnknown, SendError
from holdfast.platforms.xmpp.events import (
    CLIENT,
    StanzaRejected,
    XmppMessage,
    XmppPresence,
    XmppStream,
    add_child,
    bare_jid,
    make_element,
    make_ping,
    resource_of,
)

log = logging.getLogger(__name__)

_MUC = "http://jabber.org/protocol/muc"
_OWNER = "http://jabber.org/protocol/muc#owner"
_FORM = "jabber:x:data"
_SELF_CODE, _CREATED_CODE, _RENAMED_CODE = "110", "201", "303"
_REMOVED_CODES = frozenset({"301", "307", "321", "322"})  # by a moderator: we do not enter again
# 7.4: only occupants may send to a room; a destroyed room is not found.
NOT_IN_ROOM_ERRORS = frozenset({"not-acceptable", "item-not-found"})
_ENTER_TIMEOUT = 10.0  # seconds
_MAX_NICKS = 3  # tried if ours is taken


class XmppRoom:
    """Owns the occupants of one room. `on_lost` is called when we are no longer in it."""

    def __init__(self, address: str, *, on_lost: Callable[[AccountDisconnected], None]) -> None:
        self.address = address
        self.nick = ""  # ours; "": we are not in it
        self.closed_reason = ""  # why we are not in it, if we were removed or refused
        self._on_lost = on_lost
        self._occupants: dict[str, XmppPresence] = {}
        self._own_occupant_id = ""  # distinguishes us from others who had our nickname
        self._entering: asyncio.Future[XmppPresence] | None = None

    async def enter(self, stream: XmppStream, nick: str) -> None:
        """Raises `StanzaRejected`, or `OutcomeUnknown` if the room does not answer. The room sends
        no older messages: those come from its archive."""
        for number in range(_MAX_NICKS):
            try:
                here = await self._enter(stream, nick + "_" * number)
                break
            except StanzaRejected as error:
                if error.error.condition != "conflict" or number + 1 == _MAX_NICKS:
                    raise
        self.nick, self.closed_reason = resource_of(here.sender), ""
        if _CREATED_CODE in here.codes:
            await stream.request(_default_configuration(), to=self.address, is_set=True)

    async def _enter(self, stream: XmppStream, nick: str) -> XmppPresence:
        self._entering = asyncio.get_running_loop().create_future()
        stream.post_presence(_join_presence(f"{self.address}/{nick}"))
        try:
            async with asyncio.timeout(_ENTER_TIMEOUT):
                return await self._entering
        except TimeoutError as error:
            raise OutcomeUnknown(
                "the room {address} did not respond within {timeout:.0f} s",
                address=self.address,
                timeout=_ENTER_TIMEOUT,
            ) from error
        finally:
            self._entering = None

    async def check_membership(self, stream: XmppStream) -> None:
        """XEP-0410: a ping to ourselves in the room shows whether we are still in it."""
        if not self.nick:
            return
        try:
            await stream.request(make_ping(), to=f"{self.address}/{self.nick}")
        except StanzaRejected as error:
            if error.error.condition in NOT_IN_ROOM_ERRORS:
                self.mark_lost()
        except SendError:
            return  # unknown; a lost connection is noticed elsewhere

    def mark_lost(self) -> None:
        """We are no longer in the room, without a notice of it: it must be entered again."""
        self.nick = ""
        self._on_lost(AccountDisconnected("we are no longer in {address}", address=self.address))

    def handle_presence(self, presence: XmppPresence) -> None:
        if presence.error is not None:
            self._handle_error(presence)
        elif _SELF_CODE in presence.codes:
            self._handle_own_presence(presence)
        elif presence.is_available:
            self._occupants[resource_of(presence.sender)] = presence
        else:
            self._occupants.pop(resource_of(presence.sender), None)

    def is_ours(self, message: XmppMessage) -> bool:
        if message.occupant_id and self._own_occupant_id:
            return message.occupant_id == self._own_occupant_id
        return bool(self.nick) and resource_of(message.sender) == self.nick

    def author_jid(self, message: XmppMessage, *, is_live: bool) -> str:
        """The address of the author, if the room reveals it; else the nickname in the room, which
        another user may have had at another time. For a live message it is that of the occupant
        with this nickname: any sender could write an address into the message itself, and only an
        archive must remove it (XEP-0313)."""
        if is_live:
            known = self._occupants.get(resource_of(message.sender))
            return known.real_jid if known is not None and known.real_jid else message.sender
        same = (
            each for each in self._occupants.values() if each.occupant_id == message.occupant_id
        )
        known = next(same, None) if message.occupant_id else None
        return (known.real_jid if known is not None else "") or message.real_jid or message.sender

    def _handle_error(self, presence: XmppPresence) -> None:
        if self._entering is not None and not self._entering.done() and presence.error is not None:
            refusal = f"could not enter {self.address}: {presence.error.description}"
            self._entering.set_exception(StanzaRejected(refusal, error=presence.error))

    def _handle_own_presence(self, presence: XmppPresence) -> None:
        if presence.is_available:
            self.nick, self._own_occupant_id = resource_of(presence.sender), presence.occupant_id
            if self._entering is not None and not self._entering.done():
                self._entering.set_result(presence)
        elif _RENAMED_CODE not in presence.codes:
            self._handle_own_leave(presence)

    def _handle_own_leave(self, presence: XmppPresence) -> None:
        if not presence.codes & _REMOVED_CODES:
            self.mark_lost()
            return
        self.nick = ""
        self.closed_reason = f"we were removed from {self.address}"
        log.warning(
            "Removed from XMPP room %s; its messages are not received until the account connects "
            "again and the room admits it",
            self.address,
            extra={"action": "room_left"},
        )


async def enter_all(rooms: Mapping[str, XmppRoom], stream: XmppStream, *, nick: str) -> None:
    """Concurrently. A room that refuses us is logged, and does not affect the others."""
    await asyncio.gather(*(_try_to_enter(room, stream, nick) for room in rooms.values()))


async def _try_to_enter(room: XmppRoom, stream: XmppStream, nick: str) -> None:
    try:
        await room.enter(stream, nick)
    except (StanzaRejected, OutcomeUnknown) as error:
        room.closed_reason = str(error)
        log.warning(
            "Could not join XMPP room %s: %s; its messages are not received",
            room.address,
            error,
            extra={"action": "room_join_refused"},
        )


def room_of(rooms: Mapping[str, XmppRoom], sender: str) -> XmppRoom | None:
    return rooms.get(bare_jid(sender))


def _join_presence(occupant_jid: str) -> Element:
    presence = make_element("presence", CLIENT, to=occupant_jid)
    joining = add_child(presence, "x", _MUC)
    add_child(joining, "history", _MUC, maxstanzas="0")
    return presence


def _default_configuration() -> Element:
    """Accepts the defaults for a room that we created by entering it: until then it is locked."""
    query = make_element("query", _OWNER)
    add_child(query, "x", _FORM, type="submit")
    return query
