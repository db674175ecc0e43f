"""Tells the chat and the agent that a file was not delivered."""

from collections.abc import Awaitable, Callable

from holdfast.core.errors import SendError
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import (
    DeliveryKind,
    FailureReport,
    NewDelivery,
    failure_note,
)
from holdfast.core.ports.runtime import IdFactory
from holdfast.core.ports.store_commands import ReportFailedDelivery
from holdfast.core.text.translation import _, use_catalogue
from holdfast.gateway.chat_languages import ChatLanguages
from holdfast.gateway.outbound.delivery import QueuedDelivery
from holdfast.gateway.redaction import Redaction


class FailureReports:
    """Composes what is said about a delivery that failed; owns nothing. `write` queues the command,
    and gives its note to the cached agents of its sessions at once."""

    def __init__(
        self,
        *,
        write: Callable[[ReportFailedDelivery], Awaitable[None]],
        new_id: IdFactory,
        languages: ChatLanguages,
        redact: Redaction,
    ) -> None:
        self.write = write
        self._new_id = new_id
        self._languages = languages
        self._redact = redact

    def of_file(
        self, delivery: QueuedDelivery, error: str, *, cause: SendError | None
    ) -> FailureReport | None:
        """The report about a file that was not delivered; None for everything else, and for a file
        whose sender is only to look into the outbox. Its chat is told if it was refused (`cause`),
        and not if its account is gone. The agent that sent it may work in another session than that
        of the chat: both are told."""
        if delivery.file is None:
            return None
        notice = None if cause is None else self._notice(delivery, cause)
        sessions = dict.fromkeys((delivery.session_id, delivery.file.workspace))
        session_ids = tuple(each for each in sessions if each is not None)
        if notice is None and not session_ids:
            return None
        address = delivery.address
        what = f'the file "{_file_name(delivery)}", sent to {address.platform}:{address.chat_id},'
        note = failure_note(self._redact(what), self._redact(error), chat_knows=notice is not None)
        return FailureReport(note=note, session_ids=session_ids, notice=notice)

    def _notice(self, delivery: QueuedDelivery, cause: SendError) -> NewDelivery:
        with use_catalogue(self._languages.of_chat(delivery.address)):
            text = _("The file {name} was not delivered: {reason}").format(
                name=_file_name(delivery), reason=cause.for_person()
            )
        return NewDelivery(
            id=DeliveryId(self._new_id("dlv")),
            address=delivery.address,
            kind=DeliveryKind.NOTICE,
            text=self._redact(text),
            session_id=delivery.session_id,
        )


def _file_name(delivery: QueuedDelivery) -> str:
    path = "" if delivery.file is None else delivery.file.path
    return " ".join(path.rpartition("/")[2].split())
