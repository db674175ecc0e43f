"""The view: what of a sight a person has chosen to see, and how keys change that."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from holdfast.cli.top.keys import TopKey
from holdfast.core.ops.facts import TurnStatus

_PAGE_TURNS = 10  # turns


class TopPage(StrEnum):
    TURNS = "turns"
    DETAILS = "details"  # of the turn that is chosen
    HELP = "help"


class TopView(msgspec.Struct, frozen=True, kw_only=True):
    """The turn that is chosen is known by its id: the list changes under whoever reads it. Its
    place is kept for when it has ended."""

    page: TopPage = TopPage.TURNS
    paused: bool = False
    turn: str = ""
    index: int = 0

    def selected_index(self, turns: Sequence[TurnStatus]) -> int:
        """The place of the chosen turn, or of whichever stands there now."""
        for place, turn in enumerate(turns):
            if turn.turn == self.turn:
                return place
        return max(0, min(self.index, len(turns) - 1))


_KEY_STEPS = {
    TopKey.UP: -1,
    TopKey.DOWN: 1,
    TopKey.PAGE_UP: -_PAGE_TURNS,
    TopKey.PAGE_DOWN: _PAGE_TURNS,
}


def apply_key(view: TopView, key: TopKey, turns: Sequence[TurnStatus]) -> TopView:
    if key in _KEY_STEPS:
        return _select_turn(view, turns, view.selected_index(turns) + _KEY_STEPS[key])
    match key:
        case TopKey.FIRST:
            return _select_turn(view, turns, 0)
        case TopKey.LAST:
            return _select_turn(view, turns, len(turns))
        case TopKey.PAUSE:
            return msgspec.structs.replace(view, paused=not view.paused)
        case TopKey.HELP:
            return _toggle_page(view, TopPage.HELP)
        case TopKey.OPEN if turns and view.page is not TopPage.HELP:
            return _toggle_page(
                _select_turn(view, turns, view.selected_index(turns)), TopPage.DETAILS
            )
        case TopKey.BACK | TopKey.OPEN:
            return msgspec.structs.replace(view, page=TopPage.TURNS)
    return view


def _select_turn(view: TopView, turns: Sequence[TurnStatus], index: int) -> TopView:
    index = max(0, min(index, len(turns) - 1))
    turn = turns[index].turn if turns else ""
    return msgspec.structs.replace(view, turn=turn, index=index)


def _toggle_page(view: TopView, page: TopPage) -> TopView:
    """The same key closes what it opened."""
    return msgspec.structs.replace(view, page=TopPage.TURNS if view.page is page else page)
