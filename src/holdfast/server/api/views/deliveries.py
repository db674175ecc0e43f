"""Wire types of deliveries and of accepted messages: the outbox, the inbox, and messages sent on request."""

from typing import Annotated

import msgspec

from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.outbox import (
    DeliveryBlocker,
    DeliveryKind,
    DeliveryRow,
    DeliveryState,
    DeliveryStatus,
)
from holdfast.gateway.notify.chat_addresses import format_chat

LONGEST_TEXT = 100_000  # characters; it is cut into as many messages as its platform needs


class SendParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`to`: platform:chat, or platform:chat/thread. `account`: where the platform has several.
    `file`: what `POST /outgoing` called it; the text stands under it. The same `key` is sent
    once, however often it is asked for."""

    to: Annotated[str, msgspec.Meta(min_length=1, max_length=600)]
    text: Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT)] = ""
    account: Annotated[str, msgspec.Meta(max_length=100)] = ""
    thread: Annotated[str, msgspec.Meta(max_length=500)] = ""
    file: Annotated[str, msgspec.Meta(max_length=100)] = ""
    key: Annotated[str, msgspec.Meta(max_length=100, pattern="^[A-Za-z0-9_-]*$")] = ""


class OutgoingFileView(msgspec.Struct, frozen=True, kw_only=True):
    file: str
    name: str
    size: int


class DeliveryView(msgspec.Struct, frozen=True, kw_only=True):
    """`message_id`: the platform's own, once it has said it."""

    id: str
    to: str
    account: str
    state: DeliveryState
    attempts: int
    error: str
    message_id: str | None
    file: str | None
    created_at: float


def delivery_view(row: DeliveryRow) -> DeliveryView:
    return DeliveryView(
        id=row.id,
        to=format_chat(row.address),
        account=row.address.account,
        state=row.state,
        attempts=row.attempts,
        error=row.error,
        message_id=row.platform_message_id,
        file=None if row.file is None else row.file.path.rpartition("/")[2],
        created_at=row.created_at,
    )


_MAX_TEXT = 300  # characters of what it says


class DeliveryDetail(DeliveryView, frozen=True, kw_only=True):
    """A delivery with what it says, or the beginning of that. `doubtful`: it may have arrived
    without a receipt. `updated_at`: when what is known of it last changed. `waits_for`: of one
    that is owed, and `next_try` then, where that is known. `not_again`: why it cannot be sent
    again; empty: it can. `may_repeat`: it would be marked then, for it may arrive twice."""

    seq: int
    kind: DeliveryKind
    text: str
    session_id: str | None
    turn_id: str | None
    outcome_unknown: bool
    updated_at: float
    expires_at: float | None
    blocked_by: DeliveryBlocker | None
    next_attempt_at: float | None
    resend_refusal: str
    may_be_duplicate: bool
    remedy: str


class DeliveryList(msgspec.Struct, frozen=True, kw_only=True):
    """The newest first. `counts`: how many there are of each state, whatever was asked for."""

    deliveries: list[DeliveryDetail]
    more: bool
    counts: dict[DeliveryState, int]


class DeliveryOutlook(msgspec.Struct, frozen=True, kw_only=True):
    """What is to come of a delivery, by those who know. `settles`: its platform finds out by
    itself whether it has a delivery that nobody has a receipt of."""

    status: DeliveryStatus | None
    resend_refusal: str
    resolves_unknown: bool


class InboxEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was accepted, with the beginning of its words."""

    id: int
    platform: str
    account: str
    principal: str
    state: InboxState
    session_id: str | None
    turn_id: str | None
    reason: str
    text: str
    accepted_at: float
    ended_at: float | None


class InboxList(msgspec.Struct, frozen=True, kw_only=True):
    """The newest first."""

    messages: list[InboxEntry]
    more: bool


def delivery_detail_view(row: DeliveryRow, outlook: DeliveryOutlook) -> DeliveryDetail:
    code = row.kind is DeliveryKind.CODE  # for its person's eyes alone
    prospect = outlook.status
    return DeliveryDetail(
        **msgspec.structs.asdict(delivery_view(row)),
        seq=row.seq,
        kind=row.kind,
        text="" if code else row.text[:_MAX_TEXT],
        session_id=row.session_id,
        turn_id=row.turn_id,
        outcome_unknown=row.outcome_unknown,
        updated_at=row.updated_at,
        expires_at=row.expires_at,
        blocked_by=prospect.blocked_by if prospect else None,
        next_attempt_at=prospect.until if prospect else None,
        resend_refusal=outlook.resend_refusal,
        may_be_duplicate=_outcome_unknown(row)
        and not outlook.resolves_unknown
        and not outlook.resend_refusal,
        remedy=_remedy(row, outlook),
    )


def _outcome_unknown(row: DeliveryRow) -> bool:
    return row.outcome_unknown or row.state is DeliveryState.UNKNOWN


def _remedy(row: DeliveryRow, outlook: DeliveryOutlook) -> str:
    """What to do about it; "": nothing has to be done."""
    if outlook.status is not None:
        away = outlook.status.blocked_by is DeliveryBlocker.ACCOUNT
        return "Its account is not connected: `holdfast platforms list` says why." if away else ""
    if row.state not in (DeliveryState.FAILED, DeliveryState.UNKNOWN):
        return ""
    if outlook.resend_refusal:
        return f"It cannot be sent again: {outlook.resend_refusal}"
    if not _outcome_unknown(row):
        return "Mend what the platform says, then send it again."
    if outlook.resolves_unknown:
        return "Send it again: the platform finds out whether it has it, and takes it once."
    return "Look whether it is in the chat. Sent again, it says that it may be a repetition."
