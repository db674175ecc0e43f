"""When a send that failed is tried again, and how often: the waits and limits of the outbox."""

from holdfast.core.retry import RetryPolicy

# A platform that cannot be reached although its account looks connected.
UNREACHABLE = RetryPolicy(first=1.0, longest=60.0)
# A message whose outcome is unknown, to a platform that accepts it only once. The first resend is
# made without a wait.
RESEND = RetryPolicy(first=0.05, longest=60.0)
# What is known of a delivery, while the store does not take it.
STORE_RETRY = RetryPolicy(first=1.0, factor=1.0, longest=1.0)
# Attempts at the last edit of a message. An edit without an answer may be on a connection that is
# dead and looks whole: it can be repeated without harm until that is noticed.
MAX_REFUSED_EDITS, MAX_UNANSWERED_EDITS = 4, 7


def edit_retry(interval: float) -> RetryPolicy:
    """The waits between attempts at the last edit; `interval`: between edits that succeed."""
    return RetryPolicy(first=2 * interval, longest=interval * 2**MAX_UNANSWERED_EDITS)
