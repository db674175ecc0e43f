"""The pretend vendor: chats, people and bots' accounts, with a ledger and faults on demand."""

import asyncio
from collections import defaultdict
from contextlib import suppress

import msgspec

from holdfast.core.errors import NotConnected
from holdfast.platforms.simulated.stream import Stream
from holdfast.platforms.simulated.wire import (
    About,
    Answer,
    Attempt,
    Faults,
    Ledger,
    Outgoing,
    Said,
    Say,
    Sent,
    Update,
    Verdict,
)

_TAKEN = frozenset({Verdict.TAKEN, Verdict.RECEIPT_LOST})


class ChatService:
    """Owns every chat, what each account has not acknowledged, and the ledger of it all.

    An update is given until it is acknowledged. `first_update_id` above every id of an earlier
    service keeps a bot that remembers that one from taking new updates for old.
    """

    def __init__(
        self,
        *,
        idempotent_send: bool = False,
        max_length: int | None = None,
        settle: float = 0.0,
        buttons: bool = False,
        busy_notices: bool = False,
        restart_notices: bool = False,
        first_update_id: int = 1,
    ) -> None:
        self.about = About(
            idempotent_send=idempotent_send,
            max_length=max_length,
            settle=settle,
            buttons=buttons,
            busy_notices=busy_notices,
            restart_notices=restart_notices,
        )
        self._faults = Faults()
        self._next_update = first_update_id
        self._streams: defaultdict[str, Stream] = defaultdict(Stream)
        self._said: dict[str, Say] = {}
        self._update_of: dict[str, int] = {}
        self._sent: list[Sent] = []
        self._first_sent: dict[str, Sent] = {}  # by delivery id
        self._attempts: list[Attempt] = []
        self._spoken = asyncio.Event()

    @property
    def faults(self) -> Faults:
        """As they stand: each number is what is left of it."""
        return self._faults

    def set_faults(self, faults: Faults) -> None:
        self._faults = faults
        for stream in self._streams.values():
            stream.wake()

    def set_idempotent_send(self, on: bool) -> None:
        self.about = msgspec.structs.replace(self.about, idempotent_send=on)

    def say(self, say: Say) -> str:
        """A person's message enters its chat; the id it has there."""
        message_id = f"m{len(self._said) + len(self._sent) + 1}"
        self._said[message_id] = say
        if self._faults.delay:
            loop = asyncio.get_running_loop()
            loop.call_later(self._faults.delay, self._publish, message_id, say)
        else:
            self._publish(message_id, say)
        return message_id

    def _publish(self, message_id: str, say: Say) -> None:
        # The id is given here and not in `say`: acknowledging is cumulative, so a delayed
        # update with an old id would be acknowledged by a newer one without ever being given.
        update = Update(
            id=self._next_update,
            message_id=message_id,
            account=say.account,
            chat_id=say.chat,
            chat_type=say.chat_type,
            thread_id=say.thread,
            user_id=say.user,
            user_name=say.user_name,
            text=say.text,
            group=say.group,
        )
        self._next_update += 1
        self._update_of[message_id] = update.id
        self._streams[say.account].put(update)

    async def updates(
        self, account: str, *, offset: int = 0, wait: float = 0.0, limit: int = 100
    ) -> list[Update]:
        """What is not acknowledged, from `offset` on; waits so long for the first of it.

        Raises `NotConnected` as soon as the line is cut.
        """
        stream = self._streams[account]
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                while not self._faults.disconnected and not stream.waiting(offset):
                    await stream.changed()
        self._check_line()
        return stream.give(offset=offset, limit=limit)

    def ack(self, account: str, *, up_to: int) -> None:
        self._check_line()
        stream = self._streams[account]
        for update in stream.ack(up_to):
            if self._spend("duplicates"):
                stream.put(update)

    def take(self, outgoing: Outgoing) -> Answer:
        """A bot sends: what becomes of it, which is also in the ledger."""
        answer = self._judge(outgoing)
        if answer.verdict in _TAKEN:
            answer = msgspec.structs.replace(answer, message_id=self._post(outgoing))
        self._attempts.append(Attempt(delivery_id=outgoing.delivery_id, verdict=answer.verdict))
        self._spoken.set()
        return answer

    def ledger(self) -> Ledger:
        return Ledger(
            said=tuple(self._tell(message_id, say) for message_id, say in self._said.items()),
            sent=tuple(self._sent),
            attempts=tuple(self._attempts),
        )

    async def ledger_with(self, *, sent: int, wait: float) -> Ledger:
        """The ledger, once so many messages were taken or so many seconds have passed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                while len(self._sent) < sent:
                    self._spoken.clear()
                    await self._spoken.wait()
        return self.ledger()

    def _judge(self, outgoing: Outgoing) -> Answer:
        limit = self.about.max_length
        if self._faults.disconnected:
            return Answer(verdict=Verdict.UNREACHABLE, error="the service is disconnected")
        if self._spend("floods"):
            return Answer(verdict=Verdict.FLOOD, retry_after=self._faults.retry_after)
        if limit is not None and len(outgoing.text) > limit:
            return Answer(verdict=Verdict.REFUSED, error=f"text is longer than {limit} characters")
        if self._spend("refusals"):
            return Answer(verdict=Verdict.REFUSED, error="the chat does not want this message")
        if self._spend("lost_messages"):
            return Answer(verdict=Verdict.MESSAGE_LOST)
        earlier = self._first_sent.get(outgoing.delivery_id)
        if self.about.idempotent_send and earlier is not None:
            return Answer(verdict=Verdict.REPEATED, message_id=earlier.message_id)
        lost = self._spend("lost_receipts")
        return Answer(verdict=Verdict.RECEIPT_LOST if lost else Verdict.TAKEN)

    def _post(self, outgoing: Outgoing) -> str:
        message_id = f"m{len(self._said) + len(self._sent) + 1}"
        duplicate = outgoing.delivery_id in self._first_sent
        sent = Sent(message_id=message_id, outgoing=outgoing, duplicate=duplicate)
        self._first_sent.setdefault(outgoing.delivery_id, sent)
        self._sent.append(sent)
        return message_id

    def _tell(self, message_id: str, say: Say) -> Said:
        update_id = self._update_of.get(message_id)
        stream = self._streams[say.account]
        return Said(
            message_id=message_id,
            update_id=update_id,
            account=say.account,
            chat_id=say.chat,
            user_id=say.user,
            text=say.text,
            given=0 if update_id is None else stream.given[update_id],
            acked=update_id in stream.acked,
        )

    def _spend(self, fault: str) -> bool:
        left: int = msgspec.structs.asdict(self._faults)[fault]
        if left:
            self._faults = msgspec.structs.replace(self._faults, **{fault: left - 1})
        return left > 0

    def _check_line(self) -> None:
        if self._faults.disconnected:
            raise NotConnected("the simulated service is disconnected; nothing was exchanged")
