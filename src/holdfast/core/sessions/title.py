"""The title of a session: its first words, until something better is known."""

from collections.abc import Iterable

from holdfast.core.messages.message import Message, UserMessage

MAX_TITLE_LENGTH = 80


def initial_title(messages: Iterable[Message]) -> str:
    """The first line of the first thing that was said."""
    for message in messages:
        if isinstance(message, UserMessage) and (said := message.text[:400].strip()):
            return truncate_title(said.splitlines()[0])
    return ""


def truncate_title(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_TITLE_LENGTH else f"{text[: MAX_TITLE_LENGTH - 1]}…"
