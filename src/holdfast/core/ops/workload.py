"""The workload: what waits and what works besides turns, as the store has it."""

import msgspec


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one moment, each from an index: whoever asks every few seconds costs little."""

    approvals: int = 0  # that wait for a person
    processes: int = 0  # in the background, of runners that live
    jobs: int = 0
    paused_jobs: int = 0  # of those
    waiting_runs: int = 0  # of jobs: for an earlier one, or for a free place
