"""Sends a delivery again that ended without a receipt, when an operator asks for it."""

from holdfast.core.errors import HoldfastError
from holdfast.core.messages.outbox import DeliveryKind, DeliveryRow, DeliveryState
from holdfast.core.people.approval import OPERATOR
from holdfast.core.ports.runtime import Clock
from holdfast.core.ports.store import StoreWriter
from holdfast.core.ports.store_commands import RequeueDelivery
from holdfast.core.turns.subagent import platform_label
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.outbound.outbox import OutboxWorker

_UNFINISHED_STATES = (DeliveryState.STREAMING, DeliveryState.PENDING, DeliveryState.SENDING)


class NotResent(HoldfastError):
    """The delivery is not sent again; the message says why."""


class OperatorResend:
    """Checks and repeats deliveries on behalf of an operator. Owns nothing."""

    def __init__(
        self,
        outbox: OutboxWorker,
        *,
        writes: StoreWriter,
        platforms: PlatformRegistry,
        clock: Clock,
    ) -> None:
        self._outbox = outbox
        self._writes = writes
        self._platforms = platforms
        self._clock = clock

    async def resend(self, row: DeliveryRow) -> DeliveryRow:
        """The row as it is owed now, durably. I2: one that may have arrived is sent with its mark,
        or not at all where the platform finds that it has it. Raises `NotResent`."""
        if (why := self.refusal(row)) is not None:
            raise NotResent(why)
        requeued = await self._writes.write(
            RequeueDelivery(delivery_id=row.id, scope=row.scope, by=OPERATOR, at=self._clock.now())
        )
        if requeued is None:
            raise NotResent("somebody was quicker: it is on its way.")
        return requeued

    def refusal(self, row: DeliveryRow) -> str | None:
        """Why it would not be sent again now; None: it would be."""
        if row.state is DeliveryState.SENT:
            return "it has arrived: there is a receipt."
        if row.state in _UNFINISHED_STATES or self._outbox.holds(row.id):
            return "it is on its way already."
        if self._platforms.find(row.address) is None:
            platform = platform_label(row.address.platform)
            return f"there is no account {row.address.account!r} of {platform} any more."
        return _stale_reason(row, now=self._clock.now())


def _stale_reason(row: DeliveryRow, *, now: float) -> str | None:
    """Why what it says is worth nothing any more."""
    if row.kind is DeliveryKind.SHUTDOWN_NOTICE:
        return "it tells that a process of the gateway goes which has gone since."
    if row.kind is DeliveryKind.CODE:
        return "its code was forgotten when it ended; whoever asks again gets another."
    if row.expires_at is not None and row.expires_at < now:
        return "the time is over until which it was worth saying."
    if row.state is DeliveryState.FAILED and row.kind is DeliveryKind.QUESTION:
        return "what it asks was ended when nobody could be asked."
    if row.state is DeliveryState.FAILED and row.file is not None and not row.file.workspace:
        return "its file is gone, which was handed in for this one delivery."
    return None
