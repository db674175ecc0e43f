"""Rooms: those that the bot is in, and who else is there (XEP-0045).

https://xmpp.org/extensions/xep-0045.html
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from xml.etree.ElementTree import Element

from holdfast.core.errors import LineLost, OutcomeUnknown, SendError
from holdfast.platforms.xmpp.stanza import CLIENT, Said, Seen, bare, resource_of
from holdfast.platforms.xmpp.wire import Rejected, Wire, element, ping, within

log = logging.getLogger(__name__)

_MUC = "http://jabber.org/protocol/muc"
_OWNER = "http://jabber.org/protocol/muc#owner"
_FORM = "jabber:x:data"
_OURS, _NEW_ROOM, _RENAMED = "110", "201", "303"
_PUT_OUT = frozenset({"301", "307", "321", "322"})  # by people: coming back would be rude
# 7.4: whoever speaks in a room has to be in it; and one that was taken down is not to be found.
NOT_IN_ROOM = frozenset({"not-acceptable", "item-not-found"})
_LIMIT = 10.0  # seconds for a room to let us in
_NAMES = 3  # that are tried, where others have ours


class Room:
    """Owns what one room has told of who is in it. `lost` is told when the room is gone."""

    def __init__(self, address: str, *, lost: Callable[[LineLost], None]) -> None:
        self.address = address
        self.nick = ""  # ours; "": we are not in it
        self.closed = ""  # why we are not, where we were put out or not let in
        self._lost = lost
        self._people: dict[str, Seen] = {}
        self._ourselves = ""  # as the room tells us from everybody who has had our name
        self._entering: asyncio.Future[Seen] | None = None

    async def enter(self, wire: Wire, nick: str) -> None:
        """Raises `Rejected`, or `OutcomeUnknown` where the room says nothing. Of what was said
        before nothing is told: the archive has that."""
        for number in range(_NAMES):
            try:
                here = await self._enter(wire, nick + "_" * number)
                break
            except Rejected as error:
                if error.why.condition != "conflict" or number + 1 == _NAMES:
                    raise
        self.nick, self.closed = resource_of(here.sender), ""
        if _NEW_ROOM in here.codes:
            await wire.ask(_as_it_is(), to=self.address, change=True)

    async def _enter(self, wire: Wire, nick: str) -> Seen:
        self._entering = asyncio.get_running_loop().create_future()
        wire.appear(_joining(f"{self.address}/{nick}"))
        try:
            async with asyncio.timeout(_LIMIT):
                return await self._entering
        except TimeoutError as error:
            told = f"{self.address} did not answer within {_LIMIT:.0f} s"
            raise OutcomeUnknown(told) from error
        finally:
            self._entering = None

    async def look_around(self, wire: Wire) -> None:
        """XEP-0410: whoever pings itself in a room learns whether it is still there."""
        if not self.nick:
            return
        try:
            await wire.ask(ping(), to=f"{self.address}/{self.nick}")
        except Rejected as error:
            if error.why.condition in NOT_IN_ROOM:
                self.vanish()
        except SendError:
            return  # nothing is known by that; whether the line lives is found out elsewhere

    def vanish(self) -> None:
        """We are not in it any more, and nobody has told us so: it has to be entered anew."""
        self.nick = ""
        self._lost(LineLost(f"{self.address} does not know us any more"))

    def seen(self, seen: Seen) -> None:
        if seen.error is not None:
            self._turn_away(seen)
        elif _OURS in seen.codes:
            self._ours(seen)
        elif seen.here:
            self._people[resource_of(seen.sender)] = seen
        else:
            self._people.pop(resource_of(seen.sender), None)

    def is_ours(self, said: Said) -> bool:
        if said.occupant and self._ourselves:
            return said.occupant == self._ourselves
        return bool(self.nick) and resource_of(said.sender) == self.nick

    def writer(self, said: Said, *, now: bool) -> str:
        """The address of who wrote it, if the room tells; else their name in the room, which
        another may have had at another time. `now`: it is being said. Then it is by whom the room
        shows under that name: an address in the message itself anybody could have written, and only
        an archive has to take such a thing out (XEP-0313)."""
        if now:
            known = self._people.get(resource_of(said.sender))
            return known.real if known is not None and known.real else said.sender
        same = (each for each in self._people.values() if each.occupant == said.occupant)
        known = next(same, None) if said.occupant else None
        return (known.real if known is not None else "") or said.real or said.sender

    def _turn_away(self, seen: Seen) -> None:
        if self._entering is not None and not self._entering.done() and seen.error is not None:
            told = f"{self.address} does not let us in: {seen.error.words}"
            self._entering.set_exception(Rejected(told, why=seen.error))

    def _ours(self, seen: Seen) -> None:
        if seen.here:
            self.nick, self._ourselves = resource_of(seen.sender), seen.occupant
            if self._entering is not None and not self._entering.done():
                self._entering.set_result(seen)
        elif _RENAMED not in seen.codes:
            self._leave(seen)

    def _leave(self, seen: Seen) -> None:
        if not seen.codes & _PUT_OUT:
            self.vanish()
            return
        self.nick = ""
        self.closed = f"we were put out of {self.address}"
        log.warning("%s.", self.closed.capitalize(), extra={"action": "room_left"})


async def enter_all(rooms: Mapping[str, Room], wire: Wire, *, nick: str) -> None:
    """At the same time. One that does not let us in is told of, and holds up nobody."""
    await asyncio.gather(*(_try_to_enter(room, wire, nick) for room in rooms.values()))


async def _try_to_enter(room: Room, wire: Wire, nick: str) -> None:
    try:
        await room.enter(wire, nick)
    except (Rejected, OutcomeUnknown) as error:
        room.closed = str(error)
        log.warning("%s", error, extra={"action": "room_closed"})


def room_of(rooms: Mapping[str, Room], sender: str) -> Room | None:
    return rooms.get(bare(sender))


def _joining(occupant: str) -> Element:
    presence = element("presence", CLIENT, to=occupant)
    joining = within(presence, "x", _MUC)
    within(joining, "history", _MUC, maxstanzas="0")
    return presence


def _as_it_is() -> Element:
    """A room that we made by entering it is open to nobody before its maker has said how it is to
    be."""
    query = element("query", _OWNER)
    within(query, "x", _FORM, type="submit")
    return query
