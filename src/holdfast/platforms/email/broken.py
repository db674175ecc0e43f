"""Broken mail: what a server does not give, however often it is asked."""

from collections import Counter

from holdfast.platforms.email.record import MailboxPosition

_MAX_FAILURES = (
    10  # over some minutes, as lines are tried again: a server that is mended gives it by then
)


class PoisonMails:
    """Owns how often the server has said no to which mail, over one line after the other."""

    def __init__(self) -> None:
        self._failures: Counter[tuple[int, int]] = Counter()

    def record_failure(self, position: MailboxPosition) -> None:
        self._failures[position.validity, position.uid] += 1

    def is_poison(self, position: MailboxPosition) -> bool:
        """From now on it is passed over: what has come behind it waits."""
        return self._failures[position.validity, position.uid] >= _MAX_FAILURES
