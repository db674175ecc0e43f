"""Fitting: a text as the messages in which its platform can show it."""

from holdfast.core.ports.protocols import Platform, SupportsRendering
from holdfast.core.text.splitting import split_message


def split_for_platform(text: str, platform: Platform) -> tuple[str, ...]:
    """What each message says, in order; the same in every process that has that text to send.
    Secrets go first: cut in two, one would pass the gate in pieces."""
    can = platform.capabilities
    if can.max_length is None:
        return (text,)
    fits = platform.fits if isinstance(platform, SupportsRendering) else None
    return split_message(text, can.max_length, unit=can.length_unit, fits=fits)
