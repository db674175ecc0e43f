"""Fetched: the bytes of a file that people have sent, and no more of them than are taken."""

from collections.abc import Callable

import aiohttp

from holdfast.core.messages.attachment import AttachmentUnavailable

_CHUNK_BYTES = 64 * 1024


def _ignore() -> None: ...


async def read_body(
    response: aiohttp.ClientResponse, *, max_bytes: int, on_chunk: Callable[[], None] = _ignore
) -> bytes:
    """All of it. `alive` is told of each piece. Raises `AttachmentUnavailable` as soon as it is larger than
    `most`: what its sender says of its size is only their word."""
    held = bytearray()
    async for piece in response.content.iter_chunked(_CHUNK_BYTES):
        on_chunk()
        held += piece
        if len(held) > max_bytes:
            raise AttachmentUnavailable(f"it is larger than {max_bytes // 2**20} MB")
    return bytes(held)
