"""Figures: what sessions, turns and replies took, as they are read to be shown beside them."""

from collections.abc import Mapping

import msgspec

from holdfast.core.ids import SessionId, TurnId
from holdfast.core.messages.outbox import DeliveryRow
from holdfast.core.turns.timeline import TurnOutline
from holdfast.core.turns.turn import Usage


class SessionGist(msgspec.Struct, frozen=True, kw_only=True):
    """What a list says of a session besides its row. `usage`: of its turns, of an open one its
    steps so far, and of what was done beside them."""

    session_id: SessionId
    said: str  # the last words, or their beginning
    by: str  # whose they are: "user", "assistant"; "": nothing was said yet
    usage: Usage


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A reply of a model: its record, and what it took. It began when all before it was done, and a
    process was there."""

    record: int
    turn_id: TurnId
    model: str
    began_at: float
    ended_at: float
    usage: Usage


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Of a stretch of a transcript: its replies, and of the turns that wrote in it all."""

    turns: tuple[TurnOutline, ...]  # the oldest first
    replies: tuple[Reply, ...]
    deliveries: tuple[DeliveryRow, ...]
    used: Mapping[TurnId, Mapping[str, Usage]]  # of its turns, by model
