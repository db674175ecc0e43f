"""Listening: events of a room are looked up, opened where they are sealed, and read."""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holdfast.platforms.matrix.checkpoint import UndecryptedEvent
from holdfast.platforms.matrix.handing import ReceivedMessage
from holdfast.platforms.matrix.heard import MessageContext
from holdfast.platforms.matrix.history import MESSAGE_EVENT_TYPES, MatrixHistory, parse_message
from holdfast.platforms.matrix.keys import ENCRYPTION_REMEDY
from holdfast.platforms.matrix.reading import MatrixParser
from holdfast.platforms.matrix.rooms import RoomDirectory
from holdfast.platforms.matrix.wire import (
    ENCRYPTED,
    MEMBER,
    JoinedRoom,
    Json,
    MatrixContent,
    MatrixMessage,
)

if TYPE_CHECKING:  # imports the library, which is imported when a line is opened
    from holdfast.platforms.matrix.machine import EncryptionMachine

log = logging.getLogger(__name__)


class EventResolver:
    """Owns which rooms it has complained of. Everything raises a `SendError` where something
    cannot be looked up now."""

    def __init__(
        self,
        encryption: "EncryptionMachine",
        rooms: RoomDirectory,
        history: MatrixHistory,
        parser: MatrixParser,
        *,
        user_id: str,
        chat_of: Callable[[str], str],
    ) -> None:
        self._encryption = encryption
        self._rooms = rooms
        self._history = history
        self._parser = parser
        self._user_id = user_id
        self._chat_of = chat_of
        self._warned_rooms: set[str] = set()

    async def events_since(self, room_id: str, joined: JoinedRoom, since: str) -> Sequence[Json]:
        """What was said in a room since then. Where we have just come in, it begins with the
        invitation: what was said before that was said to others, unless the room goes on with a
        chat that we were in."""
        timeline = joined.timeline
        goes_on = self._chat_of(room_id) != room_id
        entered = [n for n, each in enumerate(timeline.events) if self._is_our_join(each)]
        if entered and goes_on:
            return timeline.events
        if entered:
            invited = [n for n, each in enumerate(timeline.events) if self._is_our_invite(each)]
            return timeline.events[min([*entered, *invited]) :]
        if not timeline.limited or timeline.prev_batch is None:
            return timeline.events
        return [
            *await self._history.events_between(room_id, since, timeline.prev_batch),
            *timeline.events,
        ]

    async def resolve(self, room_id: str, event: Json) -> ReceivedMessage | UndecryptedEvent | None:
        """None: nobody said anything, or we did."""
        if event.get("type") not in MESSAGE_EVENT_TYPES or event.get("sender") == self._user_id:
            return None
        opened = event
        if event.get("type") == ENCRYPTED:
            if (found := await self._encryption.decrypt(room_id, event)) is None:
                return self._handle_undecryptable(room_id, event)
            opened = found
        message = parse_message(opened)
        return None if message is None else await self.resolve_message(room_id, message)

    async def resolve_message(self, room_id: str, message: MatrixMessage) -> ReceivedMessage | None:
        """None: it is a change of what somebody else said, which is nobody's to make."""
        if message.type not in MESSAGE_EVENT_TYPES or message.type == ENCRYPTED:
            return None
        edited = message.content.replaces
        original = await self._history.fetch_event(room_id, edited) if edited else None
        if original is not None and original.sender != message.sender:
            return None
        heard = await self._load_context(room_id, message, original)
        inbound = self._parser.parse(heard)
        return ReceivedMessage(
            inbound=inbound, content=MatrixContent() if edited else heard.current_content
        )

    async def resolve_undecryptable(self, event: UndecryptedEvent) -> ReceivedMessage | None:
        """That something was said, in the place of what."""
        if (message := parse_message(event.event)) is None:
            return None
        heard = await self._load_context(event.room_id, message, None)
        return ReceivedMessage(inbound=self._parser.parse_undecryptable(heard))

    async def _load_context(
        self, room_id: str, message: MatrixMessage, original: MatrixMessage | None
    ) -> MessageContext:
        chat_type = await self._rooms.chat_type(room_id)
        relating = (original or message).content.reply_to
        answered = await self._history.fetch_event(room_id, relating) if relating else None
        name_in = self._encryption.display_name
        return MessageContext(
            message=message,
            room_id=room_id,
            chat_type=chat_type,
            user_name=await name_in(room_id, message.sender),
            our_name=await name_in(room_id, self._user_id),
            original=original,
            reply_target=answered,
            reply_target_name=await name_in(room_id, answered.sender) if answered else None,
        )

    def _handle_undecryptable(self, room_id: str, event: Json) -> UndecryptedEvent | None:
        if self._encryption.can_encrypt:
            return UndecryptedEvent(room_id=room_id, event=event)
        if room_id not in self._warned_rooms:
            self._warned_rooms.add(room_id)
            log.error(
                "The room %s is end-to-end encrypted, and nothing that is said there can be read: "
                "%s, and leave platforms.matrix.encryption on.",
                room_id,
                ENCRYPTION_REMEDY,
                extra={"action": "room_undecryptable"},
            )
        return None

    def _is_our_join(self, event: Json) -> bool:
        """A change of our own name is told in the same way, with what was there before."""
        if not self._is_our_membership(event, "join"):
            return False
        before: Json = event.get("unsigned", {}).get("prev_content", {})
        return before.get("membership") != "join"

    def _is_our_invite(self, event: Json) -> bool:
        return self._is_our_membership(event, "invite")

    def _is_our_membership(self, event: Json, membership: str) -> bool:
        return (
            event.get("type") == MEMBER
            and event.get("state_key") == self._user_id
            and event.get("content", {}).get("membership") == membership
        )
