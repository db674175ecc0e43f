"""Places: where something is said to an account, and how that is read."""

from collections.abc import Callable, Mapping, Sequence

from holdfast.core.messages.attachment import Attachment
from holdfast.core.messages.inbox import Inbound
from holdfast.platforms.xmpp.archive import ArchivePosition
from holdfast.platforms.xmpp.downloads import XmppDownloads
from holdfast.platforms.xmpp.reading import XmppParser
from holdfast.platforms.xmpp.rooms import XmppRoom, room_of
from holdfast.platforms.xmpp.stanza import XmppMessage


class DirectChats:
    """All chats of two: the account has one archive of them. What somebody in a room whispers to
    us is not taken: who that is, only the room knows."""

    def __init__(
        self, parser: XmppParser, rooms: Mapping[str, XmppRoom], downloads: XmppDownloads
    ) -> None:
        self.cursor_name = parser.cursor_name()
        self.archive_owner = parser.own_jid
        self._parser = parser
        self._rooms = rooms
        self._downloads = downloads

    def parse(
        self, message: XmppMessage, position: ArchivePosition | None, *, is_live: bool
    ) -> Inbound | None:
        if room_of(self._rooms, message.sender) is not None:
            return None
        return self._parser.parse_chat_message(message, position)

    def attachments_of(self, message: XmppMessage, *, last_attempt: bool) -> Sequence[Attachment]:
        return self._downloads.attachments_of(message, last_attempt=last_attempt)


class RoomChat:
    """`heard` is told what was said there, and by which id the room knows it."""

    def __init__(
        self,
        parser: XmppParser,
        room: XmppRoom,
        downloads: XmppDownloads,
        *,
        on_message: Callable[[XmppMessage, str], None],
    ) -> None:
        self.cursor_name = parser.cursor_name(room.address)
        self.archive_owner = room.address
        self._parser = parser
        self._room = room
        self._downloads = downloads
        self._on_message = on_message

    def parse(
        self, message: XmppMessage, position: ArchivePosition | None, *, is_live: bool
    ) -> Inbound | None:
        if position is not None:
            self._on_message(message, position.id)
        return self._parser.parse_room_message(message, position, self._room, is_live=is_live)

    def attachments_of(self, message: XmppMessage, *, last_attempt: bool) -> Sequence[Attachment]:
        return self._downloads.attachments_of(message, last_attempt=last_attempt)
