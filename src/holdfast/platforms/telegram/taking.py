"""Taking: one update is read, handed to intake, and only then confirmed by whoever brought it."""

import asyncio
import logging
from collections import Counter

import msgspec

from holdfast.core.deep_json import decode
from holdfast.core.errors import NotAllowed, NotConnected, NotMeant, SendError
from holdfast.core.messages.attachment import Attachment
from holdfast.core.messages.inbox import Inbound
from holdfast.core.ports.protocols import Intake
from holdfast.platforms.telegram.client import BotApi
from holdfast.platforms.telegram.files import attached_to
from holdfast.platforms.telegram.reading import Reader
from holdfast.platforms.telegram.wire import CallbackQuery, Numbered, Update

log = logging.getLogger(__name__)

_NOT_YOURS = "You may not do this here."
_TRIES = 4  # at the files of an update
_PATIENCE = 5.0  # seconds: a stop does not wait longer for a button


class Taking:
    """Owns the errands that an update leaves behind, in the task group of the connection."""

    def __init__(
        self,
        api: BotApi,
        reader: Reader,
        *,
        intake: Intake,
        most: int,
        errands: asyncio.TaskGroup,
    ) -> None:
        self._api = api
        self._reader = reader
        self._intake = intake
        self._most = most  # bytes of one file
        self._errands = errands
        self._failed: Counter[int] = Counter()  # tries at the files of updates
        self._left = False

    async def take(self, raw: msgspec.Raw | bytes, *, kept: bool) -> int:
        """The number of the update, which may be confirmed now: it is durable, or nothing to keep.

        Raises where it can be neither for the moment: `StoreError`, `IntakeClosed`, and a
        `NotConnected` where a file of it cannot be fetched yet. The vendor then gives it again.
        """
        number = decode(raw, type=Numbered).update_id
        try:
            update = decode(raw, type=Update)
        except msgspec.MsgspecError as error:
            # Unconfirmed, it would come back for ever and hold up the rest.
            log.warning(
                "Update %d of Telegram makes no sense and is passed over: %s",
                number,
                error,
                extra={"action": "update_unread"},
            )
            return number
        inbound = self._reader.inbound(update, kept=kept)
        if inbound is not None:
            try:
                await self._hand_over(update, inbound)
            except NotConnected:
                self._failed[number] += 1
                raise
        self._failed.pop(number, None)
        return number

    def leave(self) -> None:
        """The connection ends: nothing more is done on the side."""
        self._left = True

    async def _hand_over(self, update: Update, inbound: Inbound) -> None:
        reply = ""
        try:
            attached = self._attached(update)
            if inbound.text.strip() or attached:  # else somebody joined, or pinned something
                await self._intake.accept(inbound, attached)
        except NotMeant as error:
            log.debug("%s: %s", inbound.event_id, error, extra={"action": "update_not_meant"})
        except NotAllowed as error:
            reply = _NOT_YOURS
            log.info(
                "Update %s of user %s was dropped: %s",
                inbound.event_id,
                inbound.source.user_id,
                error,
                extra={"action": "update_not_allowed"},
            )
        if update.callback_query is not None and not self._left:
            self._errands.create_task(self._answer(update.callback_query, reply))

    def _attached(self, update: Update) -> tuple[Attachment, ...]:
        if update.said is None or not self._most:
            return ()
        last_try = self._failed[update.update_id] + 1 >= _TRIES
        return attached_to(update.said, self._api, most=self._most, last_try=last_try)

    async def _answer(self, query: CallbackQuery, text: str) -> None:
        """The button stops showing that it waits. After the commit, so that it waits until its
        press is ours; nobody is the worse where this fails."""
        try:
            await self._api.call(
                "answerCallbackQuery",
                bool,
                limit=_PATIENCE,
                callback_query_id=query.id,
                text=text or None,
            )
        except SendError as error:
            log.debug("A button was not answered: %s", error, extra={"action": "press_unanswered"})
