"""Reading content: the text and the images of one message, in the words of either API."""

import base64
import re

from holdfast.core.messages.message import Image
from holdfast.platforms.api.files import FILES
from holdfast.platforms.api.refusals import bad
from holdfast.platforms.api.shapes import ImageUrl, Part

_DATA_URL = re.compile(r"data:(image/[\w.+-]+);base64,", re.ASCII)
_TEXTS = {"text", "input_text", "output_text", "refusal"}
_IMAGES = {"image_url", "input_image"}

Content = str | list[Part] | None


def text_of(content: Content, place: str, *, files: bool = False) -> str:
    """`files`: there may be some, which say nothing here."""
    if isinstance(content, str):
        return content
    known = _TEXTS | _IMAGES | (FILES if files else set())
    for number, part in enumerate(content or ()):
        if part.type not in known:
            where = f"{place}.content[{number}]"
            raise bad(f"{where}: a part of type {part.type!r} is not supported.", param=where)
    return "\n".join(part.text or part.refusal for part in content or () if part.type in _TEXTS)


def images_of(content: Content, place: str) -> tuple[Image, ...]:
    if not content or isinstance(content, str):
        return ()
    return tuple(
        _image(part, f"{place}.content[{number}].image_url")
        for number, part in enumerate(content)
        if part.type in _IMAGES
    )


def _image(part: Part, place: str) -> Image:
    url = part.image_url.url if isinstance(part.image_url, ImageUrl) else part.image_url or ""
    if found := _DATA_URL.match(url):
        data = url[found.end() :]
        try:
            base64.b64decode(data, validate=True)
        except ValueError:
            raise bad(f"{place}: the image's base64 data is damaged.", param=place) from None
        return Image(media_type=found[1], data=data)
    if url.startswith(("https://", "http://")):
        return Image(url=url)
    raise bad(
        f"{place}: an image is a data: URL (`data:image/png;base64,…`) or an http(s) address.",
        param=place,
    )
