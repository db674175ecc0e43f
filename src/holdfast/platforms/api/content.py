"""Reading content: the text and the images of one message, in the words of either API."""

import base64
import re

from holdfast.core.messages.message import Image
from holdfast.platforms.api.files import FILE_TYPES
from holdfast.platforms.api.refusals import bad_request
from holdfast.platforms.api.shapes import ContentPart, ImageUrl

_IMAGE_DATA_URL = re.compile(r"data:(image/[\w.+-]+);base64,", re.ASCII)
_TEXT_TYPES = {"text", "input_text", "output_text", "refusal"}
_IMAGE_TYPES = {"image_url", "input_image"}

Content = str | list[ContentPart] | None


def extract_text(content: Content, path: str, *, files: bool = False) -> str:
    """`files`: there may be some, which say nothing here."""
    if isinstance(content, str):
        return content
    known = _TEXT_TYPES | _IMAGE_TYPES | (FILE_TYPES if files else set())
    for number, part in enumerate(content or ()):
        if part.type not in known:
            where = f"{path}.content[{number}]"
            raise bad_request(
                f"{where}: a part of type {part.type!r} is not supported.", param=where
            )
    return "\n".join(
        part.text or part.refusal for part in content or () if part.type in _TEXT_TYPES
    )


def extract_images(content: Content, path: str) -> tuple[Image, ...]:
    if not content or isinstance(content, str):
        return ()
    return tuple(
        _parse_image(part, f"{path}.content[{number}].image_url")
        for number, part in enumerate(content)
        if part.type in _IMAGE_TYPES
    )


def _parse_image(part: ContentPart, path: str) -> Image:
    url = part.image_url.url if isinstance(part.image_url, ImageUrl) else part.image_url or ""
    if found := _IMAGE_DATA_URL.match(url):
        data = url[found.end() :]
        try:
            base64.b64decode(data, validate=True)
        except ValueError:
            raise bad_request(f"{path}: the image's base64 data is damaged.", param=path) from None
        return Image(media_type=found[1], data=data)
    if url.startswith(("https://", "http://")):
        return Image(url=url)
    raise bad_request(
        f"{path}: an image is a data: URL (`data:image/png;base64,…`) or an http(s) address.",
        param=path,
    )
