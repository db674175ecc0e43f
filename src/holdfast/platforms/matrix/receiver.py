"""Receives the messages of one sync batch: fetches missing events, decrypts, parses, and passes
messages to intake.

The last message of a batch carries the sync position, and the next batch is requested only once
this one is durable.
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
    JoinedRoom,
    Json,
    MatrixContent,
    MatrixEmptyResponse,
    MatrixHistoryPage,
    MatrixMessage,
    MatrixParser,
    MessageContext,
    SyncResponse,
    is_membership,
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

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]

MESSAGE_EVENT_TYPES = ("m.room.message", "m.room.encrypted", "m.sticker")
_MAX_GAP_EVENTS = 5000  # events fetched for one gap
_MAX_FILE_ATTEMPTS = 4  # for the file of one message


class RetryLoop:
    """Repeats what fails temporarily, as long as the connection holds. Has no state."""

    def __init__(self, client: MatrixClient, *, sleep: Sleep = asyncio.sleep) -> None:
        self._client = client
        self._sleep = sleep

    async def run(self, job: Callable[[], Awaitable[T]]) -> T:
        """Runs the job until it succeeds. Raises `NotConnected` if the connection itself is lost:
        it is checked between attempts, because no other request would show that meanwhile."""
        delays = backoff_delays()
        while True:
            try:
                return await job()
            except MatrixBadToken:
                raise
            except Throttled as error:
                await self._sleep(error.retry_after)
            except (StoreError, IntakeClosed, NotConnected) as error:
                delay = next(delays)
                log.warning(
                    "Could not accept messages from Matrix: %s; retrying in %.1f s",
                    error,
                    delay,
                    extra={"action": "receiver_retrying"},
                )
                await self._sleep(delay)
                await self._check_connection()

    async def _check_connection(self) -> None:
        try:
            await self._client.whoami()
        except Throttled:
            return  # a response, too: we are connected


class MatrixHistory:
    """Fetches events that a sync has omitted, and single events that others refer to. Has no state.
    Raises a `SendError` if there is no response now."""

    def __init__(
        self, client: MatrixClient, encryption: "EncryptionMachine", *, page_size: int
    ) -> None:
        self._client = client
        self._page_size = str(page_size)
        self._encryption = encryption

    async def events_between(self, room_id: str, since: str, until: str) -> list[Json]:
        """The message events of a room between two sync tokens, oldest first.

        https://spec.matrix.org/latest/client-server-api/#get_matrixclientv3roomsroomidmessages
        """
        found: list[Json] = []
        position: str | None = until
        while position is not None and len(found) < _MAX_GAP_EVENTS:
            page = await self._fetch_page(room_id, position, since)
            found += page.chunk
            position = page.end if page.chunk else None
        if position is not None:
            log.warning(
                "More than %d missed messages in %s; the older ones are skipped",
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
                "Could not fetch missed messages of %s, which are skipped: %s",
                room_id,
                error,
                extra={"action": "history_refused"},
            )
            return MatrixHistoryPage()

    async def fetch_event(self, room_id: str, event_id: str) -> MatrixMessage | None:
        """None if the event is not available, or cannot be decrypted or parsed."""
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
    """None if the event is invalid. It is skipped: retrying would block all later ones."""
    try:
        return msgspec.convert(event, MatrixMessage)
    except msgspec.ValidationError as error:
        log.warning(
            "Skipping an invalid Matrix event: %s",
            error,
            extra={"action": "event_invalid"},
        )
        return None


def attachments_of(
    content: MatrixContent, client: MatrixClient, *, max_bytes: int, last_attempt: bool
) -> tuple[Attachment, ...]:
    """The file of a message, not fetched yet. At the last attempt, a file that cannot be fetched is
    unavailable: all later messages wait behind this one."""
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
                raise AttachmentUnavailable("could not be fetched: {error}", error=error) from error
            raise

    return fetch


async def _fetch_file(content: MatrixContent, client: MatrixClient, *, max_bytes: int) -> bytes:
    if content.file is None:
        return await client.download(content.url, max_bytes=max_bytes)
    from holdfast.platforms.matrix.encryption import decrypt_file  # noqa: PLC0415 - an extra

    data = await client.download(content.file.url, max_bytes=max_bytes)
    return await asyncio.to_thread(decrypt_file, content.file, data)


class ReceivedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is ready for intake, with the content that may refer to a file."""

    inbound: Inbound
    content: MatrixContent = MatrixContent()


class MessageSubmitter:
    """Passes messages to intake, with their files. Owns how often the file of each message could
    not be fetched. `on_accepted` is called for each message that intake has accepted."""

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
        """When this returns, the message is durable, or needs no storing. Raises what intake raises
        if it must be submitted again later, and `NotConnected` if its file cannot be fetched
        yet."""
        event_id = message.inbound.event_id
        last_attempt = self._file_failures[event_id] + 1 >= _MAX_FILE_ATTEMPTS
        attachments = attachments_of(
            message.content, self._client, max_bytes=self._max_file_bytes, last_attempt=last_attempt
        )
        if not message.inbound.text.strip() and not attachments:
            return
        inbound = msgspec.structs.replace(message.inbound, cursor=cursor)
        try:
            await self._intake.accept(inbound, attachments)
            self._on_accepted(inbound)
        except NotAddressed as error:
            log.debug(
                "Ignored Matrix message %s: %s",
                event_id,
                error,
                extra={"action": "message_ignored"},
            )
        except NotAllowed as error:
            log.info(
                "Dropped Matrix message %s of %s: %s",
                event_id,
                inbound.source.user_id,
                error,
                extra={"action": "message_not_allowed"},
            )
        except NotConnected:
            self._file_failures[event_id] += 1
            raise
        self._file_failures.pop(event_id, None)


class ReadReceipts:
    """Sends read receipts for accepted messages. Owns the tasks that do so; a failure is only
    logged."""

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
        """Cancels the tasks: the connection ends."""
        self._tasks = None
        for task in self._in_flight:
            task.cancel()

    async def _post(self, inbound: Inbound) -> None:
        event_id = inbound.event_id.removesuffix("/sealed")
        path = room_path(self._room_of(inbound.source.chat_id), "receipt", "m.read", event_id)
        try:
            await self._client.call("POST", path, MatrixEmptyResponse, body={})
        except SendError as error:
            log.debug(
                "Could not send a read receipt: %s", error, extra={"action": "read_receipt_failed"}
            )


class EventResolver:
    """Turns events of a room into messages: fetches related events, decrypts, and parses. Owns
    which rooms it has warned about. Every method raises a `SendError` if a lookup fails for now."""

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
        """The events of a room since the token. If we have just joined, they begin with our
        invitation: earlier messages were not addressed to us, unless the room continues a chat that
        we were in."""
        timeline = joined.timeline
        continues_chat = self._chat_of(room_id) != room_id
        joins = [n for n, event in enumerate(timeline.events) if self._is_our_join(event)]
        if joins and continues_chat:
            return timeline.events
        if joins:
            invites = [
                n
                for n, event in enumerate(timeline.events)
                if is_membership(event, self._user_id, "invite")
            ]
            return timeline.events[min([*joins, *invites]) :]
        if not timeline.limited or timeline.prev_batch is None:
            return timeline.events
        return [
            *await self._history.events_between(room_id, since, timeline.prev_batch),
            *timeline.events,
        ]

    async def resolve(self, room_id: str, event: Json) -> ReceivedMessage | UndecryptedEvent | None:
        """None if the event is not a message, or is our own."""
        if event.get("type") not in MESSAGE_EVENT_TYPES or event.get("sender") == self._user_id:
            return None
        plain_event = event
        if event.get("type") == ENCRYPTED:
            if (decrypted := await self._encryption.decrypt(room_id, event)) is None:
                return self._handle_undecryptable(room_id, event)
            plain_event = decrypted
        message = parse_message(plain_event)
        return None if message is None else await self.resolve_message(room_id, message)

    async def resolve_message(self, room_id: str, message: MatrixMessage) -> ReceivedMessage | None:
        """None if it is an edit of another user's message, which is not allowed."""
        if message.type not in MESSAGE_EVENT_TYPES or message.type == ENCRYPTED:
            return None
        edited = message.content.replaces
        original = await self._history.fetch_event(room_id, edited) if edited else None
        if original is not None and original.sender != message.sender:
            return None
        context = await self._load_context(room_id, message, original)
        return ReceivedMessage(
            inbound=self._parser.parse(context),
            content=MatrixContent() if edited else context.current_content,
        )

    async def resolve_undecryptable(self, event: UndecryptedEvent) -> ReceivedMessage | None:
        """A placeholder message that says that a message could not be decrypted."""
        if (message := parse_message(event.event)) is None:
            return None
        context = await self._load_context(event.room_id, message, None)
        return ReceivedMessage(inbound=self._parser.parse_undecryptable(context))

    async def _load_context(
        self, room_id: str, message: MatrixMessage, original: MatrixMessage | None
    ) -> MessageContext:
        chat_type = await self._rooms.chat_type(room_id)
        target_id = (original or message).content.reply_to
        target = await self._history.fetch_event(room_id, target_id) if target_id else None
        display_name = self._encryption.display_name
        return MessageContext(
            message=message,
            room_id=room_id,
            chat_type=chat_type,
            user_name=await display_name(room_id, message.sender),
            our_name=await display_name(room_id, self._user_id),
            original=original,
            reply_target=target,
            reply_target_name=await display_name(room_id, target.sender) if target else None,
        )

    def _handle_undecryptable(self, room_id: str, event: Json) -> UndecryptedEvent | None:
        if self._encryption.can_encrypt:
            return UndecryptedEvent(room_id=room_id, event=event)
        if room_id not in self._warned_rooms:
            self._warned_rooms.add(room_id)
            log.error(
                "Room %s is end-to-end encrypted, and its messages cannot be read. Remedy: %s",
                room_id,
                ENCRYPTION_REMEDY,
                extra={"action": "room_undecryptable"},
            )
        return None

    def _is_our_join(self, event: Json) -> bool:
        """A change of our display name is a join event, too, but with a previous join."""
        if not is_membership(event, self._user_id, "join"):
            return False
        previous: Json = event.get("unsigned", {}).get("prev_content", {})
        return previous.get("membership") != "join"


class UndecryptedMessages:
    """Messages whose keys have not arrived. After a delay, a placeholder is submitted; once the
    keys arrive, the message itself. Owns the tasks that wait. The events are in the checkpoint
    before the sync position passes them."""

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
        """Also schedules notices for events that an earlier connection has left."""
        self._tasks = tasks
        self._schedule_notices(each for each in self._checkpoint.undecrypted if not each.notified)

    def stop(self) -> None:
        """Cancels the tasks: the connection ends. The next one finds the events in the
        checkpoint."""
        self._tasks = None
        for task in self._notice_tasks:
            task.cancel()

    async def add(self, events: Iterable[UndecryptedEvent]) -> None:
        """Durable when this returns. Known events are ignored."""
        known = {event.event_id for event in self._checkpoint.undecrypted}
        new = [event for event in events if event.event_id not in known]
        if new:
            await self._checkpoint.add_undecrypted(new)
            self._schedule_notices(new)

    async def retry_all(self) -> None:
        """Keys have arrived: submits the messages that can be decrypted now, in their order."""
        for event in self._checkpoint.undecrypted:
            resolved = await self._resolve(event)
            if isinstance(resolved, UndecryptedEvent):
                continue
            if resolved is not None:
                await self._submitter.submit(resolved)
            await self._checkpoint.remove_undecrypted(event.event_id)

    async def _resolve(self, event: UndecryptedEvent) -> ReceivedMessage | UndecryptedEvent | None:
        try:
            return await self._resolver.resolve(event.room_id, event.event)
        except SendRejected:  # we have left the room, and could not reply
            return None

    def _schedule_notices(self, events: Iterable[UndecryptedEvent]) -> None:
        if self._tasks is None:
            return
        for event in events:
            task = self._tasks.create_task(self._notify_later(event))
            self._notice_tasks.add(task)
            task.add_done_callback(self._notice_tasks.discard)

    async def _notify_later(self, event: UndecryptedEvent) -> None:
        await self._sleep(self._notice_delay)
        if event not in self._checkpoint.undecrypted:
            return
        log.warning(
            "Event %s in %s cannot be decrypted yet: its keys have not arrived; its sender "
            "is notified",
            event.event_id,
            event.room_id,
            extra={"action": "event_undecryptable"},
        )
        try:
            await self._retry_loop.run(lambda: self._notify(event))
        except SendError as error:  # disconnected: the next connection notifies
            log.info(
                "Could not notify the sender of an undecrypted event: %s; retrying on the "
                "next connection",
                error,
                extra={"action": "undecrypted_notice_delayed"},
            )

    async def _notify(self, event: UndecryptedEvent) -> None:
        try:
            notice: ReceivedMessage | None = await self._resolver.resolve_undecryptable(event)
        except SendRejected:  # we have left the room
            notice = None
        if notice is not None:
            await self._submitter.submit(notice)
        if event in self._checkpoint.undecrypted:  # else it was decrypted meanwhile
            await self._checkpoint.add_undecrypted([msgspec.structs.replace(event, notified=True)])


ResolvedEvent = ReceivedMessage | UndecryptedEvent


class MatrixReceiver:
    """Handles one sync batch. Has no state. A message that cannot be stored for now is retried, and
    later ones wait: no saved position is ever ahead of a message that is not durable."""

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
        """The last message of the batch carries its position: after a crash before that message is
        durable, the whole batch is received again; after a later crash, none of it. Everything else
        about the batch is therefore done first."""
        # Upgrades before invitations: an invitation may be to the successor of one of our rooms.
        for room_id, joined in sync.rooms.join.items():
            await self._retry_loop.run(partial(self._upgrades.handle_room, room_id, joined))
        await self._answer_invites(sync)
        resolved: list[ResolvedEvent] = []
        for room_id, joined in sync.rooms.join.items():
            resolved += await self._resolve_room(room_id, joined, since)
        undecrypted = [each for each in resolved if isinstance(each, UndecryptedEvent)]
        messages = [each for each in resolved if isinstance(each, ReceivedMessage)]
        await self._retry_loop.run(lambda: self._undecrypted.add(undecrypted))
        cursor = Cursor(name=self._cursor_name, value=str(position))
        for message in messages[:-1]:
            await self._submit(message, None)
        for message in messages[-1:]:
            await self._submit(message, cursor)

    async def retry_undecrypted(self) -> None:
        """Submits the messages that can be decrypted with the keys we have now."""
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
                "Messages of room %s are no longer available: %s",
                room_id,
                error,
                extra={"action": "room_unavailable"},
            )
            return ()

    async def _resolve_events(
        self, room_id: str, joined: JoinedRoom, since: str
    ) -> Sequence[ResolvedEvent]:
        events = await self._resolver.events_since(room_id, joined, since)
        resolved = [await self._resolver.resolve(room_id, event) for event in events]
        return [each for each in resolved if each is not None]
