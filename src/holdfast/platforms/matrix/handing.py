"""Handing over: one message to intake, with the files that came with it."""

import logging
from collections import Counter
from collections.abc import Callable

import msgspec

from holdfast.core.errors import NotAddressed, NotAllowed, NotConnected
from holdfast.core.messages.inbox import Cursor, Inbound
from holdfast.core.ports.protocols import Intake
from holdfast.platforms.matrix.api import MatrixClient
from holdfast.platforms.matrix.files import attachments_of
from holdfast.platforms.matrix.wire import MatrixContent

log = logging.getLogger(__name__)

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
