"""Multi-user chat rooms: entering, occupants, and whether we are still in one (https://xmpp.org/extensions/xep-0045.html)."""

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
_REMOVED_CODES = frozenset({"301", "307", "321", "322"})  # by people: coming back would be rude
# 7.4: whoever speaks in a room has to be in it; and one that was taken down is not to be found.
NOT_IN_ROOM_ERRORS = frozenset({"not-acceptable", "item-not-found"})
_ENTER_TIMEOUT = 10.0  # seconds for a room to let us in
_MAX_NICKS = 3  # that are tried, where others have ours


class XmppRoom:
    """Owns what one room has told of who is in it. `lost` is told when the room is gone."""

    def __init__(self, address: str, *, on_lost: Callable[[AccountDisconnected], None]) -> None:
        self.address = address
        self.nick = ""  # ours; "": we are not in it
        self.closed_reason = ""  # why we are not, where we were put out or not let in
        self._on_lost = on_lost
        self._occupants: dict[str, XmppPresence] = {}
        self._own_occupant_id = ""  # as the room tells us from everybody who has had our name
        self._entering: asyncio.Future[XmppPresence] | None = None

    async def enter(self, stream: XmppStream, nick: str) -> None:
        """Raises `StanzaRejected`, or `OutcomeUnknown` where the room says nothing. Of what was said
        before nothing is told: the archive has that."""
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
            told = f"{self.address} did not answer within {_ENTER_TIMEOUT:.0f} s"
            raise OutcomeUnknown(told) from error
        finally:
            self._entering = None

    async def check_membership(self, stream: XmppStream) -> None:
        """XEP-0410: whoever pings itself in a room learns whether it is still there."""
        if not self.nick:
            return
        try:
            await stream.request(make_ping(), to=f"{self.address}/{self.nick}")
        except StanzaRejected as error:
            if error.error.condition in NOT_IN_ROOM_ERRORS:
                self.mark_lost()
        except SendError:
            return  # nothing is known by that; whether the line lives is found out elsewhere

    def mark_lost(self) -> None:
        """We are not in it any more, and nobody has told us so: it has to be entered anew."""
        self.nick = ""
        self._on_lost(AccountDisconnected(f"{self.address} does not know us any more"))

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
        """The address of who wrote it, if the room tells; else their name in the room, which
        another may have had at another time. `now`: it is being said. Then it is by whom the room
        shows under that name: an address in the message itself anybody could have written, and only
        an archive has to take such a thing out (XEP-0313)."""
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
            told = f"{self.address} does not let us in: {presence.error.description}"
            self._entering.set_exception(StanzaRejected(told, error=presence.error))

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
        self.closed_reason = f"we were put out of {self.address}"
        log.warning("%s.", self.closed_reason.capitalize(), extra={"action": "room_left"})


async def enter_all(rooms: Mapping[str, XmppRoom], stream: XmppStream, *, nick: str) -> None:
    """At the same time. One that does not let us in is told of, and holds up nobody."""
    await asyncio.gather(*(_try_to_enter(room, stream, nick) for room in rooms.values()))


async def _try_to_enter(room: XmppRoom, stream: XmppStream, nick: str) -> None:
    try:
        await room.enter(stream, nick)
    except (StanzaRejected, OutcomeUnknown) as error:
        room.closed_reason = str(error)
        log.warning("%s", error, extra={"action": "room_join_refused"})


def room_of(rooms: Mapping[str, XmppRoom], sender: str) -> XmppRoom | None:
    return rooms.get(bare_jid(sender))


def _join_presence(occupant_jid: str) -> Element:
    presence = make_element("presence", CLIENT, to=occupant_jid)
    joining = add_child(presence, "x", _MUC)
    add_child(joining, "history", _MUC, maxstanzas="0")
    return presence


def _default_configuration() -> Element:
    """A room that we made by entering it is open to nobody before its maker has said how it is to
    be."""
    query = make_element("query", _OWNER)
    add_child(query, "x", _FORM, type="submit")
    return query
