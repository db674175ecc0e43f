"""Wire types of the outbox, the inbox and proactive messages."""

from typing import Annotated

import msgspec

from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.outbox import (
    Address,
    DeliveryBlocker,
    DeliveryKind,
    DeliveryRow,
    DeliveryState,
    DeliveryStatus,
)
from holdfast.core.messages.source import chat_label
from holdfast.core.text.translation import _
from holdfast.core.turns.subagent import platform_label
from holdfast.gateway.notify.chat_addresses import format_chat

LONGEST_TEXT = 100_000  # characters; it is split into as many messages as its platform needs


class SendParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`to`: platform:chat, or platform:chat/thread. `account`: if the platform has several. `file`:
    the id from `POST /outgoing`; the text is its caption. A repeated `key` is sent once."""

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
    """`message_id`: the id of the platform, once it is known."""

    id: str
    to: str
    account: str
    state: DeliveryState
    attempts: int
    error: str
    message_id: str | None
    file: str | None
    created_at: float


def _shown_chat(address: Address) -> str:
    named = chat_label(address.platform, address.chat_id)
    return format_chat(address) if named else platform_label(address.platform)


def delivery_view(row: DeliveryRow) -> DeliveryView:
    return DeliveryView(
        id=row.id,
        to=_shown_chat(row.address),
        account=row.address.account,
        state=row.state,
        attempts=row.attempts,
        error=row.error,
        message_id=row.platform_message_id,
        file=None if row.file is None else row.file.path.rpartition("/")[2],
        created_at=row.created_at,
    )


_MAX_TEXT = 300  # characters of the text that are shown


class DeliveryDetail(DeliveryView, frozen=True, kw_only=True):
    """A delivery with the beginning of its text. `outcome_unknown`: it may have arrived without a
    receipt. `updated_at`: when its state last changed. `blocked_by`: of a pending one, and
    `next_attempt_at`, if that is known. `resend_refusal`: why it cannot be sent again; empty: it
    can. `may_be_duplicate`: it would be marked then, because it may arrive twice."""

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
    """The newest first. `counts`: of all deliveries by state, independent of the filter."""

    deliveries: list[DeliveryDetail]
    more: bool
    counts: dict[DeliveryState, int]


class DeliveryOutlook(msgspec.Struct, frozen=True, kw_only=True):
    """The outlook of a delivery. `resolves_unknown`: its platform can be asked whether a
    delivery without a receipt has arrived."""

    status: DeliveryStatus | None
    resend_refusal: str
    resolves_unknown: bool


class InboxEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An accepted message, with the beginning of its text."""

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
    code = row.kind is DeliveryKind.CODE  # only its recipient may see it
    status = outlook.status
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
        blocked_by=status.blocked_by if status else None,
        next_attempt_at=status.until if status else None,
        resend_refusal=outlook.resend_refusal,
        may_be_duplicate=_outcome_unknown(row)
        and not outlook.resolves_unknown
        and not outlook.resend_refusal,
        remedy=_remedy(row, outlook),
    )


def _outcome_unknown(row: DeliveryRow) -> bool:
    return row.outcome_unknown or row.state is DeliveryState.UNKNOWN


def _remedy(row: DeliveryRow, outlook: DeliveryOutlook) -> str:
    """What to do about it; empty: nothing."""
    if outlook.status is not None:
        blocked = outlook.status.blocked_by is DeliveryBlocker.ACCOUNT
        return (
            _("Its account is not connected: `holdfast platforms list` says why.")
            if blocked
            else ""
        )
    if row.state not in (DeliveryState.FAILED, DeliveryState.UNKNOWN):
        return ""
    if outlook.resend_refusal:
        return _("It cannot be sent again: {reason}").format(reason=outlook.resend_refusal)
    if not _outcome_unknown(row):
        return _("Fix what the platform reports, then send it again.")
    if outlook.resolves_unknown:
        return _("Send it again: the platform recognises a duplicate.")
    return _("Check the chat first. If sent again, it is marked as a possible duplicate.")
