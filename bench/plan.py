"""How much is measured: the whole of it, or less in under two minutes."""

from dataclasses import dataclass

SLOW_MODEL_SECONDS = 3.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is measured."""

    rounds: int
    sessions: int  # of a run with 64 at a time
    turns: int
    waiting: int  # sessions on the slow model
    cached: int  # sessions whose memory is measured
    starts: int
    known: int  # sessions in the store
    visited: int  # of them, one after another
    interrupted_turns: int = 200  # turns that run when a stop comes
    restarted_turns: int = 50  # turns that run when a restart comes


FULL = Plan(
    rounds=9,
    sessions=64,
    turns=20,
    waiting=1000,
    cached=2000,
    starts=5,
    known=10_000,
    visited=1000,
)
QUICK = Plan(
    rounds=3, sessions=64, turns=10, waiting=1000, cached=300, starts=2, known=2000, visited=300
)
