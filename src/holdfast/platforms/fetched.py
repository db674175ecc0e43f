"""Fetched: the bytes of a file that people have sent, and no more of them than are taken."""

from collections.abc import Callable

import aiohttp

from holdfast.core.messages.attachment import NoAttachment

_PIECE = 64 * 1024


def _nobody() -> None: ...


async def body_of(
    response: aiohttp.ClientResponse, *, most: int, alive: Callable[[], None] = _nobody
) -> bytes:
    """All of it. `alive` is told of each piece. Raises `NoAttachment` as soon as it is larger than
    `most`: what its sender says of its size is only their word."""
    held = bytearray()
    async for piece in response.content.iter_chunked(_PIECE):
        alive()
        held += piece
        if len(held) > most:
            raise NoAttachment(f"it is larger than {most // 2**20} MB")
    return bytes(held)
