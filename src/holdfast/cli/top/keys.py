"""Keys: what a person presses, told from the bytes that a terminal sends for it."""

import re
from enum import Enum, auto


class Key(Enum):
    QUIT = auto()
    UP = auto()
    DOWN = auto()
    PAGE_UP = auto()
    PAGE_DOWN = auto()
    FIRST = auto()
    LAST = auto()
    OPEN = auto()
    BACK = auto()
    PAUSE = auto()
    HELP = auto()
    LOOK = auto()


# One key after the other; a terminal that is in its "application" mode says O instead of [.
_ONE = re.compile(rb"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)
_KEYS = {
    **dict.fromkeys((b"q", b"Q", b"\x03", b"\x04"), Key.QUIT),
    **dict.fromkeys((b"k", b"\x1b[A", b"\x1bOA", b"\x10"), Key.UP),
    **dict.fromkeys((b"j", b"\x1b[B", b"\x1bOB", b"\x0e"), Key.DOWN),
    **dict.fromkeys((b"\x1b[5~", b"\x02"), Key.PAGE_UP),
    **dict.fromkeys((b"\x1b[6~", b"\x06"), Key.PAGE_DOWN),
    **dict.fromkeys((b"g", b"\x1b[H", b"\x1bOH", b"\x1b[1~"), Key.FIRST),
    **dict.fromkeys((b"G", b"\x1b[F", b"\x1bOF", b"\x1b[4~"), Key.LAST),
    **dict.fromkeys((b"\r", b"\n"), Key.OPEN),
    **dict.fromkeys((b"\x1b", b"\x7f", b"\x08"), Key.BACK),
    **dict.fromkeys((b"p", b"P"), Key.PAUSE),
    **dict.fromkeys((b"?", b"h"), Key.HELP),
    **dict.fromkeys((b" ", b"r"), Key.LOOK),
}


def keys(typed: bytes) -> list[Key]:
    """Those that mean something here, in order."""
    return [_KEYS[one] for one in _ONE.findall(typed) if one in _KEYS]
