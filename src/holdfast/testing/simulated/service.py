"""The pretend vendor: chats, people and bots' accounts, with a ledger and faults on demand."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from holdfast.core.errors import AccountHeld, ConnectRefused, NotConnected
from holdfast.core.messages.source import Author
from holdfast.core.ports.capabilities import Backlog
from holdfast.testing.simulated.chats import Chats
from holdfast.testing.simulated.events import (
    About,
    Answer,
    Attempt,
    Edit,
    EditAttempt,
    Faults,
    Find,
    Ledger,
    Outgoing,
    React,
    ReactAttempt,
    Revise,
    Said,
    Say,
    Sent,
    Typing,
    Update,
    UpdateKind,
    Verdict,
)
from holdfast.testing.simulated.judging import Judging
from holdfast.testing.simulated.stream import Stream

_TAKEN = frozenset({Verdict.TAKEN, Verdict.RECEIPT_LOST})
_OVERTAKEN_WITHIN = 0.5  # seconds that a message waits for one of another chat to overtake it


class ChatService:
    """Owns every chat, what each account has not acknowledged, and the ledger of it all.

    `first_update_id` above every id of an earlier service keeps a bot that remembers that one
    from taking new updates for old.
    """

    def __init__(
        self,
        *,
        idempotent_send: bool = False,
        max_length: int | None = None,
        first_update_id: int = 1,
        **about: Any,
    ) -> None:
        """`about`: whatever else `About` has."""
        self.about = About(idempotent_send=idempotent_send, max_length=max_length, **about)
        self._judging = Judging()
        self._next_update = first_update_id
        self._streams: defaultdict[str, Stream] = defaultdict(self._stream)
        self._chats = Chats()
        self._update_of: dict[str, int] = {}  # the first about a message
        self._held: Update | None = None  # to be overtaken by one of another chat
        self._attempts: list[Attempt] = []
        self._edits: list[EditAttempt] = []
        self._typing: list[Typing] = []
        self._reactions: list[ReactAttempt] = []
        self._spoken = asyncio.Event()
        self._switched = asyncio.Event()

    def _stream(self) -> Stream:
        return Stream(self.about.backlog)

    @property
    def faults(self) -> Faults:
        """As they stand: each number is what is left of it."""
        return self._judging.faults

    @property
    def sent(self) -> Sequence[Sent]:
        """What bots have sent, in the order it came, as it stands now."""
        return self._chats.sent

    def set_faults(self, faults: Faults) -> None:
        self._judging.faults = faults
        self._switched.set()
        for stream in self._streams.values():
            if faults.disconnected or faults.half_open:
                stream.cut()
            stream.wake()

    def set_idempotent_send(self, on: bool) -> None:
        self.about = msgspec.structs.replace(self.about, idempotent_send=on)

    def say(self, say: Say) -> str:
        """A person's message enters its chat; the id it has there."""
        message_id = self._chats.say(say)
        self._give(message_id, say, UpdateKind.MESSAGE)
        return message_id

    def revise(self, revise: Revise) -> None:
        """A person edits or deletes what they said: another event about the same message."""
        say = self._chats.revise(revise.message_id, revise.text)
        kind = UpdateKind.DELETED if revise.text is None else UpdateKind.EDITED
        self._give(revise.message_id, say, kind)

    def _give(self, message_id: str, say: Say, kind: UpdateKind) -> None:
        if self.faults.delay:
            loop = asyncio.get_running_loop()
            loop.call_later(self.faults.delay, self._publish, message_id, say, kind)
        else:
            self._publish(message_id, say, kind)

    def _publish(self, message_id: str, say: Say, kind: UpdateKind) -> None:
        held, self._held = self._held, None
        if held is not None and held.chat_id == say.chat:
            self._put(held)  # within a chat the order is kept, whatever happens
            held = None
        update = Update(
            id=0,
            message_id=message_id,
            account=say.account,
            chat_id=say.chat,
            chat_type=say.chat_type,
            thread_id=say.thread,
            user_id=say.user,
            user_name=say.user_name,
            text=say.text,
            group=say.group,
            kind=kind,
            mentions=say.mentions,
            reply_to=None if say.reply_to is None else self._chats.replied(say.reply_to),
            author=say.author,
        )
        if held is None and self._judging.spend("reorders"):
            self._held = update
            asyncio.get_running_loop().call_later(_OVERTAKEN_WITHIN, self._let_go, update)
            return
        self._put(update)
        if held is not None:
            self._put(held)

    def _let_go(self, update: Update) -> None:
        """Nobody has overtaken it."""
        if self._held is update:
            self._held = None
            self._put(update)

    def _put(self, update: Update) -> None:
        # The id is given here and not in `say`: acknowledging is cumulative, so a delayed
        # update with an old id would be acknowledged by a newer one without ever being given.
        update = msgspec.structs.replace(update, id=self._next_update)
        self._next_update += 1
        self._update_of.setdefault(update.message_id, update.id)
        self._streams[update.account].put(update)

    async def updates(
        self, account: str, *, offset: int = 0, wait: float = 0.0, limit: int = 100
    ) -> list[Update]:
        """What is not acknowledged, from `offset` on; waits so long for the first of it.

        Raises `NotConnected` as soon as the line is cut.
        """
        stream = self._streams[account]
        with stream.polled(), suppress(TimeoutError):
            async with asyncio.timeout(wait):
                while not self._broken and not stream.waiting(offset):
                    await stream.changed()
        await self.comes_through()
        self._check_line()
        return stream.give(offset=offset, limit=limit)

    def listens(self, account: str) -> bool:
        """Whether a bot of that account is there: it asks, or has asked a moment ago."""
        return self._streams[account].listens

    def history(self, account: str, *, since: int, limit: int = 100) -> list[Update]:
        """What came after that update, whether or not it was given; where history is kept."""
        self._check_line()
        if self.about.backlog is not Backlog.HISTORY:
            return []
        return self._streams[account].since(since, limit=limit)

    def ack(self, account: str, *, up_to: int) -> None:
        self._check_line()
        stream = self._streams[account]
        for update in stream.ack(up_to):
            if self._judging.spend("duplicates"):
                stream.put_again(update)

    async def comes_through(self) -> None:
        """Returns when the line is not half-open: until then nobody hears anything."""
        while self.faults.half_open:
            self._switched.clear()
            await self._switched.wait()

    def come_in(self) -> None:
        """A bot says that it is there. Raises what keeps it out."""
        self._check_line()
        if self.faults.shut_out:
            raise ConnectRefused(self.faults.shut_out, remedy="Ask whoever runs the service")
        if self.faults.held_by:
            raise AccountHeld("another bot has this token", holder=self.faults.held_by)

    def take(self, outgoing: Outgoing) -> Answer:
        """A bot sends: what becomes of it, which is also in the ledger."""
        earlier = self._chats.sent_before(outgoing.delivery_id)
        answer = self._judging.of_message(outgoing, self.about, earlier=earlier)
        if answer.verdict in _TAKEN:
            answer = msgspec.structs.replace(answer, message_id=self._chats.post(outgoing))
            self._relay(self._chats.sent[-1])
        self._attempts.append(Attempt(delivery_id=outgoing.delivery_id, verdict=answer.verdict))
        self._spoken.set()
        return answer

    def _relay(self, sent: Sent) -> None:
        """Where bots hear each other, as people do who are in one chat."""
        outgoing = sent.outgoing
        for account in tuple(self._streams) if self.about.relay else ():
            own = account == outgoing.account
            heard = Say(
                chat=outgoing.chat_id,
                user=outgoing.account,
                text=outgoing.text,
                account=account,
                chat_type=self._chats.kind_of(outgoing.chat_id),
                thread=outgoing.thread_id,
                author=Author.OURSELVES if own else Author.BOT,
            )
            self._publish(sent.message_id, heard, UpdateKind.MESSAGE)

    def edit(self, edit: Edit) -> Answer:
        """A bot changes what it sent: what becomes of that, which is also in the ledger."""
        answer = self._judging.of_edit(edit, self.about, known=self._chats.by_bot(edit.message_id))
        if answer.verdict in _TAKEN:
            self._chats.edit(edit.message_id, edit.text)
        self._edits.append(
            EditAttempt(
                message_id=edit.message_id,
                text=edit.text,
                verdict=answer.verdict,
                at=asyncio.get_running_loop().time(),
            )
        )
        self._spoken.set()
        return answer

    def find(self, find: Find) -> Answer:
        """A bot asks what became of a delivery."""
        return self._judging.of_question(
            self.about, earlier=self._chats.sent_before(find.delivery_id)
        )

    def typing(self, typing: Typing) -> Answer:
        answer = self._judging.of_typing(self.about)
        if answer.verdict is Verdict.TAKEN:
            self._typing.append(typing)
            self._spoken.set()
        return answer

    def react(self, react: React) -> Answer:
        """A bot marks what a person said: what becomes of that, which is also in the ledger."""
        known = react.message_id in self._chats.said
        answer = self._judging.of_reaction(react, self.about, known=known)
        if answer.verdict is Verdict.TAKEN:
            self._chats.react(react)
        attempt = ReactAttempt(message_id=react.message_id, sign=react.sign, verdict=answer.verdict)
        self._reactions.append(attempt)
        self._spoken.set()
        return answer

    def ledger(self) -> Ledger:
        said = self._chats.said.items()
        return Ledger(
            said=tuple(self._tell(message_id, say) for message_id, say in said),
            sent=tuple(self._chats.sent),
            attempts=tuple(self._attempts),
            edits=tuple(self._edits),
            typing=tuple(self._typing),
            reactions=tuple(self._reactions),
        )

    async def ledger_with(self, *, sent: int = 0, edits: int = 0, wait: float) -> Ledger:
        """The ledger, once so many messages and edits came or so many seconds have passed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                while len(self._chats.sent) < sent or len(self._edits) < edits:
                    self._spoken.clear()
                    await self._spoken.wait()
        return self.ledger()

    def _tell(self, message_id: str, say: Say) -> Said:
        update_id = self._update_of.get(message_id)
        stream = self._streams[say.account]
        revised = self._chats.revised.get(message_id, [])
        return Said(
            message_id=message_id,
            update_id=update_id,
            account=say.account,
            chat_id=say.chat,
            thread_id=say.thread,
            user_id=say.user,
            text=say.text,
            given=0 if update_id is None else stream.given[update_id],
            acked=update_id in stream.acked,
            edits=tuple(text for text in revised if text is not None),
            deleted=None in revised,
            signs=dict(self._chats.signs.get(message_id, {})),
        )

    @property
    def _broken(self) -> bool:
        return self.faults.disconnected or self.faults.half_open

    def _check_line(self) -> None:
        if self.faults.disconnected:
            raise NotConnected("the simulated service is disconnected; nothing was exchanged")
