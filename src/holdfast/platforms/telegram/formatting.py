"""Formatting: Markdown as the text and the marks that the Bot API shows it by."""

from typing import Any

from holdfast.platforms.text.telegram import render


def formatted(text: str) -> dict[str, Any]:
    """The arguments that say this text."""
    shown = render(text)
    return {"text": shown.text, "entities": shown.entities or None}


def unformatted(text: str) -> dict[str, Any]:
    """The text as it was written, signs and all: there is nothing in it to be refused."""
    return {"text": text}
