"""Handing over: one message to intake, with the files that came with it."""

import logging
from collections import Counter
from collections.abc import Callable

import msgspec

from holdfast.core.errors import NotAllowed, NotConnected, NotMeant
from holdfast.core.messages.inbox import Cursor, Inbound
from holdfast.core.ports.protocols import Intake
from holdfast.platforms.matrix.api import ClientApi
from holdfast.platforms.matrix.files import attached_to
from holdfast.platforms.matrix.wire import Content

log = logging.getLogger(__name__)

_TRIES = 4  # at the file of a message


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is ready to be handed over, with the content that a file may hang on."""

    inbound: Inbound
    content: Content = Content()


class Handing:
    """Owns how often the file of a message was tried. `taken` is told of what intake keeps."""

    def __init__(
        self, api: ClientApi, intake: Intake, *, most: int, taken: Callable[[Inbound], None]
    ) -> None:
        self._api = api
        self._intake = intake
        self._taken = taken
        self._most = most  # bytes of one file
        self._failed: Counter[str] = Counter()

    async def over(self, said: Said, cursor: Cursor | None = None) -> None:
        """Durable when this returns, or nothing to keep. Raises what intake raises where it can be
        neither for the moment, and `NotConnected` where its file cannot be fetched yet."""
        event_id = said.inbound.event_id
        last_try = self._failed[event_id] + 1 >= _TRIES
        attached = attached_to(said.content, self._api, most=self._most, last_try=last_try)
        if not said.inbound.text.strip() and not attached:
            return
        inbound = msgspec.structs.replace(said.inbound, cursor=cursor)
        try:
            await self._intake.accept(inbound, attached)
            self._taken(inbound)
        except NotMeant as error:
            log.debug("%s: %s", event_id, error, extra={"action": "message_not_meant"})
        except NotAllowed as error:
            log.info(
                "Message %s of %s was dropped: %s",
                event_id,
                inbound.source.user_id,
                error,
                extra={"action": "message_not_allowed"},
            )
        except NotConnected:
            self._failed[event_id] += 1
            raise
        self._failed.pop(event_id, None)
