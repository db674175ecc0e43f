"""Counts messages, turns, times and tokens: in the current minute and since the start."""

from collections.abc import Mapping, Sequence

from holdfast.core.messages.inbox import Accepted
from holdfast.core.messages.transcript import AssistantMessage, Message
from holdfast.core.ops.stats import (
    OTHER_MODELS,
    DurationSum,
    Histogram,
    MinuteStats,
    ProcessTotals,
    sum_usage,
)
from holdfast.core.ports.command import Committed
from holdfast.core.turns.turn import NO_USAGE, EndTurn, TurnRowState, Usage

_MAX_MODELS = 50  # counted separately since the start; a vendor may report many names


class Counters:
    """Owns the counts of the current minute and those since the start, which only grow. Each count
    costs a few additions, because it is made for every message."""

    def __init__(self) -> None:
        self._ends: dict[TurnRowState, int] = {
            state: 0 for state in TurnRowState if state is not TurnRowState.OPEN
        }
        self._first_text, self._answer = _Durations(), _Durations()
        self._earlier: dict[str, Usage] = {}  # used before the current minute
        self._reset()

    def on_committed(self, event: Committed) -> None:
        """Count a turn that has ended, or a message that was accepted. Messages of the gateway's
        own subagents and jobs are not counted."""
        if isinstance(event.command, EndTurn):
            self._turn_ended(event.command)
            return
        accepted: Accepted = event.result
        inbound = accepted.row.inbound
        if not accepted.duplicate and inbound.subagent is None and inbound.run is None:
            self._accepted += 1

    def _turn_ended(self, end: EndTurn) -> None:
        figures = end.figures
        self._turns += 1
        self._ends[end.state] += 1
        if end.state is TurnRowState.FAILED:
            self._failed += 1
        if figures is not None and figures.first_text_at is not None:
            self._first_text.add(figures.first_text_at - figures.started_at)
        if end.state is TurnRowState.ANSWERED and figures is not None:
            self._answer.add(end.at - figures.started_at)
        if end.usage != NO_USAGE:
            model = model_of(end.messages) or (figures.model if figures is not None else "")
            known = self._used.get(model)
            self._used[model] = end.usage if known is None else known + end.usage

    def current_minute(self, *, at: int) -> MinuteStats:
        """All counts of the minute that began at `at`."""
        return MinuteStats(
            at=at,
            accepted=self._accepted,
            turns=self._turns,
            failed=self._failed,
            first_token=self._first_text.minute(),
            duration=self._answer.minute(),
            usage_by_model=dict(self._used),
        )

    def totals(self) -> ProcessTotals:
        """All counts since the start."""
        used = sum_usage((self._earlier, _group_other_models(self._used, self._earlier)))
        return ProcessTotals(
            turns_by_state=dict(self._ends),
            first_token=self._first_text.whole.snapshot(),
            duration=self._answer.whole.snapshot(),
            usage_by_model=used,
        )

    def start_minute(self) -> None:
        """Start the next minute. Counts since the start are kept."""
        self._earlier = dict(self.totals().usage_by_model)
        self._reset()

    def _reset(self) -> None:
        self._accepted = self._turns = self._failed = 0
        self._first_text.begin()
        self._answer.begin()
        self._used: dict[str, Usage] = {}


class _Durations:
    """Durations: of the current minute, and since the start."""

    def __init__(self) -> None:
        self.whole = Histogram()
        self.begin()

    def begin(self) -> None:
        self._count, self._total, self._worst = 0, 0.0, 0.0

    def add(self, seconds: float) -> None:
        if seconds < 0.0:
            seconds = 0.0  # a clock that was set back gives no duration
        self.whole.add(seconds)
        self._count += 1
        self._total += seconds
        if seconds > self._worst:
            self._worst = seconds

    def minute(self) -> DurationSum:
        return DurationSum(count=self._count, total=self._total, worst=self._worst)


def model_of(messages: Sequence[Message]) -> str:
    """The model of the last reply. A turn that fell back to another model counts as a whole for
    that one."""
    for message in reversed(messages):
        if isinstance(message, AssistantMessage) and message.model:
            return message.model
    return ""


def _group_other_models(used: Mapping[str, Usage], known: Mapping[str, Usage]) -> dict[str, Usage]:
    """Usage by model, with models beyond the maximum summed up as one."""
    free = _MAX_MODELS - len(known)
    fresh = [model for model in used if model not in known]
    others = set(fresh[max(0, free) :])
    counted = {model: usage for model, usage in used.items() if model not in others}
    if others:
        already = counted.get(OTHER_MODELS, NO_USAGE)
        counted[OTHER_MODELS] = sum((used[model] for model in others), already)
    return counted
