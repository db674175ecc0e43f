"""How long to wait before something that failed is tried again."""

import msgspec

_MAX_EXPONENT = 64  # a longer series has reached its longest wait, and a float has an end


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Waits that grow by `factor` after each failure, up to the longest. In seconds."""

    first: float
    factor: float = 2.0
    longest: float

    def wait(self, failures: int) -> float:
        """How long to wait after a failure that follows so many others."""
        return min(self.first * self.factor ** min(failures, _MAX_EXPONENT), self.longest)
