"""What of a message can be searched: the words of people and agents, and what tools did."""

from typing import NamedTuple

from holdfast.core.messages.message import AssistantMessage, Message, ToolMessage, UserMessage

_MOST = 64 * 1024  # characters of one message; beyond that lie dumps that nobody searches


class Said(NamedTuple):
    role: str
    said: str = ""  # by a person or an agent
    done: str = ""  # calls and their results

    @property
    def text(self) -> str:
        return "\n".join(filter(None, (self.said, self.done)))


def said_in(message: Message) -> Said | None:
    """None: nothing that anybody said; our own notes are no part of the conversation."""
    match message:
        case UserMessage():
            found = Said("user", said=message.text)
        case AssistantMessage():
            calls = "\n".join(f"{call.name} {call.arguments}" for call in message.calls)
            found = Said("assistant", said=message.text, done=calls)
        case ToolMessage():
            found = Said("tool", done=message.text)
        case _:
            return None
    return found._replace(said=found.said[:_MOST], done=found.done[:_MOST])
