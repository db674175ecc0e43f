"""What was heard: a message with all that has to be looked up before it can be read."""

import msgspec

from holdfast.core.messages.source import ChatType
from holdfast.platforms.matrix.wire import MatrixContent, MatrixMessage


class MessageContext(msgspec.Struct, frozen=True, kw_only=True):
    message: MatrixMessage
    room_id: str
    chat_type: ChatType
    user_name: str | None = None
    our_name: str | None = None  # in that room
    original: MatrixMessage | None = None  # what it is an edit of, where that is to be had
    reply_target: MatrixMessage | None = None  # what it replies to, where that is to be had
    reply_target_name: str | None = None  # of whoever wrote that

    @property
    def current_content(self) -> MatrixContent:
        """The words that hold now."""
        said = self.message.content
        return said.new_content or said if said.replaces else said

    @property
    def relation_content(self) -> MatrixContent:
        """Where it belongs: an edit says nothing of threads and replies, its original does."""
        if self.message.content.replaces and self.original is not None:
            return self.original.content
        return self.message.content
