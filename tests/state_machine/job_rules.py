"""What is to be done at certain times as rules: added, changed, run and stopped by command."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from tests.state_machine.driver import PLACES, TICKS, Driven

from holdfast.core.jobs.job import MissedRunPolicy, OverlapPolicy, RunSession

MOST = 3  # jobs of a home
VERBS = ("pause", "resume", "run", "run", "stop", "rm", "history")


class Scheduling(Driven):
    """Owns nothing: jobs and their runs are in the store."""

    @precondition(lambda self: self.home.ready and len(self.home.jobs()) < MOST)
    @rule(
        place=PLACES,
        missed=st.sampled_from(MissedRunPolicy),
        overlap=st.sampled_from(OverlapPolicy),
        runs_in=st.sampled_from(RunSession),
        silent=st.booleans(),
        limit=st.sampled_from(["30m", "2m"]),
        ticks=TICKS,
    )
    def add_a_job(
        self,
        place: tuple[str, str],
        missed: MissedRunPolicy,
        overlap: OverlapPolicy,
        runs_in: RunSession,
        silent: bool,
        limit: str,
        ticks: int,
    ) -> None:
        """One that makes up for all it missed is seldom due: two days of it are to be counted."""
        when = "every 8 hours" if missed is MissedRunPolicy.ALL else "every 10 minutes"
        said = "yes" if silent else "no"
        how = f"missed={missed} overlap={overlap} session={runs_in} silent={said} limit={limit}"
        self.write(*place, f'/cron add "{when}" {how} job {self.text()}', ticks)

    @precondition(lambda self: self.home.ready and self.home.jobs())
    @rule(place=PLACES, verb=st.sampled_from(VERBS), number=st.integers(1, MOST), ticks=TICKS)
    def change_a_job(self, place: tuple[str, str], verb: str, number: int, ticks: int) -> None:
        self.write(*place, f"/cron {verb} {number}", ticks)
