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
from holdfast.core.pictures import picture_of
from holdfast.runner.workspace import CannotPut, Workspace

LARGEST = 20 * 1024 * 1024  # bytes of all attachments of one message


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
    images = tuple(image for _, data in pairs if (image := picture_of(data)))
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
