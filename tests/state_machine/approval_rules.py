"""How questions are answered as rules: by whoever, in time or not, once or twice."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from tests.state_machine.driver import PLACES, TICKS, Driven

from holdfast.core.people.approval import Approval, ApprovalScope
from holdfast.gateway.approvals.service import ApprovalResponse

WORDS = ("yes", "no", "always", "/approve", "/deny", "/approve all", "/approve {id}")
ANSWERS = (*WORDS, "/approve {id} session", "/approve {id} always", "/deny {id}", "/deny {id} no")


class Answering(Driven):
    """Owns nothing: what is asked is in the store."""

    @precondition(lambda self: self.home.asked())
    @rule(
        data=st.data(),
        place=st.one_of(st.none(), PLACES),
        answer=st.sampled_from(ANSWERS),
        pending=st.booleans(),
        times=st.integers(1, 2),
        ticks=TICKS,
    )
    def answer_the_question(
        self,
        data: st.DataObject,
        place: tuple[str, str] | None,
        answer: str,
        pending: bool,
        times: int,
        ticks: int,
    ) -> None:
        """By who was asked or by whoever, whether it still waits or not, once or twice."""
        approval = self._draw_approval(data, pending)
        for _ in range(times):
            if self.home.asked():  # else its store was closed since
                self.answer_to(approval, answer, place)
        self.home.loop.tick(ticks)

    def answer_to(self, approval: Approval, answer: str, place: tuple[str, str] | None) -> None:
        text = answer.format(id=approval.id)
        platform, chat, user = self.home.asked_whom(approval)
        if place is not None or platform == "simulated":
            self.write(*(place or (chat, user)), text, 0)
        elif self.home.ready:
            self.ask_in(chat, text, False, 0)

    @precondition(lambda self: self.home.ready and self.home.asked())
    @rule(
        data=st.data(),
        pending=st.booleans(),
        approved=st.booleans(),
        scope=st.sampled_from(ApprovalScope),
        ticks=TICKS,
    )
    def answer_from_outside(
        self, data: st.DataObject, pending: bool, approved: bool, scope: ApprovalScope, ticks: int
    ) -> None:
        approval = self._draw_approval(data, pending)
        said = ApprovalResponse(approved=approved, scope=scope)
        self.home.aside(self.home.gateway.approvals.decide(approval.id, said))
        self.home.loop.tick(ticks)

    def _draw_approval(self, data: st.DataObject, pending: bool) -> Approval:
        asked = self.home.asked()
        wanted = [approval for approval in asked if approval.pending] if pending else asked
        return data.draw(st.sampled_from(wanted or asked))
