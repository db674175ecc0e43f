"""Uploads: what is attached to a message becomes files of the workspace, and for the model
pictures and text."""

import asyncio
import base64
import binascii
from collections.abc import Sequence

import msgspec

from holdfast.core.config.settings import PlatformSettings
from holdfast.core.ids import SessionId
from holdfast.core.messages.message import Image
from holdfast.core.messages.pictures import picture_of
from holdfast.core.messages.source import Source
from holdfast.documents.documents import told
from holdfast.gateway.inbound.wanted_files import is_wanted
from holdfast.runner.workspace import CannotPut, Workspace
from holdfast.server.api.errors import Refused, bad
from holdfast.server.api.room import Room
from holdfast.server.api.views.message_views import Attachment, NewMessage

LARGEST = 20 * 1024 * 1024  # bytes of all attachments of one message


class Uploaded(msgspec.Struct, frozen=True, kw_only=True):
    """The text, with a line that names the files; the pictures, and what the documents say."""

    text: str
    images: tuple[Image, ...] = ()
    documents: str = ""


class _Upload(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    data: bytes


async def received(room: Room, session_id: SessionId, said: NewMessage, source: Source) -> Uploaded:
    """The files are kept before the message is: one that is accepted never names what is not
    there."""
    if not said.attachments:
        return Uploaded(text=said.text)
    settings = room.gateway.house.settings
    account = settings.account(source.platform, source.account) or PlatformSettings()
    for number, each in enumerate(said.attachments):
        if not await is_wanted(each.name, account.files):
            place = f"attachments[{number}].name"
            raise bad(f"{place}: files of this kind are not taken here.", param=place)
    files = await asyncio.to_thread(_decoded_all, said.attachments)
    found = await room.gateway.documents.read(files, limit=account.file_chars)
    workspace = Workspace(room.home, session_id)
    paths, images = await asyncio.to_thread(_keep, workspace, files)
    line = f"[Attached, in the workspace: {', '.join(paths)}]"
    return Uploaded(
        text=f"{said.text}\n\n{line}" if said.text.strip() else line,
        images=images,
        documents=room.redact(told(zip(paths, found, strict=True))),
    )


def _keep(workspace: Workspace, files: Sequence[_Upload]) -> tuple[list[str], tuple[Image, ...]]:
    images = tuple(image for file in files if (image := picture_of(file.data)))
    try:
        return [workspace.put(file.name, file.data) for file in files], images
    except CannotPut as error:
        raise Refused(409, str(error), code="cannot_attach", param="attachments") from None


def _decoded_all(attachments: Sequence[Attachment]) -> list[_Upload]:
    files = [
        _Upload(name=attachment.name, data=_decoded(attachment, n))
        for n, attachment in enumerate(attachments)
    ]
    if sum(len(file.data) for file in files) > LARGEST:
        raise Refused(
            413,
            f"the attachments are larger than {LARGEST // 2**20} MB together.",
            code="too_large",
            param="attachments",
        )
    return files


def _decoded(attachment: Attachment, number: int) -> bytes:
    try:
        return base64.b64decode(attachment.data, validate=True)
    except (binascii.Error, ValueError):
        place = f"attachments[{number}].data"
        raise bad(f"{place}: this is not base64.", param=place) from None
