"""What a codec offers: a request as bytes, and the events in the bytes of the response."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from holdfast.core.config.settings import ApiMode
from holdfast.core.turns.model import Completed, ModelEvent, ModelRequest
from holdfast.models.codecs.anthropic import AnthropicCodec
from holdfast.models.codecs.chat_completions import ChatCompletionsCodec
from holdfast.models.codecs.responses import ResponsesCodec
from holdfast.models.target import ModelTarget


class StreamDecoder(Protocol):
    """Owns what one answer has brought so far."""

    @property
    def finished(self) -> bool:
        """The model said that it was done; what may still come is usage."""
        ...

    @property
    def ended(self) -> bool:
        """A payload said that the stream ends here: nothing that follows would be read."""
        ...

    def feed(self, payloads: Iterable[bytes]) -> list[ModelEvent]:
        """The deltas in these payloads; neighbouring pieces of text come as one.

        Raises `ModelFailed` for an error the provider reports inside its stream, and for
        payloads that cannot be understood.
        """
        ...

    def complete(self, *, ended: bool) -> Completed:
        """The whole reply. `ended`: the stream reached its own end mark.

        Raises `ModelFailed` where the answer was cut before its end.
        """
        ...


class Codec(Protocol):
    """Pure: no I/O. One instance serves every call of a pool in its mode."""

    path: str

    def headers(self, target: ModelTarget) -> Mapping[str, str]: ...
    def encode(self, request: ModelRequest, target: ModelTarget) -> bytes: ...
    def decoder(self, request: ModelRequest, target: ModelTarget) -> StreamDecoder: ...


CODECS: Mapping[ApiMode, Callable[[], Codec]] = {
    ApiMode.CHAT_COMPLETIONS: ChatCompletionsCodec,
    ApiMode.RESPONSES: ResponsesCodec,
    ApiMode.ANTHROPIC_MESSAGES: AnthropicCodec,
}
