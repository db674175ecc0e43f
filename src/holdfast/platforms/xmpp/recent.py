"""Recent: by which names a room knows what was said there lately."""

from collections import OrderedDict

import msgspec

_MAX_MESSAGES = 500  # messages


class RoomMessageRef(msgspec.Struct, frozen=True, kw_only=True):
    sender: str
    stanza_id: str  # by which an answer refers to it


class RecentRoomMessages:
    """Owns the last few hundred. An answer to an older message is one without a reference."""

    def __init__(self) -> None:
        self._messages: OrderedDict[tuple[str, str], RoomMessageRef] = OrderedDict()

    def add(self, room: str, message_id: str, ref: RoomMessageRef) -> None:
        self._messages[room, message_id] = ref
        if len(self._messages) > _MAX_MESSAGES:
            self._messages.popitem(last=False)

    def get(self, room: str, message_id: str) -> RoomMessageRef | None:
        return self._messages.get((room, message_id))
