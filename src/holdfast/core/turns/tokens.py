"""Tokens: about how many a message takes, without a tokeniser."""

from holdfast.core.messages.message import AssistantMessage, Message, ToolMessage, UserMessage

EACH = 6  # what a message costs besides its text: its role, its ids
IMAGE = 1_500  # a picture of ordinary size, at the providers that say what they count


def estimate(message: Message) -> int:
    """Near enough to know when the window fills: a real count replaces it with every reply."""
    tokens = EACH + of_text(message.text)
    match message:
        case UserMessage():
            tokens += IMAGE * len(message.images)
            tokens += of_text(message.note or "") + of_text(message.quoted or "")
            tokens += of_text(message.documents or "")
        case AssistantMessage():
            tokens += sum(of_text(part.text) for part in message.reasoning)
            tokens += sum(EACH + of_text(call.arguments) for call in message.calls)
        case ToolMessage():
            tokens += EACH + IMAGE * len(message.images)
    return tokens


def of_text(text: str) -> int:
    """Four characters a token where letters are Latin, three bytes elsewhere."""
    if text.isascii():
        return len(text) // 4
    return len(text.encode("utf-8", "surrogatepass")) // 3
