"""Sound values: what may stand in a request, so that no provider refuses the conversation."""

import re
from typing import Any

import msgspec

from holdfast.core.ids import CallId
from holdfast.core.messages.message import Image, ToolMessage, UserMessage

UNSHOWN = "(an image that cannot be shown)"
NO_ANSWER = "(no answer)"
_IMAGES = ("https://", "http://", "data:image/")
# A name of the model's own invention must not make every later request a bad one.
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ODD = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_ID = 40
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


class CallIds:
    """Owns the call ids that a request has used: each is one that every provider takes, and no
    two calls share one. A result is asked for right after its call."""

    __slots__ = ("_renamed", "_seen")

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._renamed: dict[CallId, str] = {}

    def reply(self) -> None:
        """A new reply begins: results from here on belong to its calls."""
        self._renamed.clear()

    def of_call(self, call_id: CallId) -> str:
        sound = _ODD.sub("_", call_id)[-_LONGEST_ID:] or "call"
        if sound in self._seen:
            sound = f"{sound[-30:]}_{len(self._seen)}"
        if sound != call_id:
            self._renamed[call_id] = sound
        self._seen.add(sound)
        return sound

    def of_result(self, call_id: CallId) -> str:
        return self._renamed.get(call_id, call_id)


def encoded(body: Any) -> bytes:
    """The body as JSON. Half a character is valid in a Python string and in no request."""
    try:
        return _encode(body)
    except UnicodeEncodeError:
        return _encode(_without_surrogates(body))


def scrubbed(text: str) -> str:
    """The text without halves of characters, which Python allows and no request does."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def said(text: str, *, otherwise: str) -> str:
    return text if text.strip() else otherwise


def user_text(message: UserMessage) -> str:
    """What a user's message says, with its speaker, what it answers and our note in front of it,
    and what its files say behind; may be empty."""
    text = f"{message.speaker}: {message.text}" if message.speaker else message.text
    if message.quoted:
        text = f"{message.quoted}\n\n{text}"
    if message.note:
        text = f"{message.note}\n\n{text}"
    if message.documents:
        text = f"{text}\n\n{message.documents}"
    return text if text.strip() else ""


def result_text(message: ToolMessage) -> str:
    return said(message.text, otherwise="(no output)")


def image_address(image: Image) -> str | None:
    """An address that shows the image, its data where it has them; None: there is none."""
    url = image.url if image.data is None else f"data:{image.media_type};base64,{image.data}"
    return url if url is not None and url.startswith(_IMAGES) else None


def sound_name(name: str) -> str:
    return (name if _NAME.fullmatch(name) else _ODD.sub("_", name)[:64]) or "unnamed"


def sound_arguments(arguments: str) -> str:
    """Arguments that every provider can parse: one bad call must not spoil a conversation."""
    try:
        _decode_object(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return _encode({"malformed": scrubbed(arguments)}).decode()
    return arguments


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return scrubbed(value)
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_surrogates(item) for key, item in value.items()}
    return value
