"""Taking: what Slack brings is read, handed to intake, and only then acknowledged."""

import logging
from collections import Counter
from enum import StrEnum

import msgspec

from holdfast.core.deep_json import decode_json
from holdfast.core.errors import NotAddressed, NotAllowed, NotConnected
from holdfast.core.messages.attachment import Attachment
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.source import ChatType
from holdfast.core.ports.protocols import Intake
from holdfast.platforms.slack.api import SlackClient
from holdfast.platforms.slack.checkpoint import SlackCheckpoint
from holdfast.platforms.slack.files import attachments_of
from holdfast.platforms.slack.people import SlackUserNames
from holdfast.platforms.slack.reading import SlackParser
from holdfast.platforms.slack.wire import (
    EventEnvelope,
    EventHeader,
    SlackCommand,
    SlackFile,
    SlackInteraction,
    SlackMessage,
)

log = logging.getLogger(__name__)

_NOT_ALLOWED_TEXT = "You may not do this here."
_MAX_FILE_ATTEMPTS = 4  # at the files of a message
_MESSAGE_EVENT_TYPES = frozenset({"message", "app_mention"})


class EnvelopeType(StrEnum):
    """What an envelope holds, by the names that it has on the socket."""

    EVENT = "events_api"
    COMMAND = "slash_commands"
    INTERACTION = "interactive"


class SlackReceiver:
    """Owns how often the files of a message could not be fetched."""

    def __init__(
        self,
        client: SlackClient,
        parser: SlackParser,
        user_names: SlackUserNames,
        *,
        intake: Intake,
        max_file_bytes: int,
        checkpoint: SlackCheckpoint,
    ) -> None:
        self._client = client
        self._parser = parser
        self._user_names = user_names
        self._intake = intake
        self._max_file_bytes = max_file_bytes  # bytes of one file
        self._checkpoint = checkpoint
        self._file_failures: Counter[str] = Counter()

    async def handle(self, envelope_type: str, payload: msgspec.Raw | bytes) -> str:
        """It may be acknowledged now: it is durable, or nothing to keep. What is returned is to be
        shown to whoever gave a command, if anything.

        Raises where it can be neither for the moment: `StoreError`, `IntakeClosed`, and a
        `NotConnected` where a file of it cannot be fetched yet. It is to be taken again then.
        """
        try:
            read = self._parse(envelope_type, payload)
        except msgspec.MsgspecError as error:
            # Not acknowledged, it would come again.
            log.warning(
                "What Slack brought (%s) makes no sense and is passed over: %s",
                envelope_type,
                error,
                extra={"action": "event_invalid"},
            )
            return ""
        if read is None:
            return ""
        inbound, files = read
        if envelope_type != EnvelopeType.EVENT:
            refused = await self._accept(inbound, files)
            return _NOT_ALLOWED_TEXT if refused and envelope_type == EnvelopeType.COMMAND else ""
        await self._handle_message(inbound, files)
        await self._checkpoint.advance(inbound.message_id)
        return ""

    async def handle_history_message(self, message: SlackMessage) -> None:
        """What the history of a chat has, as if it were told now. Raises as `take` does."""
        said = self._parser.parse_message(message)
        if said is not None:
            await self._handle_message(said[1], said[0].files or ())

    async def _handle_message(self, inbound: Inbound, files: tuple[SlackFile, ...]) -> None:
        """Where it was said is known durably before it is ours: from then on what follows there is
        looked for after a gap."""
        source = inbound.source
        await self._checkpoint.add_chat(
            source.chat_id, "im" if source.chat_type is ChatType.DM else ""
        )
        thread = None if source.thread_id is None else (source.chat_id, source.thread_id)
        meant = inbound.mentioned or source.chat_type is ChatType.DM
        if thread is not None and meant:
            await self._checkpoint.add_thread(thread)
        accepted = not await self._accept(inbound, files)
        if thread is not None and accepted and not meant:
            await self._checkpoint.add_thread(thread)

    def _parse(
        self, envelope_type: str, payload: msgspec.Raw | bytes
    ) -> tuple[Inbound, tuple[SlackFile, ...]] | None:
        match envelope_type:
            case EnvelopeType.EVENT:
                return self._parse_event(decode_json(payload, type=EventEnvelope).event)
            case EnvelopeType.COMMAND:
                command = decode_json(payload, type=SlackCommand)
                return self._parser.parse_command(command), ()
            case EnvelopeType.INTERACTION:
                press = self._parser.parse_interaction(decode_json(payload, type=SlackInteraction))
                return None if press is None else (press, ())
        return None

    def _parse_event(self, event: msgspec.Raw) -> tuple[Inbound, tuple[SlackFile, ...]] | None:
        if decode_json(event, type=EventHeader).type not in _MESSAGE_EVENT_TYPES:
            return None
        said = self._parser.parse_message(decode_json(event, type=SlackMessage))
        return None if said is None else (said[1], said[0].files or ())

    async def _accept(self, inbound: Inbound, files: tuple[SlackFile, ...]) -> bool:
        """Whether it was refused, or is none of ours."""
        name = inbound.event_id
        attached = self._attachments(files, name)
        if not inbound.text.strip() and not attached:
            return False
        try:
            await self._intake.accept(await self._with_user_name(inbound), attached)
        except NotAddressed as error:
            log.debug("%s: %s", name, error, extra={"action": "event_ignored"})
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
            self._file_failures[name] += 1
            raise
        self._file_failures.pop(name, None)
        return False

    def _attachments(self, files: tuple[SlackFile, ...], event_id: str) -> tuple[Attachment, ...]:
        if not self._max_file_bytes:
            return ()
        last_try = self._file_failures.get(event_id, 0) + 1 >= _MAX_FILE_ATTEMPTS
        return attachments_of(
            files, self._client, max_bytes=self._max_file_bytes, last_attempt=last_try
        )

    async def _with_user_name(self, inbound: Inbound) -> Inbound:
        """With the name of who speaks, where more than one could."""
        source = inbound.source
        if source.chat_type is ChatType.DM or source.user_name or not source.user_id:
            return inbound
        name = await self._user_names.get(source.user_id)
        return msgspec.structs.replace(
            inbound, source=msgspec.structs.replace(source, user_name=name)
        )
