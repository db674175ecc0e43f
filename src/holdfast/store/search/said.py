"""What of a message can be searched: the words of people and agents, and what tools did."""

from typing import NamedTuple

from holdfast.core.messages.message import AssistantMessage, Message, ToolMessage, UserMessage

_MAX_CHARACTERS = 64 * 1024  # characters of one message; beyond that lie dumps that nobody searches


class SearchableText(NamedTuple):
    role: str
    message_text: str = ""  # by a person or an agent
    tool_text: str = ""  # calls and their results

    @property
    def text(self) -> str:
        return "\n".join(filter(None, (self.message_text, self.tool_text)))


def searchable_text(message: Message) -> SearchableText | None:
    """None: nothing that anybody said; our own notes are no part of the conversation."""
    match message:
        case UserMessage():
            found = SearchableText("user", message_text=message.text)
        case AssistantMessage():
            calls = "\n".join(f"{call.name} {call.arguments}" for call in message.calls)
            found = SearchableText("assistant", message_text=message.text, tool_text=calls)
        case ToolMessage():
            found = SearchableText("tool", tool_text=message.text)
        case _:
            return None
    return found._replace(
        message_text=found.message_text[:_MAX_CHARACTERS],
        tool_text=found.tool_text[:_MAX_CHARACTERS],
    )
