"""Uploads: what is attached to a message becomes files of the workspace, and pictures for the
model."""

import asyncio
import base64
import binascii

from holdfast.control.v1.refusals import Refused, bad
from holdfast.control.v1.room import Room
from holdfast.control.v1.views import Attachment, NewMessage
from holdfast.core.ids import SessionId
from holdfast.core.message import Image
from holdfast.runner.workspace import CannotPut, Workspace

LARGEST = 20 * 1024 * 1024  # bytes of all attachments of one message
LARGEST_IMAGE = 8 * 1024 * 1024  # a larger one is a file of the workspace, and no picture
_BEGINNINGS = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}


async def received(
    room: Room, session_id: SessionId, said: NewMessage
) -> tuple[str, tuple[Image, ...]]:
    """The text, with a line that names the files, and the pictures. The files are kept before
    the message is: one that is accepted never names what is not there."""
    if not said.attachments:
        return said.text, ()
    return await asyncio.to_thread(_receive, Workspace(room.home, session_id), said)


def _receive(workspace: Workspace, said: NewMessage) -> tuple[str, tuple[Image, ...]]:
    files = [_decoded(attachment, n) for n, attachment in enumerate(said.attachments)]
    if sum(map(len, files)) > LARGEST:
        raise Refused(
            413,
            f"the attachments are larger than {LARGEST // 2**20} MB together.",
            code="too_large",
            param="attachments",
        )
    pairs = list(zip(said.attachments, files, strict=True))
    images = tuple(image for attachment, data in pairs if (image := _image(attachment, data)))
    try:
        paths = [workspace.put(attachment.name, data) for attachment, data in pairs]
    except CannotPut as error:
        raise Refused(409, str(error), code="cannot_attach", param="attachments") from None
    line = f"[Attached, in the workspace: {', '.join(paths)}]"
    return f"{said.text}\n\n{line}" if said.text.strip() else line, images


def _decoded(attachment: Attachment, number: int) -> bytes:
    try:
        return base64.b64decode(attachment.data, validate=True)
    except (binascii.Error, ValueError):
        place = f"attachments[{number}].data"
        raise bad(f"{place}: this is not base64.", param=place) from None


def _image(attachment: Attachment, data: bytes) -> Image | None:
    """A picture, if it is one by its bytes: a provider refuses what only calls itself so."""
    if len(data) > LARGEST_IMAGE:
        return None
    for media_type, beginnings in _BEGINNINGS.items():
        if data.startswith(beginnings) and (media_type != "image/webp" or data[8:12] == b"WEBP"):
            return Image(media_type=media_type, data=attachment.data)
    return None
