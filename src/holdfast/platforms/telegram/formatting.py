"""Formatting: Markdown as the text and the marks that the Bot API shows it by."""

from typing import Any


def formatted(text: str) -> dict[str, Any]:
    """The arguments that say this text."""
    return unformatted(text)


def unformatted(text: str) -> dict[str, Any]:
    """The text as it was written, signs and all: there is nothing in it to be refused."""
    return {"text": text}
