"""Totals: what a process has done since it started, in figures that only grow."""

from collections.abc import Mapping

import msgspec

from holdfast.core.ops.histogram import HistogramSnapshot
from holdfast.core.turns.turn import TurnState, Usage

OTHER_MODELS = "(others)"


class ProcessTotals(msgspec.Struct, frozen=True, kw_only=True):
    """`ends` has every state that a turn can end in, also those that none has."""

    turns_by_state: Mapping[TurnState, int]
    first_token: HistogramSnapshot  # from the beginning of a turn to its first word
    duration: HistogramSnapshot  # from the beginning to the end of turns that were answered
    usage_by_model: Mapping[str, Usage]  # by model
