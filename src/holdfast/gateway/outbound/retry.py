"""When a send that failed is tried again, and how often: the waits and limits of the outbox."""

import msgspec


class RetryPolicy(msgspec.Struct, frozen=True):
    """Waits that double after each failure, up to the longest. In seconds."""

    first: float
    longest: float

    def wait(self, failures: int) -> float:
        """How long to wait after so many earlier failures."""
        return min(self.first * 2.0**failures, self.longest)


# A platform that cannot be reached although its account looks connected.
UNREACHABLE = RetryPolicy(first=1.0, longest=60.0)
# A message whose outcome is unknown, to a platform that accepts it only once. The first resend is
# made without a wait.
RESEND = RetryPolicy(first=0.05, longest=60.0)
# Seconds before the state of a delivery is written again after the store failed.
STORE_RETRY_WAIT = 1.0
# Attempts at the last edit of a message. An edit without an answer may be on a connection that is
# dead and looks whole: it can be repeated without harm until that is noticed.
MAX_REFUSED_EDITS, MAX_UNANSWERED_EDITS = 4, 7
