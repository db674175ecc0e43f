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
from holdfast.core.messages.pictures import detect_image
from holdfast.core.messages.source import Source
from holdfast.documents.documents import render_documents
from holdfast.gateway.inbound.wanted_files import is_accepted_type
from holdfast.runner.workspace import CannotSaveFile, Workspace
from holdfast.server.api.errors import EndpointError, bad_request
from holdfast.server.api.room import ApiContext
from holdfast.server.api.views.message_views import AttachmentUpload, NewMessage

MAX_TOTAL_SIZE = 20 * 1024 * 1024  # bytes of all attachments of one message


class SavedAttachments(msgspec.Struct, frozen=True, kw_only=True):
    """The text, with a line that names the files; the pictures, and what the documents say."""

    text: str
    images: tuple[Image, ...] = ()
    documents: str = ""


class _DecodedFile(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    data: bytes


async def save_attachments(
    context: ApiContext, session_id: SessionId, message: NewMessage, source: Source
) -> SavedAttachments:
    """The files are kept before the message is: one that is accepted never names what is not
    there."""
    if not message.attachments:
        return SavedAttachments(text=message.text)
    settings = context.gateway.services.settings
    account = settings.account(source.platform, source.account) or PlatformSettings()
    for number, each in enumerate(message.attachments):
        if not await is_accepted_type(each.name, account.files):
            place = f"attachments[{number}].name"
            raise bad_request(f"{place}: files of this kind are not taken here.", param=place)
    files = await asyncio.to_thread(_decode_all, message.attachments)
    found = await context.gateway.document_reader.read(files, limit=account.file_chars)
    workspace = Workspace(context.home, session_id)
    paths, images = await asyncio.to_thread(_write_files, workspace, files)
    line = f"[Attached, in the workspace: {', '.join(paths)}]"
    return SavedAttachments(
        text=f"{message.text}\n\n{line}" if message.text.strip() else line,
        images=images,
        documents=context.redact(render_documents(zip(paths, found, strict=True))),
    )


def _write_files(
    workspace: Workspace, files: Sequence[_DecodedFile]
) -> tuple[list[str], tuple[Image, ...]]:
    images = tuple(image for file in files if (image := detect_image(file.data)))
    try:
        return [workspace.save_upload(file.name, file.data) for file in files], images
    except CannotSaveFile as error:
        raise EndpointError(409, str(error), code="cannot_attach", param="attachments") from None


def _decode_all(attachments: Sequence[AttachmentUpload]) -> list[_DecodedFile]:
    files = [
        _DecodedFile(name=attachment.name, data=_decode_attachment(attachment, n))
        for n, attachment in enumerate(attachments)
    ]
    if sum(len(file.data) for file in files) > MAX_TOTAL_SIZE:
        raise EndpointError(
            413,
            f"the attachments are larger than {MAX_TOTAL_SIZE // 2**20} MB together.",
            code="too_large",
            param="attachments",
        )
    return files


def _decode_attachment(attachment: AttachmentUpload, number: int) -> bytes:
    try:
        return base64.b64decode(attachment.data, validate=True)
    except (binascii.Error, ValueError):
        place = f"attachments[{number}].data"
        raise bad_request(f"{place}: this is not base64.", param=place) from None
