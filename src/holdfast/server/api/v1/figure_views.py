"""The views of figures: what a stretch of a transcript took, and what became of its answers."""

import msgspec

from holdfast.core.messages.outbox import DeliveryKind, DeliveryState
from holdfast.core.turns.stop import TurnExitReason
from holdfast.core.turns.turn import TurnState, Usage


class ReplyStatsView(msgspec.Struct, frozen=True, kw_only=True):
    """What a reply of a model took; `record` is its seq. `cost` null: its model has no price."""

    record: int
    model: str
    began_at: float
    ended_at: float
    usage: Usage
    cost: float | None


class DeliveryOutcomeView(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an answer on its way to its chat. `doubtful`: it may have arrived."""

    id: str
    kind: DeliveryKind
    platform: str
    state: DeliveryState
    outcome_unknown: bool
    attempts: int
    error: str
    updated_at: float


class TurnStatsView(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as a whole, also what of it is not in the stretch. `resumed`: how many later lives of
    the gateway it was open in. `left_as`: how a process has left it that is gone."""

    id: str
    state: TurnState
    started_at: float
    ended_at: float | None
    steps: int
    usage: Usage
    cost: float | None
    resumed: int
    exit_reason: TurnExitReason | None
    deliveries: list[DeliveryOutcomeView]


class TranscriptStatsView(msgspec.Struct, frozen=True, kw_only=True):
    """`turns`: those that wrote in the stretch, the oldest first."""

    replies: list[ReplyStatsView]
    turns: list[TurnStatsView]
