"""Answers in the shape of the Responses API."""

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.core.ids import InboxId
from holdfast.core.messages.events import MessageEnded, TurnEvent
from holdfast.core.messages.inbox import InboxRow, InboxState
from holdfast.core.turns.turn import Usage
from holdfast.platforms.api.names import response_id
from holdfast.platforms.api.refusals import OpenAiError
from holdfast.platforms.api.telling import AnswerText

_encode = msgspec.json.Encoder().encode


_RESPONSE_STATUS = {
    InboxState.QUEUED: "queued",
    InboxState.RUNNING: "in_progress",
    InboxState.ANSWERED: "completed",
    InboxState.MERGED: "completed",
    InboxState.SUPERSEDED: "cancelled",
}


def response_body(
    ended: MessageEnded, inbox_id: InboxId, *, model: str, at: float
) -> dict[str, Any]:
    """An answer, or whatever else the message came to."""
    status = _RESPONSE_STATUS.get(ended.state, "failed")
    frame = _response_skeleton(inbox_id, model=model, at=at)
    if status != "completed":
        return {**frame, "status": status, "error": _response_error(ended.text or ended.reason)}
    return {
        **frame,
        "status": status,
        "output": [_output_message(inbox_id, ended.text, status)],
        "usage": _response_usage(ended.usage),
    }


def pending_response_body(row: InboxRow, *, model: str) -> dict[str, Any]:
    """What can be said of a message that has not ended."""
    return {
        **_response_skeleton(row.id, model=model, at=row.accepted_at),
        "status": _RESPONSE_STATUS[row.state],
    }


def _response_error(message: str) -> dict[str, str]:
    return {"code": "server_error", "message": message}


def _response_skeleton(inbox_id: InboxId, *, model: str, at: float) -> dict[str, Any]:
    return {
        "id": response_id(inbox_id),
        "object": "response",
        "created_at": int(at),
        "status": "in_progress",
        "model": model,
        "output": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": None,
    }


def _output_message(inbox_id: InboxId, text: str | None, status: str) -> dict[str, Any]:
    content = [] if text is None else [_output_text(text)]
    return {
        "id": f"msg_{inbox_id}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    }


def _output_text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def _response_usage(used: Usage) -> dict[str, Any]:
    return {
        "input_tokens": used.input_tokens,
        "input_tokens_details": {"cached_tokens": used.cached_tokens},
        "output_tokens": used.output_tokens,
        "output_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
        "total_tokens": used.input_tokens + used.output_tokens,
    }


class ResponsesApiStream:
    """Turns events into the event stream of the Responses API, as one growing message.

    The closing events carry the final text alone: what a step said on the way to its tools
    was streamed, and is not part of the answer.
    """

    def __init__(self, inbox_id: InboxId, *, model: str, at: float) -> None:
        self._inbox_id = inbox_id
        self._model = model
        self._at = at
        self._sequence_number = 0
        self._answer_text = AnswerText()

    def start(self) -> Iterator[bytes]:
        frame = _response_skeleton(self._inbox_id, model=self._model, at=self._at)
        yield self._event("response.created", response=frame)
        yield self._event("response.in_progress", response=frame)
        item = _output_message(self._inbox_id, None, "in_progress")
        yield self._event("response.output_item.added", output_index=0, item=item)
        yield self._content_event("response.content_part.added", part=_output_text(""))

    def on_event(self, event: TurnEvent) -> Iterator[bytes]:
        if piece := self._answer_text.delta(event):
            yield self._content_event("response.output_text.delta", delta=piece, logprobs=[])
        if isinstance(event, MessageEnded):
            yield from self._final_events(event)

    def on_error(self, error: OpenAiError) -> Iterator[bytes]:
        """The failure in both ways it is read: as the end of the response by who keeps to the
        API, and as an error by OpenAI's own client, which raises on nothing else."""
        frame = _response_skeleton(self._inbox_id, model=self._model, at=self._at)
        failed = {**frame, "status": "failed", "error": _response_error(error.message)}
        yield self._event("response.failed", response=failed)
        told = {"code": error.code, "message": error.message, "param": error.param}
        yield self._event("error", **told, **error.body())

    def _final_events(self, ended: MessageEnded) -> Iterator[bytes]:
        yield self._content_event("response.output_text.done", text=ended.text, logprobs=[])
        yield self._content_event("response.content_part.done", part=_output_text(ended.text))
        item = _output_message(self._inbox_id, ended.text, "completed")
        yield self._event("response.output_item.done", output_index=0, item=item)
        body = response_body(ended, self._inbox_id, model=self._model, at=self._at)
        yield self._event("response.completed", response=body)

    def _content_event(self, kind: str, **fields: object) -> bytes:
        place = {"item_id": f"msg_{self._inbox_id}", "output_index": 0, "content_index": 0}
        return self._event(kind, **place, **fields)

    def _event(self, kind: str, **fields: object) -> bytes:
        body = {"type": kind, "sequence_number": self._sequence_number, **fields}
        self._sequence_number += 1
        return b"event: " + kind.encode() + b"\ndata: " + _encode(body) + b"\n\n"
