"""Figures: what sessions, turns and replies took, as they are read to be shown beside them."""

from collections.abc import Mapping

import msgspec

from holdfast.core.ids import SessionId, TurnId
from holdfast.core.messages.outbox import DeliveryRow
from holdfast.core.turns.timeline import TurnOutline
from holdfast.core.turns.turn import Usage


class SessionPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What a list says of a session besides its row. `usage`: of its turns, of an open one its
    steps so far, and of what was done beside them."""

    session_id: SessionId
    last_text: str  # the last words, or their beginning
    last_role: str  # whose they are: "user", "assistant"; "": nothing was said yet
    usage: Usage


class ReplyStats(msgspec.Struct, frozen=True, kw_only=True):
    """A reply of a model: its record, and what it took. It began when all before it was done, and a
    process was there."""

    record: int
    turn_id: TurnId
    model: str
    began_at: float
    ended_at: float
    usage: Usage


class TranscriptStats(msgspec.Struct, frozen=True, kw_only=True):
    """Of a stretch of a transcript: its replies, and of the turns that wrote in it all."""

    turns: tuple[TurnOutline, ...]  # the oldest first
    replies: tuple[ReplyStats, ...]
    deliveries: tuple[DeliveryRow, ...]
    usage_by_model: Mapping[TurnId, Mapping[str, Usage]]  # of its turns, by model
