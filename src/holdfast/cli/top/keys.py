"""Keys: what a person presses, told from the bytes that a terminal sends for it."""

import re
from enum import Enum, auto


class TopKey(Enum):
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
    REFRESH = auto()


# One key after the other; a terminal that is in its "application" mode says O instead of [.
_KEY_SEQUENCE = re.compile(rb"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)
_KEYS = {
    **dict.fromkeys((b"q", b"Q", b"\x03", b"\x04"), TopKey.QUIT),
    **dict.fromkeys((b"k", b"\x1b[A", b"\x1bOA", b"\x10"), TopKey.UP),
    **dict.fromkeys((b"j", b"\x1b[B", b"\x1bOB", b"\x0e"), TopKey.DOWN),
    **dict.fromkeys((b"\x1b[5~", b"\x02"), TopKey.PAGE_UP),
    **dict.fromkeys((b"\x1b[6~", b"\x06"), TopKey.PAGE_DOWN),
    **dict.fromkeys((b"g", b"\x1b[H", b"\x1bOH", b"\x1b[1~"), TopKey.FIRST),
    **dict.fromkeys((b"G", b"\x1b[F", b"\x1bOF", b"\x1b[4~"), TopKey.LAST),
    **dict.fromkeys((b"\r", b"\n"), TopKey.OPEN),
    **dict.fromkeys((b"\x1b", b"\x7f", b"\x08"), TopKey.BACK),
    **dict.fromkeys((b"p", b"P"), TopKey.PAUSE),
    **dict.fromkeys((b"?", b"h"), TopKey.HELP),
    **dict.fromkeys((b" ", b"r"), TopKey.REFRESH),
}


def parse_keys(typed: bytes) -> list[TopKey]:
    """Those that mean something here, in order."""
    return [_KEYS[one] for one in _KEY_SEQUENCE.findall(typed) if one in _KEYS]
