"""Crash points by the part of the gateway that passes them, and pairs of them in one run."""

from collections.abc import Iterator

from holdfast.core.crash_points import CrashPoint

P = CrashPoint
Pair = tuple[CrashPoint, CrashPoint]

# After how many passes a point kills: each pass is another step of a message's way.
TURN_PASSES: dict[CrashPoint, tuple[int, ...]] = {
    P.ACCEPT_SUBMITTED: (1, 2),
    P.ACCEPT_COMMITTED: (1, 2),
    P.TURN_BEGUN: (1, 2),
    P.MODEL_CALLED: (1, 3),
    P.MODEL_REPLIED: (1, 3),
    P.REPLY_COMMITTED: (1,),
    P.CALL_STARTED: (1,),
    P.CALL_RETURNED: (1,),
    P.CALL_FINISHED: (1,),
    P.END_SUBMITTED: (1, 2),
    P.END_COMMITTED: (1, 2),
    P.ATTEMPT_COMMITTED: (1, 2),
    P.SENT: (1, 2),
    P.RECEIPT_COMMITTED: (1, 2),
    P.BEFORE_COMMIT: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
    P.AFTER_COMMIT: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
}
RECOVERY_POINTS = (P.RECOVERY_READ, P.RESUME_COMMITTED)
JOB_POINTS = (P.RUN_PLANNED, P.RUN_BEGUN)  # in test_kill_jobs.py
APPROVAL_POINTS = (P.APPROVAL_ASKED, P.APPROVAL_DECIDED)  # in test_kill_approvals.py
STOP_POINTS = (P.TURN_PARKED, P.TURN_MARKED)  # in test_resume_after_signals.py
STREAM_POINTS = (P.STREAM_ROW_COMMITTED, P.EDIT_SENT, P.EDIT_COMMITTED)  # in test_kill_streams.py
SEND_POINTS = (P.ATTEMPT_COMMITTED, P.SENT)

_SENDING = (P.ATTEMPT_COMMITTED, P.SENT, P.RECEIPT_COMMITTED)
_ENDING = (P.END_SUBMITTED, P.END_COMMITTED, *_SENDING)
_MODEL_CALLS = (P.MODEL_CALLED, P.MODEL_REPLIED, *_ENDING)
_TOOL_CALLS = (P.CALL_RETURNED, P.CALL_FINISHED, *_MODEL_CALLS)
_RUNNING = (P.REPLY_COMMITTED, P.CALL_STARTED, *_TOOL_CALLS)
_ACCEPTING = (P.ACCEPT_SUBMITTED, P.ACCEPT_COMMITTED, P.TURN_BEGUN, *_RUNNING)
_ALWAYS = (P.RECOVERY_READ, P.BEFORE_COMMIT, P.AFTER_COMMIT)

# The points that a run passes after a kill at the first, on every machine.
LATER_POINTS: dict[CrashPoint, tuple[CrashPoint, ...]] = {
    P.ACCEPT_SUBMITTED: _ACCEPTING,
    P.ACCEPT_COMMITTED: _ACCEPTING,
    P.TURN_BEGUN: _RUNNING,
    P.MODEL_CALLED: _RUNNING,
    P.MODEL_REPLIED: _RUNNING,
    # Its commit has started the call, too.
    P.REPLY_COMMITTED: (P.RESUME_COMMITTED, *_TOOL_CALLS),
    P.CALL_STARTED: (P.RESUME_COMMITTED, *_TOOL_CALLS),
    P.CALL_RETURNED: (P.RESUME_COMMITTED, *_TOOL_CALLS),
    P.CALL_FINISHED: (P.RESUME_COMMITTED, *_MODEL_CALLS),
    P.END_SUBMITTED: _SENDING,
    P.END_COMMITTED: _SENDING,
    P.ATTEMPT_COMMITTED: _SENDING,
    P.SENT: _SENDING,
    P.RECEIPT_COMMITTED: (),
}


def all_pairs() -> Iterator[Pair]:
    for first, seconds in LATER_POINTS.items():
        for second in (*_ALWAYS, *seconds):
            yield first, second


def some_pairs() -> list[Pair]:
    """A small selection, in which each point is the first once and the second once."""
    chosen: list[Pair] = []
    seen: set[CrashPoint] = set()
    for first, seconds in sorted(LATER_POINTS.items(), key=lambda item: len(item[1])):
        fresh = [each for each in (*seconds, *_ALWAYS) if each not in seen]
        seen.add(second := (fresh or [*seconds, *_ALWAYS])[0])
        chosen.append((first, second))
    missing = {second for _, second in all_pairs()} - seen
    return chosen + [(P.ACCEPT_SUBMITTED, second) for second in sorted(missing)]
