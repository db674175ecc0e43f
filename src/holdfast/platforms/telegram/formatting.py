"""Formatting: Markdown as the text and the marks that the Bot API shows it by."""

from typing import Any

from holdfast.core.ports.capabilities import LengthUnit
from holdfast.core.text.length import message_length
from holdfast.platforms.text.telegram import MAX_LENGTH, render


def formatted_arguments(text: str) -> dict[str, Any]:
    """The arguments that say this text. One that is too long only as it would be shown, a table
    for example, is said as it was written: refused, it would be lost."""
    shown = render(text)
    if message_length(shown.text, LengthUnit.UTF16) > MAX_LENGTH:
        return raw_arguments(text)
    return {"text": shown.text, "entities": shown.entities or None}


def raw_arguments(text: str) -> dict[str, Any]:
    """The text as it was written, signs and all: there is nothing in it to be refused."""
    return {"text": text}
