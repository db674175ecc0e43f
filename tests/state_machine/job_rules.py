"""Rules: scheduled jobs are added, changed, run and stopped by command."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from tests.state_machine.driver import SENDERS, TICKS, Driver

from holdfast.core.jobs.job import MissedRunPolicy, OverlapPolicy, RunSession

MAX_JOBS = 3  # jobs per home
VERBS = ("pause", "resume", "run", "run", "stop", "rm", "history")


class JobRules(Driver):
    """Owns nothing: jobs and their runs are in the store."""

    @precondition(lambda self: self.home.ready and len(self.home.jobs()) < MAX_JOBS)
    @rule(
        posted_by=SENDERS,
        missed=st.sampled_from(MissedRunPolicy),
        overlap=st.sampled_from(OverlapPolicy),
        runs_in=st.sampled_from(RunSession),
        silent=st.booleans(),
        limit=st.sampled_from(["30m", "2m"]),
        ticks=TICKS,
    )
    def add_a_job(
        self,
        posted_by: tuple[str, str],
        missed: MissedRunPolicy,
        overlap: OverlapPolicy,
        runs_in: RunSession,
        silent: bool,
        limit: str,
        ticks: int,
    ) -> None:
        """A job that makes up for all missed runs is seldom due: the clock may be set two days
        ahead."""
        when = "every 8 hours" if missed is MissedRunPolicy.ALL else "every 10 minutes"
        answer = "yes" if silent else "no"
        how = f"missed={missed} overlap={overlap} session={runs_in} silent={answer} limit={limit}"
        self.write(*posted_by, f'/cron add "{when}" {how} job {self.unique_text()}', ticks)

    @precondition(lambda self: self.home.ready and self.home.jobs())
    @rule(
        posted_by=SENDERS, verb=st.sampled_from(VERBS), number=st.integers(1, MAX_JOBS), ticks=TICKS
    )
    def change_a_job(self, posted_by: tuple[str, str], verb: str, number: int, ticks: int) -> None:
        self.write(*posted_by, f"/cron {verb} {number}", ticks)
