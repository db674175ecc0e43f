"""Pictures: which files a model can be shown, told by their bytes."""

import base64

from holdfast.core.messages.message import Image

MAX_IMAGE_BYTES = 8 * 1024 * 1024  # bytes; a larger one is a file like any other
_FILE_SIGNATURES = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}


def detect_image(data: bytes) -> Image | None:
    """A picture, if it is one by its bytes: a provider refuses what only calls itself so."""
    if len(data) > MAX_IMAGE_BYTES:
        return None
    for media_type, beginnings in _FILE_SIGNATURES.items():
        if data.startswith(beginnings) and (media_type != "image/webp" or data[8:12] == b"WEBP"):
            return Image(media_type=media_type, data=base64.b64encode(data).decode())
    return None
