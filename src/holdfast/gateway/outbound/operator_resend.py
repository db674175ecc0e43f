"""Resends a delivery that ended without a receipt, when an operator requests it."""

from holdfast.core.errors import HoldfastError
from holdfast.core.messages.outbox import DeliveryKind, DeliveryRow, DeliveryState
from holdfast.core.people.approval import OPERATOR
from holdfast.core.ports.runtime import Clock
from holdfast.core.ports.store import StoreWriter
from holdfast.core.ports.store_commands import RequeueDelivery
from holdfast.core.text.translatable import Translatable
from holdfast.core.text.translation import N_
from holdfast.core.turns.subagent import platform_label
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.outbound.outbox import OutboxWorker

_UNFINISHED_STATES = (DeliveryState.STREAMING, DeliveryState.PENDING, DeliveryState.SENDING)


class NotResent(HoldfastError):
    """The delivery is not sent again; the message says why."""


async def resend_delivery(
    row: DeliveryRow,
    outbox: OutboxWorker,
    *,
    writes: StoreWriter,
    platforms: PlatformRegistry,
    clock: Clock,
) -> DeliveryRow:
    """Queue the delivery again and return its stored row. I2: a delivery that may have arrived is
    sent with its mark, or not at all if the platform reports that it has it. Raises `NotResent`."""
    now = clock.now()
    if (why := resend_refusal(row, outbox, platforms=platforms, now=now)) is not None:
        raise NotResent(why.template, **why.values)
    requeued = await writes.write(
        RequeueDelivery(delivery_id=row.id, scope=row.scope, by=OPERATOR, at=now)
    )
    if requeued is None:
        raise NotResent("another request was faster: the delivery is already queued.")
    return requeued


def resend_refusal(
    row: DeliveryRow, outbox: OutboxWorker, *, platforms: PlatformRegistry, now: float
) -> Translatable | None:
    """Why the delivery cannot be sent again now; None if it can."""
    if row.state is DeliveryState.SENT:
        return Translatable(N_("the delivery has arrived: there is a receipt."))
    if row.state in _UNFINISHED_STATES or outbox.holds(row.id):
        return Translatable(N_("the delivery is already being sent, or queued."))
    if platforms.find(row.address) is None:
        platform = platform_label(row.address.platform)
        return Translatable(
            N_("{platform} has no account {account!r} any more."),
            {"platform": platform, "account": row.address.account},
        )
    return _stale_reason(row, now=now)


def _stale_reason(row: DeliveryRow, *, now: float) -> Translatable | None:
    """Why the content of the delivery is obsolete; None if it is not."""
    if row.kind is DeliveryKind.SHUTDOWN_NOTICE:
        return Translatable(
            N_("it announces the stop of a gateway process that has already stopped.")
        )
    if row.kind is DeliveryKind.CODE:
        return Translatable(
            N_(
                "its pairing code was revoked when the delivery failed; the person gets a new "
                "one with their next message."
            )
        )
    if row.expires_at is not None and row.expires_at < now:
        return Translatable(N_("it has expired."))
    if row.state is DeliveryState.FAILED and row.kind is DeliveryKind.QUESTION:
        return Translatable(N_("its question was closed because it could not be delivered."))
    if row.state is DeliveryState.FAILED and row.file is not None and not row.file.workspace:
        return Translatable(N_("its file is gone: it was uploaded for this delivery only."))
    return None
