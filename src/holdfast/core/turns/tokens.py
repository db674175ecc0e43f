"""Tokens: about how many a message takes, without a tokeniser."""

from holdfast.core.messages.message import AssistantMessage, Message, ToolMessage, UserMessage

MESSAGE_OVERHEAD = 6  # what a message costs besides its text: its role, its ids
IMAGE_TOKENS = 1_500  # a picture of ordinary size, at the providers that say what they count


def estimate_tokens(message: Message) -> int:
    """Near enough to know when the window fills: a real count replaces it with every reply."""
    tokens = MESSAGE_OVERHEAD + estimate_text_tokens(message.text)
    match message:
        case UserMessage():
            tokens += IMAGE_TOKENS * len(message.images)
            tokens += estimate_text_tokens(message.note or "") + estimate_text_tokens(
                message.quoted or ""
            )
            tokens += estimate_text_tokens(message.documents or "")
        case AssistantMessage():
            tokens += sum(estimate_text_tokens(part.text) for part in message.reasoning)
            tokens += sum(
                MESSAGE_OVERHEAD + estimate_text_tokens(call.arguments) for call in message.calls
            )
        case ToolMessage():
            tokens += MESSAGE_OVERHEAD + IMAGE_TOKENS * len(message.images)
    return tokens


def estimate_text_tokens(text: str) -> int:
    """Four characters a token where letters are Latin, three bytes elsewhere."""
    if text.isascii():
        return len(text) // 4
    return len(text.encode("utf-8", "surrogatepass")) // 3
