"""How long to wait before a failed operation is tried again.

All policies of the core, the models, the agent and the gateway are listed here.
"""

import msgspec

_MAX_EXPONENT = 64  # a longer series has reached its longest wait, and a float would overflow


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Waits in seconds that grow by `factor` after each failure, up to `longest`."""

    first: float
    factor: float = 2.0
    longest: float

    def wait(self, failures: int, *, jitter: float = 1.0) -> float:
        """How long to wait after the failure that follows this many others. `jitter` scales each
        wait but makes none longer than `longest`."""
        grown = self.first * self.factor ** min(failures, _MAX_EXPONENT)
        return min(grown * jitter, self.longest)


# The store refused a write: of a step of a turn, of a lane or the end of its turn, of the state of
# a delivery, of a command. Only the command gives up, because its sender waits for the answer.
STEP_RETRY = RetryPolicy(first=0.5, longest=10.0)
LANE_RETRY = RetryPolicy(first=0.5, longest=30.0)
DELIVERY_STATE_RETRY = RetryPolicy(first=1.0, factor=1.0, longest=1.0)
COMMAND_RETRY, MAX_COMMAND_RETRIES = RetryPolicy(first=0.1, factor=5.0, longest=2.0), 3

MODEL_RETRY = RetryPolicy(first=0.5, longest=30.0)  # a call of a model

# A platform: an account that is not connected, and a chat that cannot be reached although its
# account looks connected.
CONNECTION_RETRY = RetryPolicy(first=1.0, longest=300.0)
UNREACHABLE_RETRY = RetryPolicy(first=1.0, longest=60.0)
# A message whose outcome is unknown, to a platform that accepts it only once. The first resend is
# made without a wait.
RESEND_RETRY = RetryPolicy(first=0.05, longest=60.0)
# Attempts at the last edit of a message. An edit without an answer may be on a half-open
# connection, and can be repeated without harm until that is noticed.
MAX_REFUSED_EDITS, MAX_UNANSWERED_EDITS = 4, 7
# A reaction that was not removed in time; its account gets no other one meanwhile.
REACTION_RETRY, MAX_REACTION_REMOVALS = RetryPolicy(first=60.0, factor=1.0, longest=60.0), 2

# Background tasks whose store access failed, and sessions that were in use when they expired.
SCHEDULER_RETRY = RetryPolicy(first=30.0, factor=1.0, longest=30.0)
EXPIRY_RETRY = RetryPolicy(first=60.0, factor=1.0, longest=60.0)

MEMORY_PROVIDER_RETRY = RetryPolicy(first=60.0, longest=3600.0)  # one that fails repeatedly


def edit_retry(interval: float) -> RetryPolicy:
    """The waits between attempts at the last edit; `interval` is the wait between successful
    edits."""
    return RetryPolicy(first=2 * interval, longest=interval * 2**MAX_UNANSWERED_EDITS)
