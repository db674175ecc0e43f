"""The title of a session: its first words, until something better is known."""

from collections.abc import Iterable

from holdfast.core.messages.message import Message, UserMessage

LONGEST_TITLE = 80


def first_words(messages: Iterable[Message]) -> str:
    """The first line of the first thing that was said."""
    for message in messages:
        if isinstance(message, UserMessage) and (said := message.text[:400].strip()):
            return shortened(said.splitlines()[0])
    return ""


def shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_TITLE else f"{text[: LONGEST_TITLE - 1]}…"
