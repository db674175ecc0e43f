"""What stands in the pretend vendor's chats: the messages of people and bots, with their edits."""

import msgspec

from holdfast.core.messages.source import ChatType
from holdfast.testing.simulated.events import (
    BotMessage,
    ReactRequest,
    RepliedMessage,
    SayRequest,
    SendRequest,
)


class ChatLog:
    """Owns every message, and the ids that they have."""

    def __init__(self) -> None:
        self.said: dict[str, SayRequest] = {}
        self.revised: dict[str, list[str | None]] = {}  # None: deleted
        self.reactions: dict[str, dict[str, str]] = {}  # of bots, by message and account
        self.sent: list[BotMessage] = []
        self._sent_index: dict[str, int] = {}  # of a bot's message among those sent
        self._first_sent: dict[str, BotMessage] = {}  # by delivery id

    def say(self, say: SayRequest) -> str:
        message_id = self._next_id()
        self.said[message_id] = say
        return message_id

    def revise(self, message_id: str, text: str | None) -> SayRequest:
        """What is said there now. Raises `KeyError` where nobody has said it."""
        say = self.said[message_id]
        self.revised.setdefault(message_id, []).append(text)
        return say if text is None else msgspec.structs.replace(say, text=text)

    def react(self, react: ReactRequest) -> None:
        signs = self.reactions.setdefault(react.message_id, {})
        if react.emoji is None:
            signs.pop(react.account, None)
        else:
            signs[react.account] = react.emoji

    def post(self, outgoing: SendRequest) -> str:
        message_id = self._next_id()
        duplicate = outgoing.delivery_id in self._first_sent
        sent = BotMessage(message_id=message_id, outgoing=outgoing, duplicate=duplicate)
        self._first_sent.setdefault(outgoing.delivery_id, sent)
        self._sent_index[message_id] = len(self.sent)
        self.sent.append(sent)
        return message_id

    def kind_of(self, chat: str) -> ChatType:
        """What people have said of the chat, the last time that they wrote in it."""
        kinds = (say.chat_type for say in reversed(self.said.values()) if say.chat == chat)
        return next(kinds, ChatType.GROUP)

    def sent_before(self, delivery_id: str) -> str | None:
        """The message that this delivery was taken as."""
        earlier = self._first_sent.get(delivery_id)
        return None if earlier is None else earlier.message_id

    def by_bot(self, message_id: str) -> bool:
        return message_id in self._sent_index

    def replied(self, message_id: str) -> RepliedMessage | None:
        """A message as one that answers it shows it; None: there is none of that id."""
        if (say := self.said.get(message_id)) is not None:
            revised = self.revised.get(message_id, [say.text])[-1]
            return RepliedMessage(
                message_id=message_id,
                text=revised or "",
                user_id=say.user,
                user_name=say.user_name,
            )
        if (place := self._sent_index.get(message_id)) is not None:
            return RepliedMessage(message_id=message_id, text=self.sent[place].text)
        return None

    def edit(self, message_id: str, text: str) -> None:
        """An edit that changes nothing is none."""
        place = self._sent_index[message_id]
        sent = self.sent[place]
        if sent.text != text:
            self.sent[place] = msgspec.structs.replace(sent, edits=(*sent.edits, text))

    def _next_id(self) -> str:
        return f"m{len(self.said) + len(self.sent) + 1}"
