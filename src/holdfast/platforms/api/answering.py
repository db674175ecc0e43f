"""Answering: from a request's message to the end it comes to, waited for or told as it grows."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Protocol

from holdfast.core.errors import IntakeClosed, NotAllowed, StoreError
from holdfast.core.messages.attachment import Attachment
from holdfast.core.messages.events import Event, MessageEnded
from holdfast.core.messages.inbox import OPEN, Inbound, InboxRow, InboxState
from holdfast.core.messages.message import Message
from holdfast.core.ports.library import Library
from holdfast.core.ports.protocols import Intake
from holdfast.platforms.api.names import MESSAGE_ID, inbox_id_of, no_response, same_message
from holdfast.platforms.api.refusals import Again, Refusal, bad, unreadable


class Shape(Protocol):
    """How one of the two APIs says the events of an answer."""

    def first(self) -> Iterator[bytes]: ...
    def of(self, event: Event) -> Iterator[bytes]: ...
    def refused(self, refusal: Refusal) -> Iterator[bytes]: ...


class Answering:
    """Asks the gateway in the API's name; keeps nothing of any request."""

    def __init__(self, intake: Intake, *, library: Library, platform: str) -> None:
        self._intake = intake
        self._library = library
        self._platform = platform

    async def accept(self, message: Inbound, attached: Sequence[Attachment] = ()) -> InboxRow:
        """The row of the message; a repeated id attaches to the row there was."""
        try:
            accepted = await self._intake.accept(message, attached)
        except (StoreError, IntakeClosed) as error:
            text = f"the message was not accepted: {error}"
            raise Refusal(503, text, code="not_accepted") from None
        except NotAllowed as error:
            raise Refusal(403, str(error), code="not_allowed") from None
        if accepted.duplicate and not same_message(accepted.row.inbound, message):
            raise Refusal(
                409,
                f"{MESSAGE_ID} {message.message_id!r} was used for another message; "
                "give each message an id of its own.",
                code="message_id_reused",
                param=MESSAGE_ID,
                again=Again.NO,
            )
        return accepted.row

    async def answer(self, row: InboxRow) -> MessageEnded:
        """The answer, waited for; raises `Refusal` where there will be none."""
        return _answer_or_refuse(await self.end_of(row))

    async def end_of(self, row: InboxRow) -> MessageEnded:
        ended = await self._intake.end_of(row.id)
        if ended is None:
            raise _stopped(row)
        return ended

    async def pieces(self, row: InboxRow, shape: Shape) -> AsyncGenerator[bytes, None]:
        """The answer as it grows; what goes wrong is its last piece."""
        yield b"".join(shape.first())
        try:
            async with self._intake.watch(row.id) as events:
                async for event in events:
                    if isinstance(event, MessageEnded):
                        _answer_or_refuse(event)
                    if piece := b"".join(shape.of(event)):
                        yield piece
                    if isinstance(event, MessageEnded):
                        return
            raise _stopped(row)
        except Refusal as refusal:
            yield b"".join(shape.refused(refusal))
        except StoreError as error:
            yield b"".join(shape.refused(unreadable(error)))

    async def row(self, response: str) -> InboxRow:
        row = await self._library.inbox_row(inbox_id_of(response))
        if row is None or row.inbound.source.platform != self._platform:
            raise no_response(response)
        return row

    async def past(self, response: str) -> tuple[Message, ...]:
        """The conversation up to the end of that response, which is waited for."""
        row = await self.row(response)
        if row.state in OPEN:
            await self.end_of(row)
            row = await self.row(response)
        if row.state is not InboxState.ANSWERED:
            raise bad(
                f"{response} was not answered ({row.state}), so nothing can follow it; go on "
                "from an earlier response.",
                param="previous_response_id",
            )
        if row.session_id is None or row.turn_id is None:
            return ()  # a command: the gateway answered, and no conversation
        records = await self._library.transcript(row.session_id)
        last = max((r.seq for r in records if r.turn_id == row.turn_id), default=0)
        return tuple(record.message for record in records if record.seq <= last)


def _answer_or_refuse(ended: MessageEnded) -> MessageEnded:
    if ended.state in (InboxState.ANSWERED, InboxState.MERGED):
        return ended
    if ended.state is InboxState.SUPERSEDED:
        text = f"this message was given up: {ended.reason or 'a command ended it'}."
        raise Refusal(409, text, code=ended.state, again=Again.NO)
    status = 403 if ended.state is InboxState.REFUSED else 502
    raise Refusal(status, ended.text or ended.reason, code=ended.state, again=Again.NO)


def _stopped(row: InboxRow) -> Refusal:
    return Refusal(
        503,
        "the gateway stopped before this was answered. The message is kept and will be answered: "
        f"send it again with {MESSAGE_ID}: {row.inbound.message_id}",
        code="stopped",
        again=Again.WITH_ID,
    )
