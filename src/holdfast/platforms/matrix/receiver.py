"""Receives the messages of one sync batch: fetches what is missing, decrypts, parses, and hands them to intake.

The last message of a batch carries its position, so the next batch is requested only when this one is durable.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec

from holdfast.core.errors import (
    IntakeClosed,
    NotAddressed,
    NotAllowed,
    NotConnected,
    SendError,
    SendRejected,
    StoreError,
    Throttled,
)
from holdfast.core.messages.inbox import Cursor, Inbound
from holdfast.core.messages.source import Attachment, AttachmentUnavailable
from holdfast.core.ports.platform import Intake
from holdfast.platforms.inbound import backoff_delays
from holdfast.platforms.matrix.checkpoint import MatrixCheckpoint, SyncPosition, UndecryptedEvent
from holdfast.platforms.matrix.client import MatrixBadToken, MatrixClient, room_path
from holdfast.platforms.matrix.events import (
    ENCRYPTED,
    FILE_MESSAGE_TYPES,
    MEMBER,
    JoinedRoom,
    Json,
    MatrixContent,
    MatrixEmptyResponse,
    MatrixHistoryPage,
    MatrixMessage,
    MatrixParser,
    MessageContext,
    SyncResponse,
)
from holdfast.platforms.matrix.rooms import (
    ENCRYPTION_REMEDY,
    InviteHandler,
    RoomDirectory,
    RoomUpgrades,
)

if TYPE_CHECKING:
    from holdfast.platforms.matrix.encryption import EncryptionMachine

log = logging.getLogger(__name__)


# MERGED holdfast.platforms.matrix.patience: Patience: what cannot be done for the moment is tried again, while the line holds.
T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


class RetryLoop:
    """Keeps nothing."""

    def __init__(self, client: MatrixClient, *, sleep: Sleep = asyncio.sleep) -> None:
        self._client = client
        self._sleep = sleep

    async def run(self, job: Callable[[], Awaitable[T]]) -> T:
        """Once it is. Raises a `NotConnected` where the line itself is gone: while something is
        tried again, nothing else is asked of the homeserver that would show it."""
        pauses = backoff_delays()
        while True:
            try:
                return await job()
            except MatrixBadToken:
                raise
            except Throttled as error:
                await self._sleep(error.retry_after)
            except (StoreError, IntakeClosed, NotConnected) as error:
                pause = next(pauses)
                log.warning(
                    "Messages of Matrix are not taken: %s. The next try is in %.1f s.",
                    error,
                    pause,
                    extra={"action": "receiver_retrying"},
                )
                await self._sleep(pause)
                await self._check_connection()

    async def _check_connection(self) -> None:
        try:
            await self._client.whoami()
        except Throttled:
            return  # an answer, too


# MERGED holdfast.platforms.matrix.history: History: events that a sync has left out, and single ones that others refer to.
MESSAGE_EVENT_TYPES = ("m.room.message", "m.room.encrypted", "m.sticker")
_MAX_GAP_EVENTS = 5000  # events of one gap


class MatrixHistory:
    """Keeps nothing. Raises a `SendError` where there is no answer now."""

    def __init__(
        self, client: MatrixClient, encryption: "EncryptionMachine", *, page_size: int
    ) -> None:
        self._client = client
        self._page_size = str(page_size)  # of one answer
        self._encryption = encryption

    async def events_between(self, room_id: str, since: str, until: str) -> list[Json]:
        """What was said in a room after one place and before another, oldest first.

        https://spec.matrix.org/latest/client-server-api/#get_matrixclientv3roomsroomidmessages
        """
        found: list[Json] = []
        place: str | None = until
        while place is not None and len(found) < _MAX_GAP_EVENTS:
            page = await self._fetch_page(room_id, place, since)
            found += page.chunk
            place = page.end if page.chunk else None
        if place is not None:
            log.warning(
                "More than %d messages were said in %s meanwhile; the older ones are passed over.",
                _MAX_GAP_EVENTS,
                room_id,
                extra={"action": "history_truncated"},
            )
        return found[::-1]

    async def _fetch_page(self, room_id: str, position: str, since: str) -> MatrixHistoryPage:
        query = {
            "dir": "b",
            "from": position,
            "to": since,
            "limit": self._page_size,
            "filter": msgspec.json.encode({"types": MESSAGE_EVENT_TYPES}).decode(),
        }
        try:
            return await self._client.call_idempotent(
                "GET", room_path(room_id, "messages"), MatrixHistoryPage, query=query
            )
        except SendRejected as error:
            log.info(
                "What was said in %s meanwhile is not to be had: %s",
                room_id,
                error,
                extra={"action": "history_refused"},
            )
            return MatrixHistoryPage()

    async def fetch_event(self, room_id: str, event_id: str) -> MatrixMessage | None:
        """None: it is not to be had, or cannot be read."""
        try:
            event = await self._client.call_idempotent(
                "GET", room_path(room_id, "event", event_id), dict
            )
        except SendRejected:
            return None
        if event.get("type") == ENCRYPTED:
            event = await self._encryption.decrypt(room_id, event) or event
        return parse_message(event)


def parse_message(event: Json) -> MatrixMessage | None:
    """None: it makes no sense, and is passed over; asked for again, it would hold up the rest."""
    try:
        return msgspec.convert(event, MatrixMessage)
    except msgspec.ValidationError as error:
        log.warning(
            "An event of Matrix makes no sense and is passed over: %s",
            error,
            extra={"action": "event_invalid"},
        )
        return None


# MERGED holdfast.platforms.matrix.files: Files that people send: which one a message has, and how it is fetched.
def attachments_of(
    content: MatrixContent, client: MatrixClient, *, max_bytes: int, last_attempt: bool
) -> tuple[Attachment, ...]:
    """It is not fetched yet. `most` is in bytes. At the last try, what cannot be fetched is not to
    be had: whatever else people say waits behind it."""
    if content.msgtype not in FILE_MESSAGE_TYPES or not max_bytes:
        return ()
    name = content.filename or content.body or content.msgtype.removeprefix("m.")
    fetch = _make_fetch(content, client, max_bytes=max_bytes, last_attempt=last_attempt)
    return (Attachment(name=name, size=content.info.size, fetch=fetch),)


def _make_fetch(
    content: MatrixContent, client: MatrixClient, *, max_bytes: int, last_attempt: bool
) -> Callable[[], Awaitable[bytes]]:
    async def fetch() -> bytes:
        try:
            return await _fetch_file(content, client, max_bytes=max_bytes)
        except NotConnected as error:
            if last_attempt:
                raise AttachmentUnavailable(f"it could not be fetched: {error}") from error
            raise

    return fetch


async def _fetch_file(content: MatrixContent, client: MatrixClient, *, max_bytes: int) -> bytes:
    if content.file is None:
        return await client.download(content.url, max_bytes=max_bytes)
    from holdfast.platforms.matrix.encryption import decrypt_file

    data = await client.download(content.file.url, max_bytes=max_bytes)
    return await asyncio.to_thread(decrypt_file, content.file, data)


# MERGED holdfast.platforms.matrix.handing: Handing over: one message to intake, with the files that came with it.
_MAX_FILE_ATTEMPTS = 4  # at the file of a message


class ReceivedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is ready to be handed over, with the content that a file may hang on."""

    inbound: Inbound
    content: MatrixContent = MatrixContent()


class MessageSubmitter:
    """Owns how often the file of a message was tried. `taken` is told of what intake keeps."""

    def __init__(
        self,
        client: MatrixClient,
        intake: Intake,
        *,
        max_file_bytes: int,
        on_accepted: Callable[[Inbound], None],
    ) -> None:
        self._client = client
        self._intake = intake
        self._on_accepted = on_accepted
        self._max_file_bytes = max_file_bytes  # bytes of one file
        self._file_failures: Counter[str] = Counter()

    async def submit(self, message: ReceivedMessage, cursor: Cursor | None = None) -> None:
        """Durable when this returns, or nothing to keep. Raises what intake raises where it can be
        neither for the moment, and `NotConnected` where its file cannot be fetched yet."""
        event_id = message.inbound.event_id
        last_try = self._file_failures[event_id] + 1 >= _MAX_FILE_ATTEMPTS
        attached = attachments_of(
            message.content, self._client, max_bytes=self._max_file_bytes, last_attempt=last_try
        )
        if not message.inbound.text.strip() and not attached:
            return
        inbound = msgspec.structs.replace(message.inbound, cursor=cursor)
        try:
            await self._intake.accept(inbound, attached)
            self._on_accepted(inbound)
        except NotAddressed as error:
            log.debug("%s: %s", event_id, error, extra={"action": "message_ignored"})
        except NotAllowed as error:
            log.info(
                "Message %s of %s was dropped: %s",
                event_id,
                inbound.source.user_id,
                error,
                extra={"action": "message_not_allowed"},
            )
        except NotConnected:
            self._file_failures[event_id] += 1
            raise
        self._file_failures.pop(event_id, None)


# MERGED holdfast.platforms.matrix.receipts: Receipts: people see that what they said was taken.
class ReadReceipts:
    """Owns the tasks that bring them. Nobody is the worse where one fails."""

    def __init__(
        self, client: MatrixClient, *, enabled: bool, room_of: Callable[[str], str]
    ) -> None:
        self._client = client
        self._room_of = room_of
        self._enabled = enabled
        self._tasks: asyncio.TaskGroup | None = None  # of the connection
        self._in_flight: set[asyncio.Task[None]] = set()

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def send(self, inbound: Inbound) -> None:
        if self._enabled and self._tasks is not None:
            task = self._tasks.create_task(self._post(inbound))
            self._in_flight.add(task)
            task.add_done_callback(self._in_flight.discard)

    def stop(self) -> None:
        """The connection ends: nothing more is done on the side."""
        self._tasks = None
        for task in self._in_flight:
            task.cancel()

    async def _post(self, inbound: Inbound) -> None:
        event_id = inbound.event_id.removesuffix("/sealed")
        where = room_path(self._room_of(inbound.source.chat_id), "receipt", "m.read", event_id)
        try:
            await self._client.call("POST", where, MatrixEmptyResponse, body={})
        except SendError as error:
            log.debug("A receipt was not shown: %s", error, extra={"action": "read_receipt_failed"})


# MERGED holdfast.platforms.matrix.listening: Listening: events of a room are looked up, opened where they are sealed, and read.
class EventResolver:
    """Owns which rooms it has complained of. Everything raises a `SendError` where something
    cannot be looked up now."""

    def __init__(
        self,
        encryption: "EncryptionMachine",
        rooms: RoomDirectory,
        history: MatrixHistory,
        parser: MatrixParser,
        *,
        user_id: str,
        chat_of: Callable[[str], str],
    ) -> None:
        self._encryption = encryption
        self._rooms = rooms
        self._history = history
        self._parser = parser
        self._user_id = user_id
        self._chat_of = chat_of
        self._warned_rooms: set[str] = set()

    async def events_since(self, room_id: str, joined: JoinedRoom, since: str) -> Sequence[Json]:
        """What was said in a room since then. Where we have just come in, it begins with the
        invitation: what was said before that was said to others, unless the room goes on with a
        chat that we were in."""
        timeline = joined.timeline
        goes_on = self._chat_of(room_id) != room_id
        entered = [n for n, each in enumerate(timeline.events) if self._is_our_join(each)]
        if entered and goes_on:
            return timeline.events
        if entered:
            invited = [n for n, each in enumerate(timeline.events) if self._is_our_invite(each)]
            return timeline.events[min([*entered, *invited]) :]
        if not timeline.limited or timeline.prev_batch is None:
            return timeline.events
        return [
            *await self._history.events_between(room_id, since, timeline.prev_batch),
            *timeline.events,
        ]

    async def resolve(self, room_id: str, event: Json) -> ReceivedMessage | UndecryptedEvent | None:
        """None: nobody said anything, or we did."""
        if event.get("type") not in MESSAGE_EVENT_TYPES or event.get("sender") == self._user_id:
            return None
        opened = event
        if event.get("type") == ENCRYPTED:
            if (found := await self._encryption.decrypt(room_id, event)) is None:
                return self._handle_undecryptable(room_id, event)
            opened = found
        message = parse_message(opened)
        return None if message is None else await self.resolve_message(room_id, message)

    async def resolve_message(self, room_id: str, message: MatrixMessage) -> ReceivedMessage | None:
        """None: it is a change of what somebody else said, which is nobody's to make."""
        if message.type not in MESSAGE_EVENT_TYPES or message.type == ENCRYPTED:
            return None
        edited = message.content.replaces
        original = await self._history.fetch_event(room_id, edited) if edited else None
        if original is not None and original.sender != message.sender:
            return None
        heard = await self._load_context(room_id, message, original)
        inbound = self._parser.parse(heard)
        return ReceivedMessage(
            inbound=inbound, content=MatrixContent() if edited else heard.current_content
        )

    async def resolve_undecryptable(self, event: UndecryptedEvent) -> ReceivedMessage | None:
        """That something was said, in the place of what."""
        if (message := parse_message(event.event)) is None:
            return None
        heard = await self._load_context(event.room_id, message, None)
        return ReceivedMessage(inbound=self._parser.parse_undecryptable(heard))

    async def _load_context(
        self, room_id: str, message: MatrixMessage, original: MatrixMessage | None
    ) -> MessageContext:
        chat_type = await self._rooms.chat_type(room_id)
        relating = (original or message).content.reply_to
        answered = await self._history.fetch_event(room_id, relating) if relating else None
        name_in = self._encryption.display_name
        return MessageContext(
            message=message,
            room_id=room_id,
            chat_type=chat_type,
            user_name=await name_in(room_id, message.sender),
            our_name=await name_in(room_id, self._user_id),
            original=original,
            reply_target=answered,
            reply_target_name=await name_in(room_id, answered.sender) if answered else None,
        )

    def _handle_undecryptable(self, room_id: str, event: Json) -> UndecryptedEvent | None:
        if self._encryption.can_encrypt:
            return UndecryptedEvent(room_id=room_id, event=event)
        if room_id not in self._warned_rooms:
            self._warned_rooms.add(room_id)
            log.error(
                "The room %s is end-to-end encrypted, and nothing that is said there can be read: "
                "%s, and leave platforms.matrix.encryption on.",
                room_id,
                ENCRYPTION_REMEDY,
                extra={"action": "room_undecryptable"},
            )
        return None

    def _is_our_join(self, event: Json) -> bool:
        """A change of our own name is told in the same way, with what was there before."""
        if not self._is_our_membership(event, "join"):
            return False
        before: Json = event.get("unsigned", {}).get("prev_content", {})
        return before.get("membership") != "join"

    def _is_our_invite(self, event: Json) -> bool:
        return self._is_our_membership(event, "invite")

    def _is_our_membership(self, event: Json, membership: str) -> bool:
        return (
            event.get("type") == MEMBER
            and event.get("state_key") == self._user_id
            and event.get("content", {}).get("membership") == membership
        )


# MERGED holdfast.platforms.matrix.unread: Unread messages: those whose keys have not come. Told after a while, and read once they come.
class UndecryptedMessages:
    """Owns the tasks that wait with each. They are in the record before anything passes them."""

    def __init__(
        self,
        checkpoint: MatrixCheckpoint,
        resolver: EventResolver,
        submitter: MessageSubmitter,
        retry_loop: RetryLoop,
        *,
        notice_delay: float,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._checkpoint = checkpoint
        self._resolver = resolver
        self._submitter = submitter
        self._retry_loop = retry_loop
        self._tasks: asyncio.TaskGroup | None = None  # of the connection
        self._notice_delay = notice_delay
        self._sleep = sleep
        self._notice_tasks: set[asyncio.Task[None]] = set()

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """With what an earlier life has left."""
        self._tasks = tasks
        self._schedule_notices(each for each in self._checkpoint.undecrypted if not each.notified)

    def stop(self) -> None:
        """The connection ends: the next one finds them in the record."""
        self._tasks = None
        for task in self._notice_tasks:
            task.cancel()

    async def add(self, events: Iterable[UndecryptedEvent]) -> None:
        """Durable when this returns. One that came before is not begun anew."""
        known = {each.event_id for each in self._checkpoint.undecrypted}
        fresh = [each for each in events if each.event_id not in known]
        if fresh:
            await self._checkpoint.add_undecrypted(fresh)
            self._schedule_notices(fresh)

    async def retry_all(self) -> None:
        """Keys have come: those that they open are handed over, in their order."""
        for sealed in self._checkpoint.undecrypted:
            found = await self._resolve(sealed)
            if isinstance(found, UndecryptedEvent):
                continue
            if found is not None:
                await self._submitter.submit(found)
            await self._checkpoint.remove_undecrypted(sealed.event_id)

    async def _resolve(self, event: UndecryptedEvent) -> ReceivedMessage | UndecryptedEvent | None:
        try:
            return await self._resolver.resolve(event.room_id, event.event)
        except SendRejected:  # we are no longer there, and could not answer
            return None

    def _schedule_notices(self, events: Iterable[UndecryptedEvent]) -> None:
        if self._tasks is None:
            return
        for each in events:
            task = self._tasks.create_task(self._notify_later(each))
            self._notice_tasks.add(task)
            task.add_done_callback(self._notice_tasks.discard)

    async def _notify_later(self, event: UndecryptedEvent) -> None:
        await self._sleep(self._notice_delay)
        if event not in self._checkpoint.undecrypted:
            return
        log.warning(
            "Event %s in %s cannot be read: its keys have not come.",
            event.event_id,
            event.room_id,
            extra={"action": "event_undecryptable"},
        )
        try:
            await self._retry_loop.run(lambda: self._notify(event))
        except SendError as error:  # the line is gone: the next one tells
            log.info("%s", error, extra={"action": "undecrypted_notice_delayed"})

    async def _notify(self, event: UndecryptedEvent) -> None:
        try:
            said: ReceivedMessage | None = await self._resolver.resolve_undecryptable(event)
        except SendRejected:  # we are no longer there
            said = None
        if said is not None:
            await self._submitter.submit(said)
        if event in self._checkpoint.undecrypted:  # else it was read meanwhile
            await self._checkpoint.add_undecrypted([msgspec.structs.replace(event, notified=True)])


# MERGED holdfast.platforms.matrix.taking: Taking: what one sync brings is handed to intake, and only then is the next one asked for.
ResolvedEvent = ReceivedMessage | UndecryptedEvent


class MatrixReceiver:
    """Keeps nothing. What cannot be kept for the moment is tried again, and what came after it
    waits: no place that is written down lies behind a message that is not."""

    def __init__(
        self,
        resolver: EventResolver,
        submitter: MessageSubmitter,
        undecrypted: UndecryptedMessages,
        invites: InviteHandler,
        upgrades: RoomUpgrades,
        retry_loop: RetryLoop,
        *,
        cursor_name: str,
    ) -> None:
        self._resolver = resolver
        self._submitter = submitter
        self._undecrypted = undecrypted
        self._invites = invites
        self._upgrades = upgrades
        self._retry_loop = retry_loop
        self._cursor_name = cursor_name

    async def handle(self, sync: SyncResponse, *, since: str, position: SyncPosition) -> None:
        """The last message of the batch carries its place: a crash before that one is durable
        brings the whole batch again, and a crash after it none of it. So whatever else is to be
        done about the batch is done before."""
        # An invitation may be into the room that goes on with one that we are in.
        for room_id, joined in sync.rooms.join.items():
            await self._retry_loop.run(partial(self._upgrades.handle_room, room_id, joined))
        await self._answer_invites(sync)
        found: list[ResolvedEvent] = []
        for room_id, joined in sync.rooms.join.items():
            found += await self._resolve_room(room_id, joined, since)
        sealed = [each for each in found if isinstance(each, UndecryptedEvent)]
        said = [each for each in found if isinstance(each, ReceivedMessage)]
        await self._retry_loop.run(lambda: self._undecrypted.add(sealed))
        reached = Cursor(name=self._cursor_name, value=str(position))
        for each in said[:-1]:
            await self._submit(each, None)
        for each in said[-1:]:
            await self._submit(each, reached)

    async def retry_undecrypted(self) -> None:
        """What can be read by the keys that are here."""
        await self._retry_loop.run(self._undecrypted.retry_all)

    async def _answer_invites(self, sync: SyncResponse) -> None:
        for room_id, invited in sync.rooms.invite.items():
            await self._retry_loop.run(partial(self._invites.answer, room_id, invited))

    async def _submit(self, message: ReceivedMessage, cursor: Cursor | None) -> None:
        await self._retry_loop.run(lambda: self._submitter.submit(message, cursor))

    async def _resolve_room(
        self, room_id: str, joined: JoinedRoom, since: str
    ) -> Sequence[ResolvedEvent]:
        try:
            return await self._retry_loop.run(lambda: self._resolve_events(room_id, joined, since))
        except SendRejected as error:
            log.info(
                "What was said in %s is not to be had any more: %s",
                room_id,
                error,
                extra={"action": "room_unavailable"},
            )
            return ()

    async def _resolve_events(
        self, room_id: str, joined: JoinedRoom, since: str
    ) -> Sequence[ResolvedEvent]:
        events = await self._resolver.events_since(room_id, joined, since)
        heard = [await self._resolver.resolve(room_id, event) for event in events]
        return [each for each in heard if each is not None]
