"""Files that a request brings as parts of its message, in the words of either API.

https://platform.openai.com/docs/guides/pdf-files: `file` in a chat, `input_file` in a response.
"""

import base64
import binascii
import mimetypes
import re

import msgspec

from holdfast.core.messages.attachment import Attachment
from holdfast.platforms.api.refusals import bad_request
from holdfast.platforms.api.shapes import ContentPart, FilePart

FILE_TYPES = frozenset({"file", "input_file"})
_FILE_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w.+=-]+)*;base64,", re.ASCII)


class RequestFile(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    data: bytes


def extract_files(content: str | list[ContentPart] | None, path: str) -> tuple[RequestFile, ...]:
    if not content or isinstance(content, str):
        return ()
    return tuple(
        _parse_file(part, f"{path}.content[{number}]", number)
        for number, part in enumerate(content)
        if part.type in FILE_TYPES
    )


def describe_past_files(content: str | list[ContentPart] | None) -> str:
    """What is left of files in a past that is merely told: nobody keeps them a second time."""
    parts = [] if not content or isinstance(content, str) else content
    names = [_file_part(part).filename or "a file" for part in parts if part.type in FILE_TYPES]
    return f"[Attached then, and not here: {', '.join(names)}]" if names else ""


def to_attachments(files: tuple[RequestFile, ...]) -> tuple[Attachment, ...]:
    return tuple(_to_attachment(file) for file in files)


def _to_attachment(file: RequestFile) -> Attachment:
    async def fetch() -> bytes:
        return file.data

    return Attachment(name=file.name, size=len(file.data), fetch=fetch)


def _file_part(part: ContentPart) -> FilePart:
    """In a chat it is a table of its own, in a response its keys are those of the part."""
    return part.file if part.file is not None else part


def _parse_file(part: ContentPart, path: str, number: int) -> RequestFile:
    given = _file_part(part)
    if not given.file_data:
        raise bad_request(
            f"{path}: a file comes with its data, as base64 in `file_data`; nothing is uploaded "
            "here beforehand (`file_id`), and nothing fetched from elsewhere (`file_url`).",
            param=path,
        )
    head = _FILE_DATA_URL.match(given.file_data)
    try:
        said = given.file_data[head.end() :] if head else given.file_data
        data = base64.b64decode(said, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request(f"{path}: the file's base64 data is damaged.", param=path) from None
    ending = mimetypes.guess_extension(head[1]) if head and head[1] else None
    return RequestFile(name=given.filename or f"file-{number + 1}{ending or ''}", data=data)
