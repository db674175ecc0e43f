"""Replies: the deliveries that answer a message, addressed to where it came from."""

from holdfast.core.ids import DeliveryId, SessionId, TurnId
from holdfast.core.jobs.job import JOBS_ACCOUNT
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import Address, DeliveryKind, DeliveryState, NewDelivery
from holdfast.core.messages.source import Author, ChatType
from holdfast.core.ports.protocols import IdFactory
from holdfast.core.turns.subagent import INTERNAL_PLATFORM
from holdfast.gateway.accounts.registry import PlatformRegistry


class DeliveryFactory:
    """Makes delivery rows; where committed means fetchable, a row is born sent."""

    def __init__(self, platforms: PlatformRegistry, *, new_id: IdFactory) -> None:
        self._platforms = platforms
        self._new_id = new_id

    def reply(
        self,
        row: InboxRow,
        text: str | None,
        *,
        kind: DeliveryKind = DeliveryKind.REPLY,
        session_id: SessionId | None = None,
        turn_id: TurnId | None = None,
        silent: bool = False,
    ) -> NewDelivery:
        """A delivery to the sender of `row`; `text` None: the final message of the turn.
        `quiet`: nobody is sent it, and whoever looks finds it."""
        run = row.inbound.run
        if run is not None and text is not None and kind is DeliveryKind.REPLY:
            text = f"Job {run.job_id} ({run.name}): {text}"  # nobody there has asked just now
        address = _job_history_address(row) if silent else reply_address(row)
        fetchable = self._platforms.capabilities(address).fetchable
        return NewDelivery(
            id=DeliveryId(self._new_id("dlv")),
            address=address,
            kind=kind,
            text=text,
            session_id=session_id,
            turn_id=turn_id,
            inbox_id=row.id,
            state=DeliveryState.SENT if fetchable else DeliveryState.PENDING,
        )

    def is_fetched(self, row: InboxRow) -> bool:
        """Whether its sender comes for the answer, and gets it in one piece."""
        return self._platforms.capabilities(reply_address(row)).fetchable

    def notice(
        self,
        row: InboxRow,
        text: str,
        *,
        session_id: SessionId | None = None,
        turn_id: TurnId | None = None,
        expires_at: float | None = None,
    ) -> NewDelivery:
        """Something the gateway says beside the answer to `row`, worth saying until then."""
        return NewDelivery(
            id=DeliveryId(self._new_id("dlv")),
            address=reply_address(row),
            kind=DeliveryKind.NOTICE,
            text=text,
            session_id=session_id,
            turn_id=turn_id,
            expires_at=expires_at,
        )


def reply_address(row: InboxRow) -> Address:
    source, run = row.inbound.source, row.inbound.run
    if run is not None and run.address is not None:
        return run.address
    # In a chat of two, everything answers the last message; quoting it would be noise. What the
    # operator says has no message there that could be quoted.
    alone = source.chat_type is ChatType.DM or source.author is Author.OPERATOR
    return Address(
        platform=source.platform,
        account=source.account,
        chat_id=source.chat_id,
        thread_id=source.thread_id,
        reply_to=None if alone else row.inbound.message_id,
    )


def _job_history_address(row: InboxRow) -> Address:
    return Address(platform=INTERNAL_PLATFORM, account=JOBS_ACCOUNT, chat_id=str(row.id))
