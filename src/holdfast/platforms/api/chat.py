"""Answers in the shape of chat completions."""

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.core.ids import InboxId
from holdfast.core.messages.events import MessageEnded, TurnEvent
from holdfast.core.turns.turn import Usage
from holdfast.platforms.api.refusals import OpenAiError
from holdfast.platforms.api.telling import AnswerText

_encode = msgspec.json.Encoder().encode


def chat_completion(
    ended: MessageEnded, inbox_id: InboxId, *, model: str, at: float
) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{inbox_id}",
        "object": "chat.completion",
        "created": int(at),
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": ended.text},
                "finish_reason": "stop",
            }
        ],
        "usage": chat_usage(ended.usage),
    }


def chat_usage(used: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.input_tokens + used.output_tokens,
        "prompt_tokens_details": {"cached_tokens": used.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
    }


class ChatCompletionStream:
    """Turns the events of an answer into chunks."""

    def __init__(self, inbox_id: InboxId, *, model: str, at: float, with_usage: bool) -> None:
        self._frame = {
            "id": f"chatcmpl-{inbox_id}",
            "object": "chat.completion.chunk",
            "created": int(at),
            "model": model,
        }
        self._with_usage = with_usage
        self._answer_text = AnswerText()

    def start(self) -> Iterator[bytes]:
        yield self._chunk({"role": "assistant", "content": ""})

    def on_event(self, event: TurnEvent) -> Iterator[bytes]:
        if piece := self._answer_text.delta(event):
            yield self._chunk({"content": piece})
        if isinstance(event, MessageEnded):
            yield self._chunk({}, finish="stop")
            if self._with_usage:
                yield _sse_data({**self._frame, "choices": [], "usage": chat_usage(event.usage)})
            yield b"data: [DONE]\n\n"

    def on_error(self, error: OpenAiError) -> Iterator[bytes]:
        """Too late for a status: the error is the last event."""
        yield _sse_data(error.body())

    def _chunk(self, delta: dict[str, str], *, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _sse_data({**self._frame, "choices": [choice]})


def _sse_data(body: dict[str, Any]) -> bytes:
    return b"data: " + _encode(body) + b"\n\n"
