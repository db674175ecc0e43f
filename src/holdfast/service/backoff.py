"""Growing waits between starts that fail: 1, 2, 4 … 60 seconds, and from the beginning again
once a gateway has been well for a while."""

FIRST = 1.0
MOST = 60.0
WELL_AFTER = 300.0


class Backoff:
    """Owns the next wait."""

    def __init__(
        self, *, first: float = FIRST, most: float = MOST, well_after: float = WELL_AFTER
    ) -> None:
        self._first = first
        self._most = most
        self._well_after = well_after
        self._next = first

    def after(self, lived: float) -> float:
        """How long to wait before the next start, when the last one lived so many seconds."""
        if lived >= self._well_after:
            self._next = self._first
        wait, self._next = self._next, min(self._next * 2, self._most)
        return wait
