"""Listening: events of a room are looked up, opened where they are sealed, and read."""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holdfast.platforms.matrix.checkpoint import Sealed
from holdfast.platforms.matrix.handing import Said
from holdfast.platforms.matrix.heard import Heard
from holdfast.platforms.matrix.history import SAID, History, read_message
from holdfast.platforms.matrix.keys import REMEDY
from holdfast.platforms.matrix.reading import Reader
from holdfast.platforms.matrix.rooms import Rooms
from holdfast.platforms.matrix.wire import ENCRYPTED, MEMBER, Content, Joined, Json, Message

if TYPE_CHECKING:  # imports the library, which is imported when a line is opened
    from holdfast.platforms.matrix.machine import Machine

log = logging.getLogger(__name__)


class Listening:
    """Owns which rooms it has complained of. Everything raises a `SendError` where something
    cannot be looked up now."""

    def __init__(
        self,
        machine: "Machine",
        rooms: Rooms,
        history: History,
        reader: Reader,
        *,
        user_id: str,
        chat_of: Callable[[str], str],
    ) -> None:
        self._machine = machine
        self._rooms = rooms
        self._history = history
        self._reader = reader
        self._me = user_id
        self._chat_of = chat_of
        self._unreadable: set[str] = set()

    async def events(self, room_id: str, joined: Joined, since: str) -> Sequence[Json]:
        """What was said in a room since then. Where we have just come in, it begins with the
        invitation: what was said before that was said to others, unless the room goes on with a
        chat that we were in."""
        timeline = joined.timeline
        goes_on = self._chat_of(room_id) != room_id
        entered = [n for n, each in enumerate(timeline.events) if self._enters(each)]
        if entered and goes_on:
            return timeline.events
        if entered:
            invited = [n for n, each in enumerate(timeline.events) if self._invites(each)]
            return timeline.events[min([*entered, *invited]) :]
        if not timeline.limited or timeline.prev_batch is None:
            return timeline.events
        return [
            *await self._history.between(room_id, since, timeline.prev_batch),
            *timeline.events,
        ]

    async def heard(self, room_id: str, event: Json) -> Said | Sealed | None:
        """None: nobody said anything, or we did."""
        if event.get("type") not in SAID or event.get("sender") == self._me:
            return None
        opened = event
        if event.get("type") == ENCRYPTED:
            if (found := await self._machine.opened(room_id, event)) is None:
                return self._sealed(room_id, event)
            opened = found
        message = read_message(opened)
        return None if message is None else await self.said(room_id, message)

    async def said(self, room_id: str, message: Message) -> Said | None:
        """None: it is a change of what somebody else said, which is nobody's to make."""
        if message.type not in SAID or message.type == ENCRYPTED:
            return None
        edited = message.content.replaces
        original = await self._history.event(room_id, edited) if edited else None
        if original is not None and original.sender != message.sender:
            return None
        heard = await self._surroundings(room_id, message, original)
        inbound = self._reader.said(heard)
        return Said(inbound=inbound, content=Content() if edited else heard.content)

    async def unreadable(self, sealed: Sealed) -> Said | None:
        """That something was said, in the place of what."""
        if (message := read_message(sealed.event)) is None:
            return None
        heard = await self._surroundings(sealed.room_id, message, None)
        return Said(inbound=self._reader.unreadable(heard))

    async def _surroundings(
        self, room_id: str, message: Message, original: Message | None
    ) -> Heard:
        chat_type = await self._rooms.kind(room_id)
        relating = (original or message).content.answered
        answered = await self._history.event(room_id, relating) if relating else None
        name_in = self._machine.name_in
        return Heard(
            message=message,
            room_id=room_id,
            chat_type=chat_type,
            user_name=await name_in(room_id, message.sender),
            our_name=await name_in(room_id, self._me),
            original=original,
            answered=answered,
            answered_name=await name_in(room_id, answered.sender) if answered else None,
        )

    def _sealed(self, room_id: str, event: Json) -> Sealed | None:
        if self._machine.encrypts:
            return Sealed(room_id=room_id, event=event)
        if room_id not in self._unreadable:
            self._unreadable.add(room_id)
            log.error(
                "The room %s is end-to-end encrypted, and nothing that is said there can be read: "
                "%s, and leave platforms.matrix.encryption on.",
                room_id,
                REMEDY,
                extra={"action": "room_unreadable"},
            )
        return None

    def _enters(self, event: Json) -> bool:
        """A change of our own name is told in the same way, with what was there before."""
        if not self._is_ours(event, "join"):
            return False
        before: Json = event.get("unsigned", {}).get("prev_content", {})
        return before.get("membership") != "join"

    def _invites(self, event: Json) -> bool:
        return self._is_ours(event, "invite")

    def _is_ours(self, event: Json, membership: str) -> bool:
        return (
            event.get("type") == MEMBER
            and event.get("state_key") == self._me
            and event.get("content", {}).get("membership") == membership
        )
