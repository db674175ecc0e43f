"""A clock that stands still until a test sets it."""


class SettableClock:
    """Wall clock and monotonic clock in one: both return `at`, which a test changes."""

    def __init__(self, at: float = 1_000_000.0) -> None:
        self.at = at

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at
