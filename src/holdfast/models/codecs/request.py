"""What all codecs share in a request: values that every provider accepts, cached tool lists."""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.core.ids import CallId
from holdfast.core.messages.transcript import Image, ToolMessage, UserMessage
from holdfast.core.turns.external import fenced_result
from holdfast.core.turns.model import ToolSchema

IMAGE_PLACEHOLDER = "(an image that cannot be shown)"
NO_ANSWER = "(no answer)"
_IMAGE_PREFIXES = ("https://", "http://", "data:image/")
# A tool name that the model invented must not make every later request invalid.
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_INVALID_CHARS = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_ID = 40
_MAX_CACHED = 64  # encoded tool lists, and encoded prompts
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


class CallIds:
    """Owns the call ids of a request: each is valid for every provider, and no two calls share
    one. The id of a result is requested right after that of its call."""

    __slots__ = ("_renamed", "_seen")

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._renamed: dict[CallId, str] = {}

    def begin_reply(self) -> None:
        """A new reply begins: results from here on belong to its calls."""
        self._renamed.clear()

    def for_call(self, call_id: CallId) -> str:
        valid = _INVALID_CHARS.sub("_", call_id)[-_MAX_ID:] or "call"
        if valid in self._seen:
            valid = f"{valid[-30:]}_{len(self._seen)}"
        if valid != call_id:
            self._renamed[call_id] = valid
        self._seen.add(valid)
        return valid

    def for_result(self, call_id: CallId) -> str:
        return self._renamed.get(call_id, call_id)


def encode_json(body: Any) -> bytes:
    """The body as JSON, without lone surrogates, which JSON requests must not contain."""
    try:
        return _encode(body)
    except UnicodeEncodeError:
        return _encode(_strip_surrogates_deep(body))


def strip_surrogates(text: str) -> str:
    """The text without lone surrogates, which Python allows and no request does."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def text_or(text: str, *, default: str) -> str:
    return text if text.strip() else default


def user_text(message: UserMessage) -> str:
    """The text of a user message: system note, quote and speaker in front of it, the text of its
    files behind it; may be empty."""
    text = f"{message.speaker}: {message.text}" if message.speaker else message.text
    if message.quoted:
        text = f"{message.quoted}\n\n{text}"
    if message.note:
        text = f"{message.note}\n\n{text}"
    if message.documents:
        text = f"{text}\n\n{message.documents}"
    return text if text.strip() else ""


def result_text(message: ToolMessage) -> str:
    return text_or(fenced_result(message), default="(no output)")


def image_url_of(image: Image) -> str | None:
    """A URL of the image, made from its data where it has them; None: it has neither."""
    url = image.url if image.data is None else f"data:{image.media_type};base64,{image.data}"
    return url if url is not None and url.startswith(_IMAGE_PREFIXES) else None


def valid_tool_name(name: str) -> str:
    return (name if _TOOL_NAME.fullmatch(name) else _INVALID_CHARS.sub("_", name)[:64]) or "unnamed"


def valid_arguments(arguments: str) -> str:
    """Arguments that every provider can parse: one bad call must not break a conversation."""
    try:
        _decode_object(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return _encode({"malformed": strip_surrogates(arguments)}).decode()
    return arguments


def _strip_surrogates_deep(value: Any) -> Any:
    if isinstance(value, str):
        return strip_surrogates(value)
    if isinstance(value, list):
        return [_strip_surrogates_deep(item) for item in value]
    if isinstance(value, dict):
        return {key: _strip_surrogates_deep(item) for key, item in value.items()}
    return value


class ToolListCache:
    """Owns the encoded tool lists of one API mode. They are the bulk of most requests, so each is
    encoded once."""

    __slots__ = ("_encode_tools", "_encoded")

    def __init__(
        self, encode_tools: Callable[[tuple[ToolSchema, ...]], list[dict[str, Any]]]
    ) -> None:
        self._encode_tools = encode_tools
        self._encoded: dict[int, tuple[tuple[ToolSchema, ...], msgspec.Raw]] = {}

    def get(self, tools: tuple[ToolSchema, ...]) -> msgspec.Raw:
        # By identity: an agent's tools are one frozen tuple, and comparing schemas would cost
        # as much as encoding them. The tuple is kept beside its bytes, so its id stays its own.
        known = self._encoded.get(id(tools))
        if known is not None:
            return known[1]
        if len(self._encoded) >= _MAX_CACHED:
            del self._encoded[next(iter(self._encoded))]
        raw = msgspec.Raw(msgspec.json.encode(self._encode_tools(tools)))
        self._encoded[id(tools)] = (tools, raw)
        return raw


class PromptCache:
    """Owns system prompts as JSON. Every call of a session has the same one, and most sessions
    share theirs, so each is encoded once."""

    __slots__ = ("_encoded",)

    def __init__(self) -> None:
        self._encoded: dict[str, msgspec.Raw] = {}

    def get(self, prompt: str) -> msgspec.Raw:
        known = self._encoded.get(prompt)
        if known is None:
            if len(self._encoded) >= _MAX_CACHED:
                del self._encoded[next(iter(self._encoded))]
            known = self._encoded[prompt] = msgspec.Raw(encode_json(prompt))
        return known
