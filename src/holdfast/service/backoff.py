"""Growing waits between starts that fail: 1, 2, 4 … 60 seconds, and from the beginning again
once a gateway has been well for a while."""

FIRST_WAIT = 1.0
MAX_WAIT = 60.0
HEALTHY_AFTER = 300.0


class RestartBackoff:
    """Owns the next wait."""

    def __init__(
        self,
        *,
        first_wait: float = FIRST_WAIT,
        max_wait: float = MAX_WAIT,
        healthy_after: float = HEALTHY_AFTER,
    ) -> None:
        self._first_wait = first_wait
        self._max_wait = max_wait
        self._healthy_after = healthy_after
        self._next_wait = first_wait

    def next_wait(self, uptime: float) -> float:
        """How long to wait before the next start, when the last one lived so many seconds."""
        if uptime >= self._healthy_after:
            self._next_wait = self._first_wait
        wait, self._next_wait = self._next_wait, min(self._next_wait * 2, self._max_wait)
        return wait
