"""Totals: what a process has done since it started, in figures that only grow."""

from collections.abc import Mapping

import msgspec

from holdfast.core.ops.histogram import Durations
from holdfast.core.turns.turn import TurnState, Usage

OTHER_MODELS = "(others)"


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """`ends` has every state that a turn can end in, also those that none has."""

    ends: Mapping[TurnState, int]
    first: Durations  # from the beginning of a turn to its first word
    whole: Durations  # from the beginning to the end of turns that were answered
    used: Mapping[str, Usage]  # by model
