"""Recent: by which names a room knows what was said there lately."""

from collections import OrderedDict

import msgspec

_MOST = 500  # messages


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    sender: str
    name: str  # by which an answer refers to it


class Recent:
    """Owns the last few hundred. An answer to an older message is one without a reference."""

    def __init__(self) -> None:
        self._heard: OrderedDict[tuple[str, str], Heard] = OrderedDict()

    def add(self, room: str, message_id: str, heard: Heard) -> None:
        self._heard[room, message_id] = heard
        if len(self._heard) > _MOST:
            self._heard.popitem(last=False)

    def of(self, room: str, message_id: str) -> Heard | None:
        return self._heard.get((room, message_id))
