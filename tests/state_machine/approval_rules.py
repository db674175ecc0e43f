"""Rules: approvals are answered by any user, in time or late, once or twice."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from tests.state_machine.driver import SENDERS, TICKS, Driver

from holdfast.core.people.approval import Approval, ApprovalScope
from holdfast.gateway.approvals.service import ApprovalResponse

SHORT_ANSWERS = ("yes", "no", "always", "/approve", "/deny", "/approve all", "/approve {id}")
ANSWERS = (
    *SHORT_ANSWERS,
    "/approve {id} session",
    "/approve {id} always",
    "/deny {id}",
    "/deny {id} no",
)


class ApprovalRules(Driver):
    """Owns nothing: approvals are in the store."""

    @precondition(lambda self: self.home.approvals())
    @rule(
        data=st.data(),
        posted_by=st.one_of(st.none(), SENDERS),
        answer=st.sampled_from(ANSWERS),
        pending=st.booleans(),
        times=st.integers(1, 2),
        ticks=TICKS,
    )
    def answer_the_question(
        self,
        data: st.DataObject,
        posted_by: tuple[str, str] | None,
        answer: str,
        pending: bool,
        times: int,
        ticks: int,
    ) -> None:
        """Answer as the asked user or as another, whether the approval is pending or not."""
        approval = self._draw_approval(data, pending)
        for _ in range(times):
            if self.home.approvals():  # otherwise its store was closed since
                self.answer_to(approval, answer, posted_by)
        self.home.loop.tick(ticks)

    def answer_to(self, approval: Approval, answer: str, posted_by: tuple[str, str] | None) -> None:
        text = answer.format(id=approval.id)
        platform, chat, user = self.home.approval_recipient(approval)
        if posted_by is not None or platform == "simulated":
            self.write(*(posted_by or (chat, user)), text, 0)
        elif self.home.ready:
            self.send_api_message(chat, text, False, 0)

    @precondition(lambda self: self.home.ready and self.home.approvals())
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
        response = ApprovalResponse(approved=approved, scope=scope)
        self.home.spawn(self.home.gateway.approvals.decide(approval.id, response))
        self.home.loop.tick(ticks)

    def _draw_approval(self, data: st.DataObject, pending: bool) -> Approval:
        found = self.home.approvals()
        preferred = [approval for approval in found if approval.pending] if pending else found
        return data.draw(st.sampled_from(preferred or found))
