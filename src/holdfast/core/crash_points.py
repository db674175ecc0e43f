"""The named points at which the fault tests kill the process."""

from enum import StrEnum
from typing import Protocol


class CrashPoint(StrEnum):
    """Every point between two durable facts. A test suite fails if it never reaches one of its
    points."""

    ACCEPT_SUBMITTED = "accept_submitted"
    ACCEPT_COMMITTED = "accept_committed"
    TURN_BEGUN = "turn_begun"
    MODEL_CALLED = "model_called"
    MODEL_REPLIED = "model_replied"
    REPLY_COMMITTED = "reply_committed"
    CALL_STARTED = "call_started"
    CALL_RETURNED = "call_returned"
    CALL_FINISHED = "call_finished"
    APPROVAL_ASKED = "approval_asked"
    APPROVAL_DECIDED = "approval_decided"
    TURN_PARKED = "turn_parked"
    TURN_MARKED = "turn_marked"
    END_SUBMITTED = "end_submitted"
    END_COMMITTED = "end_committed"
    ATTEMPT_COMMITTED = "attempt_committed"
    SENT = "sent"
    RECEIPT_COMMITTED = "receipt_committed"
    STREAM_ROW_COMMITTED = "stream_row_committed"
    EDIT_SENT = "edit_sent"
    EDIT_COMMITTED = "edit_committed"
    RUN_PLANNED = "run_planned"
    RUN_BEGUN = "run_begun"
    RECOVERY_READ = "recovery_read"
    RESUME_COMMITTED = "resume_committed"
    BEFORE_COMMIT = "before_commit"
    AFTER_COMMIT = "after_commit"


class CrashHook(Protocol):
    """Called with each point as it is passed. The default does nothing."""

    def __call__(self, point: CrashPoint) -> None: ...


def no_crash(point: CrashPoint) -> None:
    """Do nothing: the default hook."""
