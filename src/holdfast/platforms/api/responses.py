"""Answers in the shape of the Responses API."""

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.core.ids import InboxId
from holdfast.core.messages.events import Event, MessageEnded
from holdfast.core.messages.inbox import InboxRow, InboxState
from holdfast.core.turns.turn import Usage
from holdfast.platforms.api.names import response_id
from holdfast.platforms.api.refusals import Refusal
from holdfast.platforms.api.telling import Telling

_encode = msgspec.json.Encoder().encode


_STATUS = {
    InboxState.QUEUED: "queued",
    InboxState.RUNNING: "in_progress",
    InboxState.ANSWERED: "completed",
    InboxState.MERGED: "completed",
    InboxState.SUPERSEDED: "cancelled",
}


def whole(ended: MessageEnded, inbox_id: InboxId, *, model: str, at: float) -> dict[str, Any]:
    """An answer, or whatever else the message came to."""
    status = _STATUS.get(ended.state, "failed")
    frame = _frame(inbox_id, model=model, at=at)
    if status != "completed":
        return {**frame, "status": status, "error": _error(ended.text or ended.reason)}
    return {
        **frame,
        "status": status,
        "output": [_message(inbox_id, ended.text, status)],
        "usage": _usage(ended.usage),
    }


def under_way(row: InboxRow, *, model: str) -> dict[str, Any]:
    """What can be said of a message that has not ended."""
    return {**_frame(row.id, model=model, at=row.accepted_at), "status": _STATUS[row.state]}


def _error(message: str) -> dict[str, str]:
    return {"code": "server_error", "message": message}


def _frame(inbox_id: InboxId, *, model: str, at: float) -> dict[str, Any]:
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


def _message(inbox_id: InboxId, text: str | None, status: str) -> dict[str, Any]:
    content = [] if text is None else [_text(text)]
    return {
        "id": f"msg_{inbox_id}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    }


def _text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def _usage(used: Usage) -> dict[str, Any]:
    return {
        "input_tokens": used.input_tokens,
        "input_tokens_details": {"cached_tokens": used.cached_tokens},
        "output_tokens": used.output_tokens,
        "output_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
        "total_tokens": used.input_tokens + used.output_tokens,
    }


class ResponseEvents:
    """Turns events into the event stream of the Responses API, as one growing message.

    The closing events carry the final text alone: what a step said on the way to its tools
    was streamed, and is not part of the answer.
    """

    def __init__(self, inbox_id: InboxId, *, model: str, at: float) -> None:
        self._inbox_id = inbox_id
        self._model = model
        self._at = at
        self._number = 0
        self._telling = Telling()

    def first(self) -> Iterator[bytes]:
        frame = _frame(self._inbox_id, model=self._model, at=self._at)
        yield self._event("response.created", response=frame)
        yield self._event("response.in_progress", response=frame)
        item = _message(self._inbox_id, None, "in_progress")
        yield self._event("response.output_item.added", output_index=0, item=item)
        yield self._part("response.content_part.added", part=_text(""))

    def of(self, event: Event) -> Iterator[bytes]:
        if piece := self._telling.piece(event):
            yield self._part("response.output_text.delta", delta=piece, logprobs=[])
        if isinstance(event, MessageEnded):
            yield from self._last(event)

    def refused(self, refusal: Refusal) -> Iterator[bytes]:
        """The failure in both ways it is read: as the end of the response by who keeps to the
        API, and as an error by OpenAI's own client, which raises on nothing else."""
        frame = _frame(self._inbox_id, model=self._model, at=self._at)
        failed = {**frame, "status": "failed", "error": _error(refusal.message)}
        yield self._event("response.failed", response=failed)
        told = {"code": refusal.code, "message": refusal.message, "param": refusal.param}
        yield self._event("error", **told, **refusal.body())

    def _last(self, ended: MessageEnded) -> Iterator[bytes]:
        yield self._part("response.output_text.done", text=ended.text, logprobs=[])
        yield self._part("response.content_part.done", part=_text(ended.text))
        item = _message(self._inbox_id, ended.text, "completed")
        yield self._event("response.output_item.done", output_index=0, item=item)
        body = whole(ended, self._inbox_id, model=self._model, at=self._at)
        yield self._event("response.completed", response=body)

    def _part(self, kind: str, **fields: object) -> bytes:
        place = {"item_id": f"msg_{self._inbox_id}", "output_index": 0, "content_index": 0}
        return self._event(kind, **place, **fields)

    def _event(self, kind: str, **fields: object) -> bytes:
        body = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return b"event: " + kind.encode() + b"\ndata: " + _encode(body) + b"\n\n"
