"""The view: what of a sight a person has chosen to see, and how keys change that."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from holdfast.cli.top.keys import Key
from holdfast.core.ops.facts import TurnFacts

_PAGE = 10  # turns


class Page(StrEnum):
    TURNS = "turns"
    DETAILS = "details"  # of the turn that is chosen
    HELP = "help"


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The turn that is chosen is known by its id: the list changes under whoever reads it. Its
    place is kept for when it has ended."""

    page: Page = Page.TURNS
    paused: bool = False
    turn: str = ""
    place: int = 0

    def chosen(self, turns: Sequence[TurnFacts]) -> int:
        """The place of the chosen turn, or of whichever stands there now."""
        for place, turn in enumerate(turns):
            if turn.turn == self.turn:
                return place
        return max(0, min(self.place, len(turns) - 1))


_STEPS = {Key.UP: -1, Key.DOWN: 1, Key.PAGE_UP: -_PAGE, Key.PAGE_DOWN: _PAGE}


def pressed(view: View, key: Key, turns: Sequence[TurnFacts]) -> View:
    if key in _STEPS:
        return _chosen(view, turns, view.chosen(turns) + _STEPS[key])
    match key:
        case Key.FIRST:
            return _chosen(view, turns, 0)
        case Key.LAST:
            return _chosen(view, turns, len(turns))
        case Key.PAUSE:
            return msgspec.structs.replace(view, paused=not view.paused)
        case Key.HELP:
            return _turned(view, Page.HELP)
        case Key.OPEN if turns and view.page is not Page.HELP:
            return _turned(_chosen(view, turns, view.chosen(turns)), Page.DETAILS)
        case Key.BACK | Key.OPEN:
            return msgspec.structs.replace(view, page=Page.TURNS)
    return view


def _chosen(view: View, turns: Sequence[TurnFacts], place: int) -> View:
    place = max(0, min(place, len(turns) - 1))
    turn = turns[place].turn if turns else ""
    return msgspec.structs.replace(view, turn=turn, place=place)


def _turned(view: View, page: Page) -> View:
    """The same key closes what it opened."""
    return msgspec.structs.replace(view, page=Page.TURNS if view.page is page else page)
