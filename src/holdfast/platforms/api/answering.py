"""Answering: from a request's message to the end it comes to, waited for or told as it grows."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Protocol

from holdfast.core.errors import IntakeClosed, NotAllowed, StoreError
from holdfast.core.messages.attachment import Attachment
from holdfast.core.messages.events import MessageEnded, TurnEvent
from holdfast.core.messages.inbox import OPEN_STATES, Inbound, InboxRow, InboxState
from holdfast.core.messages.message import Message
from holdfast.core.ports.library import StoreReader
from holdfast.core.ports.protocols import Intake
from holdfast.platforms.api.names import (
    MESSAGE_ID_HEADER,
    is_same_message,
    parse_response_id,
    response_not_found,
)
from holdfast.platforms.api.refusals import OpenAiError, RetryAdvice, bad_request, store_unavailable


class AnswerFormat(Protocol):
    """How one of the two APIs says the events of an answer."""

    def start(self) -> Iterator[bytes]: ...
    def on_event(self, event: TurnEvent) -> Iterator[bytes]: ...
    def on_error(self, error: OpenAiError) -> Iterator[bytes]: ...


class RequestProcessor:
    """Asks the gateway in the API's name; keeps nothing of any request."""

    def __init__(self, intake: Intake, *, reads: StoreReader, platform: str) -> None:
        self._intake = intake
        self._reads = reads
        self._platform = platform

    async def accept(self, message: Inbound, attachments: Sequence[Attachment] = ()) -> InboxRow:
        """The row of the message; a repeated id attaches to the row there was."""
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
        """The answer, waited for; raises `Refusal` where there will be none."""
        return _check_answered(await self.wait_for_end(row))

    async def wait_for_end(self, row: InboxRow) -> MessageEnded:
        ended = await self._intake.wait_for_end(row.id)
        if ended is None:
            raise _gateway_stopped(row)
        return ended

    async def stream_answer(
        self, row: InboxRow, answer_format: AnswerFormat
    ) -> AsyncGenerator[bytes, None]:
        """The answer as it grows; what goes wrong is its last piece."""
        yield b"".join(answer_format.start())
        try:
            async with self._intake.watch(row.id) as events:
                async for event in events:
                    if isinstance(event, MessageEnded):
                        _check_answered(event)
                    if piece := b"".join(answer_format.on_event(event)):
                        yield piece
                    if isinstance(event, MessageEnded):
                        return
            raise _gateway_stopped(row)
        except OpenAiError as refusal:
            yield b"".join(answer_format.on_error(refusal))
        except StoreError as error:
            yield b"".join(answer_format.on_error(store_unavailable(error)))

    async def find_row(self, response: str) -> InboxRow:
        row = await self._reads.inbox_row(parse_response_id(response))
        if row is None or row.inbound.source.platform != self._platform:
            raise response_not_found(response)
        return row

    async def conversation_until(self, response: str) -> tuple[Message, ...]:
        """The conversation up to the end of that response, which is waited for."""
        row = await self.find_row(response)
        if row.state in OPEN_STATES:
            await self.wait_for_end(row)
            row = await self.find_row(response)
        if row.state is not InboxState.ANSWERED:
            raise bad_request(
                f"{response} was not answered ({row.state}), so nothing can follow it; go on "
                "from an earlier response.",
                param="previous_response_id",
            )
        if row.session_id is None or row.turn_id is None:
            return ()  # a command: the gateway answered, and no conversation
        records = await self._reads.transcript(row.session_id)
        last = max((r.seq for r in records if r.turn_id == row.turn_id), default=0)
        return tuple(record.message for record in records if record.seq <= last)


def _check_answered(ended: MessageEnded) -> MessageEnded:
    if ended.state in (InboxState.ANSWERED, InboxState.MERGED):
        return ended
    if ended.state is InboxState.SUPERSEDED:
        text = f"this message was given up: {ended.reason or 'a command ended it'}."
        raise OpenAiError(409, text, code=ended.state, retry=RetryAdvice.NO)
    status = 403 if ended.state is InboxState.REFUSED else 502
    raise OpenAiError(status, ended.text or ended.reason, code=ended.state, retry=RetryAdvice.NO)


def _gateway_stopped(row: InboxRow) -> OpenAiError:
    return OpenAiError(
        503,
        "the gateway stopped before this was answered. The message is kept and will be answered: "
        f"send it again with {MESSAGE_ID_HEADER}: {row.inbound.message_id}",
        code="stopped",
        retry=RetryAdvice.WITH_ID,
    )
