"""Taking: one update is read, handed to intake, and only then confirmed by whoever brought it."""

import asyncio
import logging
from collections import Counter

import msgspec

from holdfast.core.deep_json import decode_json
from holdfast.core.errors import NotAddressed, NotAllowed, NotConnected, SendError
from holdfast.core.messages.attachment import Attachment
from holdfast.core.messages.inbox import Inbound
from holdfast.core.ports.protocols import Intake
from holdfast.platforms.telegram.client import TelegramClient
from holdfast.platforms.telegram.files import attachments_of
from holdfast.platforms.telegram.reading import TelegramParser
from holdfast.platforms.telegram.wire import TelegramCallbackQuery, TelegramUpdate, TelegramUpdateId

log = logging.getLogger(__name__)

_NOT_ALLOWED_TEXT = "You may not do this here."
_MAX_FILE_ATTEMPTS = 4  # at the files of an update
_BUTTON_TIMEOUT = 5.0  # seconds: a stop does not wait longer for a button


class TelegramReceiver:
    """Owns the errands that an update leaves behind, in the task group of the connection."""

    def __init__(
        self,
        client: TelegramClient,
        parser: TelegramParser,
        *,
        intake: Intake,
        max_file_bytes: int,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._client = client
        self._parser = parser
        self._intake = intake
        self._max_file_bytes = max_file_bytes  # bytes of one file
        self._tasks = tasks
        self._file_failures: Counter[int] = Counter()  # tries at the files of updates
        self._stopped = False

    async def handle_update(self, raw: msgspec.Raw | bytes, *, with_cursor: bool) -> int:
        """The number of the update, which may be confirmed now: it is durable, or nothing to keep.

        Raises where it can be neither for the moment: `StoreError`, `IntakeClosed`, and a
        `NotConnected` where a file of it cannot be fetched yet. The vendor then gives it again.
        """
        number = decode_json(raw, type=TelegramUpdateId).update_id
        try:
            update = decode_json(raw, type=TelegramUpdate)
        except msgspec.MsgspecError as error:
            # Unconfirmed, it would come back for ever and hold up the rest.
            log.warning(
                "Update %d of Telegram makes no sense and is passed over: %s",
                number,
                error,
                extra={"action": "update_invalid"},
            )
            return number
        inbound = self._parser.to_inbound(update, with_cursor=with_cursor)
        if inbound is not None:
            try:
                await self._accept(update, inbound)
            except NotConnected:
                self._file_failures[number] += 1
                raise
        self._file_failures.pop(number, None)
        return number

    def stop(self) -> None:
        """The connection ends: nothing more is done on the side."""
        self._stopped = True

    async def _accept(self, update: TelegramUpdate, inbound: Inbound) -> None:
        reply = ""
        try:
            attached = self._attachments(update)
            if inbound.text.strip() or attached:  # else somebody joined, or pinned something
                await self._intake.accept(inbound, attached)
        except NotAddressed as error:
            log.debug("%s: %s", inbound.event_id, error, extra={"action": "update_ignored"})
        except NotAllowed as error:
            reply = _NOT_ALLOWED_TEXT
            log.info(
                "Update %s of user %s was dropped: %s",
                inbound.event_id,
                inbound.source.user_id,
                error,
                extra={"action": "update_not_allowed"},
            )
        if update.callback_query is not None and not self._stopped:
            self._tasks.create_task(self._answer_button(update.callback_query, reply))

    def _attachments(self, update: TelegramUpdate) -> tuple[Attachment, ...]:
        if update.any_message is None or not self._max_file_bytes:
            return ()
        last_try = self._file_failures[update.update_id] + 1 >= _MAX_FILE_ATTEMPTS
        return attachments_of(
            update.any_message, self._client, max_bytes=self._max_file_bytes, last_attempt=last_try
        )

    async def _answer_button(self, query: TelegramCallbackQuery, text: str) -> None:
        """The button stops showing that it waits. After the commit, so that it waits until its
        press is ours; nobody is the worse where this fails."""
        try:
            await self._client.call(
                "answerCallbackQuery",
                bool,
                timeout_seconds=_BUTTON_TIMEOUT,
                callback_query_id=query.id,
                text=text or None,
            )
        except SendError as error:
            log.debug(
                "A button was not answered: %s", error, extra={"action": "button_not_acknowledged"}
            )
