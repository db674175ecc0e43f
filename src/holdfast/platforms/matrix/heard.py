"""What was heard: a message with all that has to be looked up before it can be read."""

import msgspec

from holdfast.core.messages.source import ChatType
from holdfast.platforms.matrix.wire import Content, Message


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    message: Message
    room_id: str
    chat_type: ChatType
    user_name: str | None = None
    our_name: str | None = None  # in that room
    original: Message | None = None  # what it is an edit of, where that is to be had
    answered: Message | None = None  # what it replies to, where that is to be had
    answered_name: str | None = None  # of whoever wrote that

    @property
    def content(self) -> Content:
        """The words that hold now."""
        said = self.message.content
        return said.new_content or said if said.replaces else said

    @property
    def relating(self) -> Content:
        """Where it belongs: an edit says nothing of threads and replies, its original does."""
        if self.message.content.replaces and self.original is not None:
            return self.original.content
        return self.message.content
