"""Files that come with a post, as our own posts have them: a name, and data in base64."""

import base64
import binascii
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.messages.attachment import Attachment


class UnreadablePost(HoldfastError):
    """The body is not what it is said to be."""


class WebhookFile(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    data: str  # in base64


def encode_file(name: str, data: bytes) -> WebhookFile:
    return WebhookFile(name=name, data=base64.b64encode(data).decode())


def decode_files(found: Any, *, field: str) -> Sequence[Attachment]:
    """One file, a list of them, or none. Raises `Unreadable` where it is something else."""
    listed = [] if found is None else found if isinstance(found, list) else [found]
    try:
        return [_to_attachment(file) for file in msgspec.convert(listed, list[WebhookFile])]
    except (msgspec.ValidationError, binascii.Error) as error:
        raise UnreadablePost(f"{field} is no file with name and data in base64: {error}") from None


def _to_attachment(file: WebhookFile) -> Attachment:
    data = base64.b64decode(file.data, validate=True)

    async def fetch() -> bytes:
        return data

    return Attachment(name=file.name, fetch=fetch, size=len(data))
