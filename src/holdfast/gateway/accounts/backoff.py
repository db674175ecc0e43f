"""Backing off: how long an account that fails is left in peace before it is tried again."""

from collections.abc import Callable

import msgspec


class BackoffSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The times of a line, in seconds."""

    connect_timeout: float = 30.0  # that entering a door may take
    first_wait: float = 1.0  # pause after the first failure; it doubles with each
    max_wait: float = 300.0
    stable_after: float = 60.0  # a connection that held for so long counts as a success
    close_timeout: float = 5.0  # that leaving a door may take before it is cancelled


DEFAULT_BACKOFF = BackoffSettings()


class ConnectionBackoff:
    """Owns how often in a row an account has failed."""

    def __init__(self, settings: BackoffSettings, *, random: Callable[[], float]) -> None:
        """`random` gives numbers from 0 to 1: accounts that failed together, as all do when the
        network goes, are not to come back together."""
        self._settings = settings
        self._random = random
        self.failures = 0

    def next_wait(self) -> float:
        """How long to wait now that it has failed once more."""
        # Counted up to a point only: two to the power of many failures is no float any more.
        doubled: float = self._settings.first_wait * 2 ** min(self.failures, 32)
        self.failures += 1
        return min(doubled * (0.75 + self._random() / 2), self._settings.max_wait)

    def record_connection(self, seconds: float) -> None:
        """A connection has ended that had held for so long. One that breaks as soon as it stands
        is no success, and would be made every second for ever."""
        if seconds >= self._settings.stable_after:
            self.failures = 0
