"""The simulated vendor: chats, people and bot accounts, with a ledger of all that happened and
faults on demand."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from holdfast.core.errors import AccountInUse, ConnectRefused, NotConnected
from holdfast.core.messages.source import Author, ChatType
from holdfast.core.ports.capabilities import Backlog
from holdfast.testing.simulated.events import (
    BotMessage,
    EditAttempt,
    EditRequest,
    Faults,
    FindRequest,
    Ledger,
    PersonMessage,
    ReactAttempt,
    ReactRequest,
    RepliedMessage,
    ReviseRequest,
    SayRequest,
    SendAttempt,
    SendRequest,
    SimulatedUpdate,
    TypingRequest,
    UpdateKind,
    VendorInfo,
    VendorReply,
    VendorVerdict,
)

_POLL_GRACE = 5.0  # seconds between two polls of a bot that is connected
_REORDER_WINDOW = 0.5  # seconds that a message waits for one of another chat to overtake it
_TAKEN_VERDICTS = frozenset({VendorVerdict.TAKEN, VendorVerdict.RECEIPT_LOST})


class UpdateQueue:
    """Owns the updates of an account that were not given or not acknowledged, and how often each
    was given.

    With `UNTIL_ACKED`, an update is given again until it is acknowledged. Otherwise it is given
    once, to a bot that is connected; a disconnected bot misses it, and may find it in `history`.
    """

    def __init__(self, backlog: Backlog = Backlog.UNTIL_ACKED) -> None:
        self.backlog = backlog
        self.history: list[SimulatedUpdate] = []
        self.times_given: Counter[int] = Counter()
        self.acked: set[int] = set()
        self._pending: list[SimulatedUpdate] = []
        self._given_unacked: set[int] = set()
        self._active_polls = 0
        self._present_until = 0.0
        self._changed = asyncio.Event()

    def put(self, update: SimulatedUpdate) -> None:
        if self.backlog is Backlog.HISTORY:
            self.history.append(update)
        if self.backlog is Backlog.UNTIL_ACKED or self.is_polled:
            self._pending.append(update)
        self.wake()

    def repeat(self, update: SimulatedUpdate) -> None:
        """Gives an acknowledged update once more."""
        self._pending.append(update)
        self.wake()

    @property
    def is_polled(self) -> bool:
        """A bot polls, or has polled a moment ago."""
        return bool(self._active_polls) or asyncio.get_running_loop().time() < self._present_until

    @contextmanager
    def polling(self) -> Iterator[None]:
        """A bot polls: it counts as connected meanwhile, and for a moment afterwards."""
        self._active_polls += 1
        try:
            yield
        except asyncio.CancelledError:
            self.cut()  # it hung up
            raise
        finally:
            self._active_polls -= 1
        self.mark_present()

    def mark_present(self) -> None:
        self._present_until = asyncio.get_running_loop().time() + _POLL_GRACE

    def cut(self) -> None:
        """The connection is cut: the bot is connected again when it polls again."""
        self._present_until = 0.0
        if self.backlog is not Backlog.UNTIL_ACKED:
            self._pending.clear()

    def pending(self, offset: int) -> list[SimulatedUpdate]:
        return [update for update in self._pending if update.id >= offset]

    def next_batch(self, *, offset: int, limit: int) -> list[SimulatedUpdate]:
        batch = self.pending(offset)[:limit]
        self.times_given.update(update.id for update in batch)
        if self.backlog is Backlog.UNTIL_ACKED:
            self._given_unacked.update(update.id for update in batch)
        else:
            ids = {update.id for update in batch}
            self._pending = [update for update in self._pending if update.id not in ids]
        return batch

    def history_since(self, update_id: int, *, limit: int) -> list[SimulatedUpdate]:
        """The updates after that one, given or not. The bot counts as connected from now on."""
        self.mark_present()
        batch = [update for update in self.history if update.id > update_id][:limit]
        self.times_given.update(update.id for update in batch)
        return batch

    def ack(self, up_to: int) -> list[SimulatedUpdate]:
        """Removes what was given up to this id; returns what is acknowledged for the first time.

        What was never given stays, so that a copy of an old update survives the acknowledgement of
        the original.
        """
        if self.backlog is not Backlog.UNTIL_ACKED:
            self.acked |= {number for number in self.times_given if number <= up_to}
            return []
        done = [u for u in self._pending if u.id <= up_to and u.id in self._given_unacked]
        first = [update for update in done if update.id not in self.acked]
        ids = {update.id for update in done}
        self._pending = [update for update in self._pending if update.id not in ids]
        self._given_unacked -= ids
        self.acked |= ids
        return first

    def wake(self) -> None:
        self._changed.set()

    async def wait_for_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


class FaultInjector:
    """Owns the faults, and decides the outcome of what a bot does: by what the vendor can do, and
    by its faults."""

    def __init__(self) -> None:
        self.faults = Faults()

    def consume(self, fault: str) -> bool:
        """Whether the fault happens this time; if so, it is counted down."""
        left: int = msgspec.structs.asdict(self.faults)[fault]
        if left:
            self.faults = msgspec.structs.replace(self.faults, **{fault: left - 1})
        return left > 0

    def on_send(
        self, outgoing: SendRequest, info: VendorInfo, *, earlier: str | None
    ) -> VendorReply:
        """`earlier`: the message of an earlier send with the same delivery id."""
        if answer := self._connection_fault() or _length_error(outgoing.text, info):
            return answer
        if self.consume("refusals"):
            return VendorReply(
                verdict=VendorVerdict.REFUSED, error="the chat does not want this message"
            )
        if self.consume("lost_messages"):
            return VendorReply(verdict=VendorVerdict.MESSAGE_LOST)
        if info.idempotent_send and earlier is not None:
            return VendorReply(verdict=VendorVerdict.REPEATED, message_id=earlier)
        lost = self.consume("lost_receipts")
        return VendorReply(verdict=VendorVerdict.RECEIPT_LOST if lost else VendorVerdict.TAKEN)

    def on_edit(self, edit: EditRequest, info: VendorInfo, *, known: bool) -> VendorReply:
        if answer := self._connection_fault() or _length_error(edit.text, info):
            return answer
        if not info.edit:
            return VendorReply(
                verdict=VendorVerdict.REFUSED, error="messages cannot be edited here"
            )
        if not known:
            return VendorReply(verdict=VendorVerdict.GONE, error=f"no bot sent {edit.message_id}")
        if self.consume("rejected_edits"):
            return VendorReply(verdict=VendorVerdict.REFUSED, error="this message cannot be edited")
        verdict = VendorVerdict.RECEIPT_LOST if self.consume("lost_edits") else VendorVerdict.TAKEN
        return VendorReply(verdict=verdict, message_id=edit.message_id)

    def on_find(self, info: VendorInfo, *, earlier: str | None) -> VendorReply:
        if answer := self._connection_fault():
            return answer
        if not info.lookup:
            return VendorReply(verdict=VendorVerdict.REFUSED, error="nothing can be looked up here")
        verdict = VendorVerdict.NOT_FOUND if earlier is None else VendorVerdict.REPEATED
        return VendorReply(verdict=verdict, message_id=earlier)

    def on_typing(self, info: VendorInfo) -> VendorReply:
        refused = VendorReply(verdict=VendorVerdict.REFUSED, error="typing is not shown here")
        shown = VendorReply(verdict=VendorVerdict.TAKEN, message_id="")
        return self._connection_fault() or (shown if info.typing else refused)

    def on_react(self, react: ReactRequest, info: VendorInfo, *, known: bool) -> VendorReply:
        if answer := self._connection_fault():
            return answer
        if not info.reactions:
            return VendorReply(verdict=VendorVerdict.REFUSED, error="there are no reactions here")
        if not known:
            return VendorReply(
                verdict=VendorVerdict.REFUSED, error=f"there is no message {react.message_id}"
            )
        if self.consume("rejected_reactions"):
            return VendorReply(
                verdict=VendorVerdict.REFUSED, error="reactions to this message are refused"
            )
        return VendorReply(verdict=VendorVerdict.TAKEN, message_id=react.message_id)

    def _connection_fault(self) -> VendorReply | None:
        if self.faults.disconnected:
            return VendorReply(
                verdict=VendorVerdict.UNREACHABLE, error="the service is disconnected"
            )
        if self.faults.half_open:
            return VendorReply(verdict=VendorVerdict.MESSAGE_LOST)
        wait = self.faults.retry_after
        if self.consume("account_floods"):
            return VendorReply(verdict=VendorVerdict.FLOOD, retry_after=wait, whole_account=True)
        if self.consume("floods"):
            return VendorReply(verdict=VendorVerdict.FLOOD, retry_after=wait)
        return None


def _length_error(text: str, info: VendorInfo) -> VendorReply | None:
    if info.max_length is None or len(text) <= info.max_length:
        return None
    error = f"text is longer than {info.max_length} characters"
    return VendorReply(verdict=VendorVerdict.REFUSED, error=error)


class ChatLog:
    """Owns the messages of people and bots, with their ids, edits and reactions."""

    def __init__(self) -> None:
        self.said: dict[str, SayRequest] = {}
        self.revised: dict[str, list[str | None]] = {}  # None: deleted
        self.reactions: dict[str, dict[str, str]] = {}  # of bots, by message and account
        self.sent: list[BotMessage] = []
        self._sent_index: dict[str, int] = {}  # of a bot's message among those sent
        self._first_sent: dict[str, BotMessage] = {}  # by delivery id

    def say(self, say: SayRequest) -> str:
        message_id = self._next_id()
        self.said[message_id] = say
        return message_id

    def revise(self, message_id: str, text: str | None) -> SayRequest:
        """Returns the message as it is now. Raises `KeyError` where there is none with that id."""
        say = self.said[message_id]
        self.revised.setdefault(message_id, []).append(text)
        return say if text is None else msgspec.structs.replace(say, text=text)

    def react(self, react: ReactRequest) -> None:
        reactions = self.reactions.setdefault(react.message_id, {})
        if react.emoji is None:
            reactions.pop(react.account, None)
        else:
            reactions[react.account] = react.emoji

    def post(self, outgoing: SendRequest) -> str:
        message_id = self._next_id()
        duplicate = outgoing.delivery_id in self._first_sent
        sent = BotMessage(message_id=message_id, outgoing=outgoing, duplicate=duplicate)
        self._first_sent.setdefault(outgoing.delivery_id, sent)
        self._sent_index[message_id] = len(self.sent)
        self.sent.append(sent)
        return message_id

    def kind_of(self, chat: str) -> ChatType:
        """The type of the chat in the last message that a person wrote to it."""
        kinds = (say.chat_type for say in reversed(self.said.values()) if say.chat == chat)
        return next(kinds, ChatType.GROUP)

    def sent_before(self, delivery_id: str) -> str | None:
        """The id of the message of that delivery; None: there is none."""
        earlier = self._first_sent.get(delivery_id)
        return None if earlier is None else earlier.message_id

    def by_bot(self, message_id: str) -> bool:
        index = self._sent_index.get(message_id)
        return index is not None and not self.sent[index].deleted

    def delete(self, message_id: str) -> None:
        """A moderator deletes a message of a bot."""
        index = self._sent_index[message_id]
        self.sent[index] = msgspec.structs.replace(self.sent[index], deleted=True)

    def replied(self, message_id: str) -> RepliedMessage | None:
        """A message as a reply to it quotes it; None: there is none with that id."""
        if (say := self.said.get(message_id)) is not None:
            revised = self.revised.get(message_id, [say.text])[-1]
            return RepliedMessage(
                message_id=message_id,
                text=revised or "",
                user_id=say.user,
                user_name=say.user_name,
            )
        if (index := self._sent_index.get(message_id)) is not None:
            return RepliedMessage(message_id=message_id, text=self.sent[index].text)
        return None

    def edit(self, message_id: str, text: str) -> None:
        """An edit that changes nothing is not recorded."""
        index = self._sent_index[message_id]
        sent = self.sent[index]
        if sent.text != text:
            self.sent[index] = msgspec.structs.replace(sent, edits=(*sent.edits, text))

    def _next_id(self) -> str:
        return f"m{len(self.said) + len(self.sent) + 1}"


class ChatService:
    """The simulated vendor. Owns the chats, the queue of each account, and the ledger.

    A `first_update_id` above every id of an earlier service keeps a bot that has a cursor of that
    one from taking new updates for old.
    """

    def __init__(
        self,
        *,
        idempotent_send: bool = False,
        max_length: int | None = None,
        first_update_id: int = 1,
        **about: Any,
    ) -> None:
        """`about`: further fields of `VendorInfo`."""
        self.info = VendorInfo(idempotent_send=idempotent_send, max_length=max_length, **about)
        self._faults = FaultInjector()
        self._next_update = first_update_id
        self._queues: defaultdict[str, UpdateQueue] = defaultdict(self._new_queue)
        self._chats = ChatLog()
        self._update_of: dict[str, int] = {}  # the first update of each message
        self._to_overtake: SimulatedUpdate | None = None  # to be overtaken by one of another chat
        self._attempts: list[SendAttempt] = []
        self._edits: list[EditAttempt] = []
        self._typing: list[TypingRequest] = []
        self._reactions: list[ReactAttempt] = []
        self._bot_acted = asyncio.Event()
        self._faults_changed = asyncio.Event()

    def _new_queue(self) -> UpdateQueue:
        return UpdateQueue(self.info.backlog)

    @property
    def faults(self) -> Faults:
        """The current faults: each number is how often the fault still happens."""
        return self._faults.faults

    @property
    def sent(self) -> Sequence[BotMessage]:
        """The messages of bots in order, with their edits."""
        return self._chats.sent

    def set_faults(self, faults: Faults) -> None:
        self._faults.faults = faults
        self._faults_changed.set()
        for queue in self._queues.values():
            if faults.disconnected or faults.half_open:
                queue.cut()
            queue.wake()

    def set_idempotent_send(self, on: bool) -> None:
        self.info = msgspec.structs.replace(self.info, idempotent_send=on)

    def say(self, say: SayRequest) -> str:
        """A person writes a message; returns its id."""
        message_id = self._chats.say(say)
        self._give_or_delay(message_id, say, UpdateKind.MESSAGE)
        return message_id

    def revise(self, revise: ReviseRequest) -> None:
        """A person edits or deletes what they said: another event about the same message."""
        say = self._chats.revise(revise.message_id, revise.text)
        kind = UpdateKind.DELETED if revise.text is None else UpdateKind.EDITED
        self._give_or_delay(revise.message_id, say, kind)

    def delete_sent(self, message_id: str) -> None:
        """A moderator deletes a message of a bot, which can then no longer be edited."""
        self._chats.delete(message_id)

    def _give_or_delay(self, message_id: str, say: SayRequest, kind: UpdateKind) -> None:
        if self.faults.delay:
            loop = asyncio.get_running_loop()
            loop.call_later(self.faults.delay, self._publish, message_id, say, kind)
        else:
            self._publish(message_id, say, kind)

    def _publish(self, message_id: str, say: SayRequest, kind: UpdateKind) -> None:
        delayed, self._to_overtake = self._to_overtake, None
        if delayed is not None and delayed.chat_id == say.chat:
            self._enqueue(delayed)  # within a chat the order is always kept
            delayed = None
        update = SimulatedUpdate(
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
            language=say.language,
            author=say.author,
        )
        if delayed is None and self._faults.consume("reorders"):
            self._to_overtake = update
            asyncio.get_running_loop().call_later(_REORDER_WINDOW, self._give_up_waiting, update)
            return
        self._enqueue(update)
        if delayed is not None:
            self._enqueue(delayed)

    def _give_up_waiting(self, update: SimulatedUpdate) -> None:
        """No message has overtaken it."""
        if self._to_overtake is update:
            self._to_overtake = None
            self._enqueue(update)

    def _enqueue(self, update: SimulatedUpdate) -> None:
        # The id is given here and not in `say`: acknowledging is cumulative, so a delayed
        # update with an old id would be acknowledged by a newer one without ever being given.
        update = msgspec.structs.replace(update, id=self._next_update)
        self._next_update += 1
        self._update_of.setdefault(update.message_id, update.id)
        self._queues[update.account].put(update)

    async def updates(
        self, account: str, *, offset: int = 0, wait: float = 0.0, limit: int = 100
    ) -> list[SimulatedUpdate]:
        """The updates that are not acknowledged, from `offset` on; waits up to `wait` seconds for
        the first.

        Raises `NotConnected` as soon as the connection is cut.
        """
        queue = self._queues[account]
        with queue.polling(), suppress(TimeoutError):
            async with asyncio.timeout(wait):
                while not self._is_cut and not queue.pending(offset):
                    await queue.wait_for_change()
        await self.wait_reachable()
        self._check_connected()
        return queue.next_batch(offset=offset, limit=limit)

    def is_polled(self, account: str) -> bool:
        """Whether a bot of that account polls, or has polled a moment ago."""
        return self._queues[account].is_polled

    def history(self, account: str, *, since: int, limit: int = 100) -> list[SimulatedUpdate]:
        """The updates after that one, given or not, where the vendor keeps a history."""
        self._check_connected()
        if self.info.backlog is not Backlog.HISTORY:
            return []
        return self._queues[account].history_since(since, limit=limit)

    def ack(self, account: str, *, up_to: int) -> None:
        self._check_connected()
        queue = self._queues[account]
        for update in queue.ack(up_to):
            if self._faults.consume("duplicates"):
                queue.repeat(update)

    async def wait_reachable(self) -> None:
        """Returns once the connection is not half-open: until then nothing is answered."""
        while self.faults.half_open:
            self._faults_changed.clear()
            await self._faults_changed.wait()

    def check_in(self) -> None:
        """A bot connects. Raises where it is refused."""
        self._check_connected()
        if self.faults.connect_refused:
            raise ConnectRefused(
                self.faults.connect_refused, remedy="Ask the operator of the service"
            )
        if self.faults.in_use_by:
            raise AccountInUse("another bot has this token", holder=self.faults.in_use_by)

    def send(self, outgoing: SendRequest) -> VendorReply:
        """A bot sends a message; the attempt is recorded in the ledger."""
        earlier = self._chats.sent_before(outgoing.delivery_id)
        answer = self._faults.on_send(outgoing, self.info, earlier=earlier)
        if answer.verdict in _TAKEN_VERDICTS:
            answer = msgspec.structs.replace(answer, message_id=self._chats.post(outgoing))
            self._relay(self._chats.sent[-1])
        self._attempts.append(SendAttempt(delivery_id=outgoing.delivery_id, verdict=answer.verdict))
        self._bot_acted.set()
        return answer

    def _relay(self, sent: BotMessage) -> None:
        """Gives the message to all bots, where the vendor does that."""
        outgoing = sent.outgoing
        for account in tuple(self._queues) if self.info.relay else ():
            is_own = account == outgoing.account
            copy = SayRequest(
                chat=outgoing.chat_id,
                user=outgoing.account,
                text=outgoing.text,
                account=account,
                chat_type=self._chats.kind_of(outgoing.chat_id),
                thread=outgoing.thread_id,
                author=Author.SELF if is_own else Author.BOT,
            )
            self._publish(sent.message_id, copy, UpdateKind.MESSAGE)

    def edit(self, edit: EditRequest) -> VendorReply:
        """A bot edits its message; the attempt is recorded in the ledger."""
        answer = self._faults.on_edit(edit, self.info, known=self._chats.by_bot(edit.message_id))
        if answer.verdict in _TAKEN_VERDICTS:
            self._chats.edit(edit.message_id, edit.text)
        self._edits.append(
            EditAttempt(
                message_id=edit.message_id,
                text=edit.text,
                verdict=answer.verdict,
                at=asyncio.get_running_loop().time(),
            )
        )
        self._bot_acted.set()
        return answer

    def find(self, find: FindRequest) -> VendorReply:
        """A bot asks what became of a delivery."""
        return self._faults.on_find(self.info, earlier=self._chats.sent_before(find.delivery_id))

    def typing(self, typing: TypingRequest) -> VendorReply:
        answer = self._faults.on_typing(self.info)
        if answer.verdict is VendorVerdict.TAKEN:
            self._typing.append(typing)
            self._bot_acted.set()
        return answer

    def react(self, react: ReactRequest) -> VendorReply:
        """A bot reacts to a message of a person; the attempt is recorded in the ledger."""
        known = react.message_id in self._chats.said
        answer = self._faults.on_react(react, self.info, known=known)
        if answer.verdict is VendorVerdict.TAKEN:
            self._chats.react(react)
        attempt = ReactAttempt(
            message_id=react.message_id, emoji=react.emoji, verdict=answer.verdict
        )
        self._reactions.append(attempt)
        self._bot_acted.set()
        return answer

    def ledger(self) -> Ledger:
        said = self._chats.said.items()
        return Ledger(
            said=tuple(self._person_message(message_id, say) for message_id, say in said),
            sent=tuple(self._chats.sent),
            attempts=tuple(self._attempts),
            edits=tuple(self._edits),
            typing=tuple(self._typing),
            reactions=tuple(self._reactions),
        )

    async def wait_for_ledger(self, *, sent: int = 0, edits: int = 0, wait: float) -> Ledger:
        """The ledger, once it has that many messages and edits, or after `wait` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                while len(self._chats.sent) < sent or len(self._edits) < edits:
                    self._bot_acted.clear()
                    await self._bot_acted.wait()
        return self.ledger()

    def _person_message(self, message_id: str, say: SayRequest) -> PersonMessage:
        update_id = self._update_of.get(message_id)
        queue = self._queues[say.account]
        revised = self._chats.revised.get(message_id, [])
        return PersonMessage(
            message_id=message_id,
            update_id=update_id,
            account=say.account,
            chat_id=say.chat,
            thread_id=say.thread,
            user_id=say.user,
            text=say.text,
            times_given=0 if update_id is None else queue.times_given[update_id],
            acked=update_id in queue.acked,
            edits=tuple(text for text in revised if text is not None),
            deleted=None in revised,
            reactions=dict(self._chats.reactions.get(message_id, {})),
        )

    @property
    def _is_cut(self) -> bool:
        return self.faults.disconnected or self.faults.half_open

    def _check_connected(self) -> None:
        if self.faults.disconnected:
            raise NotConnected("the simulated service is disconnected; nothing was exchanged")
