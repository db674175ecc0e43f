"""The views of the two boxes: what is owed to chats, and what was accepted from them."""

import msgspec

from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.outbox import (
    DeliveryKind,
    DeliveryRow,
    DeliveryState,
    Prospect,
    WaitsFor,
)
from holdfast.server.api.views.sending_views import DeliveryView, delivery_view

_SHOWN = 300  # characters of what it says


class OwedView(DeliveryView, frozen=True, kw_only=True):
    """A delivery with what it says, or the beginning of that. `doubtful`: it may have arrived
    without a receipt. `updated_at`: when what is known of it last changed. `waits_for`: of one
    that is owed, and `next_try` then, where that is known. `not_again`: why it cannot be sent
    again; empty: it can. `may_repeat`: it would be marked then, for it may arrive twice."""

    seq: int
    kind: DeliveryKind
    text: str
    session_id: str | None
    turn_id: str | None
    doubtful: bool
    updated_at: float
    expires_at: float | None
    waits_for: WaitsFor | None
    next_try: float | None
    not_again: str
    may_repeat: bool
    remedy: str


class OwedList(msgspec.Struct, frozen=True, kw_only=True):
    """The newest first. `counts`: how many there are of each state, whatever was asked for."""

    deliveries: list[OwedView]
    more: bool
    counts: dict[DeliveryState, int]


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """What is to come of a delivery, by those who know. `settles`: its platform finds out by
    itself whether it has a delivery that nobody has a receipt of."""

    prospect: Prospect | None
    not_again: str
    settles: bool


class InboxLine(msgspec.Struct, frozen=True, kw_only=True):
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

    messages: list[InboxLine]
    more: bool


def owed_view(row: DeliveryRow, outlook: Outlook) -> OwedView:
    code = row.kind is DeliveryKind.CODE  # for its person's eyes alone
    prospect = outlook.prospect
    return OwedView(
        **msgspec.structs.asdict(delivery_view(row)),
        seq=row.seq,
        kind=row.kind,
        text="" if code else row.text[:_SHOWN],
        session_id=row.session_id,
        turn_id=row.turn_id,
        doubtful=row.doubtful,
        updated_at=row.updated_at,
        expires_at=row.expires_at,
        waits_for=prospect.waits_for if prospect else None,
        next_try=prospect.until if prospect else None,
        not_again=outlook.not_again,
        may_repeat=_doubtful(row) and not outlook.settles and not outlook.not_again,
        remedy=_remedy(row, outlook),
    )


def _doubtful(row: DeliveryRow) -> bool:
    return row.doubtful or row.state is DeliveryState.UNKNOWN


def _remedy(row: DeliveryRow, outlook: Outlook) -> str:
    """What to do about it; "": nothing has to be done."""
    if outlook.prospect is not None:
        away = outlook.prospect.waits_for is WaitsFor.ACCOUNT
        return "Its account is not connected: `holdfast platforms list` says why." if away else ""
    if row.state not in (DeliveryState.FAILED, DeliveryState.UNKNOWN):
        return ""
    if outlook.not_again:
        return f"It cannot be sent again: {outlook.not_again}"
    if not _doubtful(row):
        return "Mend what the platform says, then send it again."
    if outlook.settles:
        return "Send it again: the platform finds out whether it has it, and takes it once."
    return "Look whether it is in the chat. Sent again, it says that it may be a repetition."
