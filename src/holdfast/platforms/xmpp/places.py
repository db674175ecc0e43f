"""Places: where something is said to an account, and how that is read."""

from collections.abc import Callable, Mapping, Sequence

from holdfast.core.messages.attachment import Attachment
from holdfast.core.messages.inbox import Inbound
from holdfast.platforms.xmpp.archive import Position
from holdfast.platforms.xmpp.downloads import Downloads
from holdfast.platforms.xmpp.reading import Reader
from holdfast.platforms.xmpp.rooms import Room, room_of
from holdfast.platforms.xmpp.stanza import Said


class Chats:
    """All chats of two: the account has one archive of them. What somebody in a room whispers to
    us is not taken: who that is, only the room knows."""

    def __init__(self, reader: Reader, rooms: Mapping[str, Room], downloads: Downloads) -> None:
        self.name = reader.cursor()
        self.owner = reader.me
        self._reader = reader
        self._rooms = rooms
        self._downloads = downloads

    def read(self, said: Said, position: Position | None, *, now: bool) -> Inbound | None:
        if room_of(self._rooms, said.sender) is not None:
            return None
        return self._reader.in_chat(said, position)

    def attached(self, said: Said, *, last_try: bool) -> Sequence[Attachment]:
        return self._downloads.attached_to(said, last_try=last_try)


class InRoom:
    """`heard` is told what was said there, and by which id the room knows it."""

    def __init__(
        self,
        reader: Reader,
        room: Room,
        downloads: Downloads,
        *,
        heard: Callable[[Said, str], None],
    ) -> None:
        self.name = reader.cursor(room.address)
        self.owner = room.address
        self._reader = reader
        self._room = room
        self._downloads = downloads
        self._heard = heard

    def read(self, said: Said, position: Position | None, *, now: bool) -> Inbound | None:
        if position is not None:
            self._heard(said, position.id)
        return self._reader.in_room(said, position, self._room, now=now)

    def attached(self, said: Said, *, last_try: bool) -> Sequence[Attachment]:
        return self._downloads.attached_to(said, last_try=last_try)
