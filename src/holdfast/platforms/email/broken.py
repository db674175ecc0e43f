"""Broken mail: what a server does not give, however often it is asked."""

from collections import Counter

from holdfast.platforms.email.record import Mark

_TRIES = 10  # over some minutes, as lines are tried again: a server that is mended gives it by then


class Broken:
    """Owns how often the server has said no to which mail, over one line after the other."""

    def __init__(self) -> None:
        self._stumbles: Counter[tuple[int, int]] = Counter()

    def stumbled(self, mark: Mark) -> None:
        self._stumbles[mark.validity, mark.uid] += 1

    def is_given_up(self, mark: Mark) -> bool:
        """From now on it is passed over: what has come behind it waits."""
        return self._stumbles[mark.validity, mark.uid] >= _TRIES
