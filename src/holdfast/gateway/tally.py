"""The tally: what happened since it was last cleared, counted as it happens."""

from holdfast.core.message import AssistantMessage
from holdfast.core.minute import NONE, Minute, Spread
from holdfast.core.turn import NO_USAGE, EndTurn, TurnState, Usage


class Tally:
    """Owns the counts of the present minute. Each count is a few additions: it is on the way of
    every message."""

    def __init__(self) -> None:
        self.clear()

    def accepted(self) -> None:
        self._accepted += 1

    def ended(self, end: EndTurn, *, started_at: float, first_at: float | None) -> None:
        """A turn has ended, and that is durable. `first_at`: when its first word was there."""
        self._turns += 1
        if end.state is TurnState.FAILED:
            self._failed += 1
        if first_at is not None:
            self._first += _one(first_at - started_at)
        if end.state is TurnState.ANSWERED:
            self._whole += _one(end.at - started_at)
        if end.usage is not NO_USAGE:
            model = _model_of(end)
            self._used[model] = self._used.get(model, NO_USAGE) + end.usage

    def now(self, *, at: int) -> Minute:
        """All that was counted, as of the minute that began then."""
        return Minute(
            at=at,
            accepted=self._accepted,
            turns=self._turns,
            failed=self._failed,
            first=self._first,
            whole=self._whole,
            used=dict(self._used),
        )

    def clear(self) -> None:
        self._accepted = self._turns = self._failed = 0
        self._first = self._whole = NONE
        self._used: dict[str, Usage] = {}


def _one(seconds: float) -> Spread:
    seconds = max(0.0, seconds)  # a clock that was set back says nothing
    return Spread(count=1, total=seconds, worst=seconds)


def _model_of(end: EndTurn) -> str:
    """By whom it was answered last: one that fell back to another is counted there whole."""
    for message in reversed(end.messages):
        if isinstance(message, AssistantMessage):
            return message.model
    return ""
