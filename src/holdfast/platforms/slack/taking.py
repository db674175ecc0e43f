"""Taking: what Slack brings is read, handed to intake, and only then acknowledged."""

import logging
from collections import Counter
from enum import StrEnum

import msgspec

from holdfast.core.deep_json import decode
from holdfast.core.errors import NotAllowed, NotConnected, NotMeant
from holdfast.core.messages.attachment import Attachment
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.source import ChatType
from holdfast.core.ports.protocols import Intake
from holdfast.platforms.slack.api import WebApi
from holdfast.platforms.slack.checkpoint import Record
from holdfast.platforms.slack.files import attached_to
from holdfast.platforms.slack.people import People
from holdfast.platforms.slack.reading import Reader
from holdfast.platforms.slack.wire import Command, EventKind, File, Message, Outer, Press

log = logging.getLogger(__name__)

_NOT_YOURS = "You may not do this here."
_TRIES = 4  # at the files of a message
_MESSAGES = frozenset({"message", "app_mention"})


class Kind(StrEnum):
    """What an envelope holds, by the names that it has on the socket."""

    EVENT = "events_api"
    COMMAND = "slash_commands"
    PRESS = "interactive"


class Taking:
    """Owns how often the files of a message could not be fetched."""

    def __init__(
        self,
        api: WebApi,
        reader: Reader,
        people: People,
        *,
        intake: Intake,
        most: int,
        record: Record,
    ) -> None:
        self._api = api
        self._reader = reader
        self._people = people
        self._intake = intake
        self._most = most  # bytes of one file
        self._record = record
        self._failed: Counter[str] = Counter()

    async def take(self, kind: str, payload: msgspec.Raw | bytes) -> str:
        """It may be acknowledged now: it is durable, or nothing to keep. What is returned is to be
        shown to whoever gave a command, if anything.

        Raises where it can be neither for the moment: `StoreError`, `IntakeClosed`, and a
        `NotConnected` where a file of it cannot be fetched yet. It is to be taken again then.
        """
        try:
            read = self._read(kind, payload)
        except msgspec.MsgspecError as error:
            # Not acknowledged, it would come again.
            log.warning(
                "What Slack brought (%s) makes no sense and is passed over: %s",
                kind,
                error,
                extra={"action": "event_unread"},
            )
            return ""
        if read is None:
            return ""
        inbound, files = read
        if kind != Kind.EVENT:
            refused = await self._hand_over(inbound, files)
            return _NOT_YOURS if refused and kind == Kind.COMMAND else ""
        await self._take_heard(inbound, files)
        await self._record.heard(inbound.message_id)
        return ""

    async def take_said(self, message: Message) -> None:
        """What the history of a chat has, as if it were told now. Raises as `take` does."""
        said = self._reader.said(message)
        if said is not None:
            await self._take_heard(said[1], said[0].files or ())

    async def _take_heard(self, inbound: Inbound, files: tuple[File, ...]) -> None:
        """Where it was said is known durably before it is ours: from then on what follows there is
        looked for after a gap."""
        source = inbound.source
        await self._record.know(source.chat_id, "im" if source.chat_type is ChatType.DM else "")
        thread = None if source.thread_id is None else (source.chat_id, source.thread_id)
        meant = inbound.mentioned or source.chat_type is ChatType.DM
        if thread is not None and meant:
            await self._record.know_thread(thread)
        accepted = not await self._hand_over(inbound, files)
        if thread is not None and accepted and not meant:
            await self._record.know_thread(thread)

    def _read(
        self, kind: str, payload: msgspec.Raw | bytes
    ) -> tuple[Inbound, tuple[File, ...]] | None:
        match kind:
            case Kind.EVENT:
                return self._event(decode(payload, type=Outer).event)
            case Kind.COMMAND:
                command = decode(payload, type=Command)
                return self._reader.commanded(command), ()
            case Kind.PRESS:
                press = self._reader.pressed(decode(payload, type=Press))
                return None if press is None else (press, ())
        return None

    def _event(self, event: msgspec.Raw) -> tuple[Inbound, tuple[File, ...]] | None:
        if decode(event, type=EventKind).type not in _MESSAGES:
            return None
        said = self._reader.said(decode(event, type=Message))
        return None if said is None else (said[1], said[0].files or ())

    async def _hand_over(self, inbound: Inbound, files: tuple[File, ...]) -> bool:
        """Whether it was refused, or is none of ours."""
        name = inbound.event_id
        attached = self._attached(files, name)
        if not inbound.text.strip() and not attached:
            return False
        try:
            await self._intake.accept(await self._named(inbound), attached)
        except NotMeant as error:
            log.debug("%s: %s", name, error, extra={"action": "event_not_meant"})
            return True
        except NotAllowed as error:
            log.info(
                "Event %s of user %s was dropped: %s",
                name,
                inbound.source.user_id,
                error,
                extra={"action": "event_not_allowed"},
            )
            return True
        except NotConnected:
            self._failed[name] += 1
            raise
        self._failed.pop(name, None)
        return False

    def _attached(self, files: tuple[File, ...], name: str) -> tuple[Attachment, ...]:
        if not self._most:
            return ()
        last_try = self._failed.get(name, 0) + 1 >= _TRIES
        return attached_to(files, self._api, most=self._most, last_try=last_try)

    async def _named(self, inbound: Inbound) -> Inbound:
        """With the name of who speaks, where more than one could."""
        source = inbound.source
        if source.chat_type is ChatType.DM or source.user_name or not source.user_id:
            return inbound
        name = await self._people.name_of(source.user_id)
        return msgspec.structs.replace(
            inbound, source=msgspec.structs.replace(source, user_name=name)
        )
