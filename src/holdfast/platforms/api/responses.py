"""Answers requests: waits for the end of a message or streams it, as a chat completion or as a
response of the Responses API."""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Any, Protocol

import msgspec

from holdfast.core.errors import IntakeClosed, NotAllowed, StoreError
from holdfast.core.ids import InboxId
from holdfast.core.messages.events import (
    MessageEnded,
    StepEnded,
    StreamVoided,
    TextStreamed,
    TurnEvent,
)
from holdfast.core.messages.inbox import OPEN_STATES, Inbound, InboxRow, InboxState
from holdfast.core.messages.source import Attachment
from holdfast.core.messages.transcript import Message
from holdfast.core.people.api_tokens import ApiClient
from holdfast.core.ports.platform import Intake
from holdfast.core.ports.store import StoreReader
from holdfast.core.ports.store_queries import GetInboxRow, GetTranscript
from holdfast.core.turns.turn import Usage
from holdfast.platforms.api.http import OpenAiError, RetryAdvice, bad_request, store_unavailable
from holdfast.platforms.api.requests import (
    MESSAGE_ID_HEADER,
    SESSION_HEADER,
    is_same_message,
    parse_response_id,
    response_id,
    response_not_found,
)

_encode = msgspec.json.Encoder().encode

_RESPONSE_STATUS = {
    InboxState.QUEUED: "queued",
    InboxState.RUNNING: "in_progress",
    InboxState.ANSWERED: "completed",
    InboxState.MERGED: "completed",
    InboxState.SUPERSEDED: "cancelled",
}


class AnswerFormat(Protocol):
    """How one of the two APIs encodes the events of an answer."""

    def start(self) -> Iterator[bytes]: ...
    def on_event(self, event: TurnEvent) -> Iterator[bytes]: ...
    def on_error(self, error: OpenAiError) -> Iterator[bytes]: ...


class RequestProcessor:
    """Passes requests to the gateway; stateless."""

    def __init__(self, intake: Intake, *, reads: StoreReader, platform: str) -> None:
        self._intake = intake
        self._reads = reads
        self._platform = platform

    async def accept(self, message: Inbound, attachments: Sequence[Attachment] = ()) -> InboxRow:
        """Returns the row of the message; with a repeated id, the existing row."""
        if not self._intake.may_talk(message.source):
            raise OpenAiError(
                403,
                f"this token names the sessions that it may be used in: name one in "
                f"{SESSION_HEADER}.",
                code="not_allowed",
                param=SESSION_HEADER,
            )
        try:
            accepted = await self._intake.accept(message, attachments)
        except (StoreError, IntakeClosed) as error:
            text = f"the message was not accepted: {error}"
            raise OpenAiError(503, text, code="not_accepted") from None
        except NotAllowed as error:
            raise OpenAiError(403, str(error), code="not_allowed") from None
        if accepted.duplicate and not is_same_message(accepted.row.inbound, message):
            raise OpenAiError(
                409,
                f"{MESSAGE_ID_HEADER} {message.message_id!r} was used for another message; "
                "give each message an id of its own.",
                code="message_id_reused",
                param=MESSAGE_ID_HEADER,
                retry=RetryAdvice.NO,
            )
        return accepted.row

    async def wait_for_answer(self, row: InboxRow) -> MessageEnded:
        """Waits for the answer; raises `OpenAiError` if there will be none."""
        ended = await self._intake.wait_for_end(row.id)
        if ended is None:
            raise _gateway_stopped(row)
        return _check_answered(ended)

    async def wait_for_end(self, row: InboxRow) -> MessageEnded:
        ended = await self._intake.wait_for_end(row.id)
        if ended is None:
            raise _gateway_stopped(row)
        return ended

    async def stream_answer(
        self,
        row: InboxRow,
        answer_format: AnswerFormat,
        *,
        on_unexpected: Callable[[Exception], OpenAiError],
    ) -> AsyncGenerator[bytes, None]:
        """The answer while it is written; an error is its last chunk. `on_unexpected` logs an
        exception that is a fault of the gateway, and returns what its client is told."""
        yield b"".join(answer_format.start())
        try:
            async with self._intake.watch(row.id) as events:
                async for event in events:
                    if isinstance(event, MessageEnded):
                        _check_answered(event)
                    if chunk := b"".join(answer_format.on_event(event)):
                        yield chunk
                    if isinstance(event, MessageEnded):
                        return
            raise _gateway_stopped(row)
        except OpenAiError as error:
            yield b"".join(answer_format.on_error(error))
        except StoreError as error:
            yield b"".join(answer_format.on_error(store_unavailable(error)))
        except Exception as error:  # noqa: BLE001 - `on_unexpected` logs it
            yield b"".join(answer_format.on_error(on_unexpected(error)))

    async def find_row(self, response: str, *, client: ApiClient | None) -> InboxRow:
        """A response of another client does not exist for this one."""
        row = await self._reads.read(GetInboxRow(inbox_id=parse_response_id(response)))
        if row is None or row.inbound.source.platform != self._platform:
            raise response_not_found(response)
        source = row.inbound.source
        if client is not None and not self._intake.may_talk(
            msgspec.structs.replace(source, user_id=client.user_id)
        ):
            raise response_not_found(response)
        return row

    async def conversation_until(
        self, response: str, *, client: ApiClient | None
    ) -> tuple[Message, ...]:
        """The conversation up to the end of that response; waits for it."""
        row = await self.find_row(response, client=client)
        if row.state in OPEN_STATES:
            await self.wait_for_end(row)
            row = await self.find_row(response, client=client)
        if row.state is not InboxState.ANSWERED:
            raise bad_request(
                f"{response} was not answered ({row.state}), so nothing can follow it; "
                "continue from an earlier response.",
                param="previous_response_id",
            )
        if row.session_id is None or row.turn_id is None:
            return ()  # a command: answered by the gateway, without a conversation
        records = await self._reads.read(GetTranscript(session_id=row.session_id))
        last = max((r.seq for r in records if r.turn_id == row.turn_id), default=0)
        return tuple(record.message for record in records if record.seq <= last)


def _check_answered(ended: MessageEnded) -> MessageEnded:
    if ended.state in (InboxState.ANSWERED, InboxState.MERGED):
        return ended
    if ended.state is InboxState.SUPERSEDED:
        text = f"this message was cancelled: {ended.reason or 'by a command'}."
        raise OpenAiError(409, text, code=ended.state, retry=RetryAdvice.NO)
    status = 403 if ended.state is InboxState.REFUSED else 502
    raise OpenAiError(status, ended.text or ended.reason, code=ended.state, retry=RetryAdvice.NO)


def _gateway_stopped(row: InboxRow) -> OpenAiError:
    return OpenAiError(
        503,
        "the gateway stopped before this was answered. The message is stored and will be "
        f"answered: send it again with {MESSAGE_ID_HEADER}: {row.inbound.message_id}",
        code="stopped",
        retry=RetryAdvice.WITH_ID,
    )


class AnswerText:
    """Turns the events of a turn into one growing text, because streamed text cannot be withdrawn.
    Owns the text of the current step.

    Each step begins a new paragraph, a repeated step is announced, and the part of the final text
    that was not streamed comes at the end.
    """

    def __init__(self) -> None:
        self._sent: list[str] = []
        self._gap = ""  # precedes the next text

    def delta(self, event: TurnEvent) -> str:
        """The text to send for this event; "" if there is none."""
        match event:
            case TextStreamed():
                return self._emit(event.text)
            case StepEnded() if self._sent:
                self._start_over("\n\n")
            case StreamVoided() if self._sent:
                self._start_over(f"\n\n[{event.why}; trying again]\n\n")
            case MessageEnded():
                return self._remainder(event.text)
        return ""

    def _emit(self, text: str) -> str:
        if not text:
            return ""
        gap, self._gap = self._gap, ""
        self._sent.append(text)
        return gap + text

    def _remainder(self, text: str) -> str:
        sent = "".join(self._sent)
        if text.startswith(sent):
            return self._emit(text[len(sent) :])
        self._start_over("\n\n")  # the client joined late, or the final answer differs
        return self._emit(text)

    def _start_over(self, gap: str) -> None:
        self._gap = gap
        self._sent.clear()


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


def response_body(
    ended: MessageEnded, inbox_id: InboxId, *, model: str, at: float
) -> dict[str, Any]:
    """The body for a message that has ended."""
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
    """The body for a message that has not ended."""
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

    The closing events contain only the final text: the text of steps with tool calls was streamed,
    but is not part of the answer.
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
        """The failure in both forms: as the end of the response, as the API specifies, and as an
        error event, because OpenAI's own client raises on nothing else."""
        frame = _response_skeleton(self._inbox_id, model=self._model, at=self._at)
        failed = {**frame, "status": "failed", "error": _response_error(error.message)}
        yield self._event("response.failed", response=failed)
        body = {"code": error.code, "message": error.message, "param": error.param}
        yield self._event("error", **body, **error.body())

    def _final_events(self, ended: MessageEnded) -> Iterator[bytes]:
        yield self._content_event("response.output_text.done", text=ended.text, logprobs=[])
        yield self._content_event("response.content_part.done", part=_output_text(ended.text))
        item = _output_message(self._inbox_id, ended.text, "completed")
        yield self._event("response.output_item.done", output_index=0, item=item)
        body = response_body(ended, self._inbox_id, model=self._model, at=self._at)
        yield self._event("response.completed", response=body)

    def _content_event(self, kind: str, **fields: object) -> bytes:
        position = {"item_id": f"msg_{self._inbox_id}", "output_index": 0, "content_index": 0}
        return self._event(kind, **position, **fields)

    def _event(self, kind: str, **fields: object) -> bytes:
        body = {"type": kind, "sequence_number": self._sequence_number, **fields}
        self._sequence_number += 1
        return b"event: " + kind.encode() + b"\ndata: " + _encode(body) + b"\n\n"
