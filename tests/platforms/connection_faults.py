"""The ways in which a fake vendor breaks the connection of a request."""

from enum import Enum, auto


class ConnectionFault(Enum):
    """How the connection breaks, and whether the request is carried out before that."""

    RESET_BEFORE = auto()  # the connection is reset before anything is done
    RESET_AFTER = auto()  # done, and the connection is reset before the response
    SILENT_AFTER = auto()  # done, and no response arrives
    ERROR_AFTER = auto()  # done, and a proxy of the vendor answers 502
    TEXT_AFTER = auto()  # done, and something in between answers 200 with a text
