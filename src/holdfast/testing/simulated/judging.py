"""What becomes of what a bot does: by what the pretend vendor can do, and by its faults."""

import msgspec

from holdfast.testing.simulated.events import About, Answer, Edit, Faults, Outgoing, React, Verdict


class Judging:
    """Owns the faults, and spends them."""

    def __init__(self) -> None:
        self.faults = Faults()

    def spend(self, fault: str) -> bool:
        """Whether this is an occasion on which that goes wrong."""
        left: int = msgspec.structs.asdict(self.faults)[fault]
        if left:
            self.faults = msgspec.structs.replace(self.faults, **{fault: left - 1})
        return left > 0

    def of_message(self, outgoing: Outgoing, about: About, *, earlier: str | None) -> Answer:
        """`earlier`: the message that the same delivery was taken as before."""
        if answer := self._of_line() or _of_length(outgoing.text, about):
            return answer
        if self.spend("refusals"):
            return Answer(verdict=Verdict.REFUSED, error="the chat does not want this message")
        if self.spend("lost_messages"):
            return Answer(verdict=Verdict.MESSAGE_LOST)
        if about.idempotent_send and earlier is not None:
            return Answer(verdict=Verdict.REPEATED, message_id=earlier)
        lost = self.spend("lost_receipts")
        return Answer(verdict=Verdict.RECEIPT_LOST if lost else Verdict.TAKEN)

    def of_edit(self, edit: Edit, about: About, *, known: bool) -> Answer:
        if answer := self._of_line() or _of_length(edit.text, about):
            return answer
        if not about.edit:
            return Answer(verdict=Verdict.REFUSED, error="messages cannot be edited here")
        if not known:
            return Answer(verdict=Verdict.REFUSED, error=f"no bot sent {edit.message_id}")
        if self.spend("rejected_edits"):
            return Answer(verdict=Verdict.REFUSED, error="this message is not to be edited")
        taken = Verdict.RECEIPT_LOST if self.spend("lost_edits") else Verdict.TAKEN
        return Answer(verdict=taken, message_id=edit.message_id)

    def of_question(self, about: About, *, earlier: str | None) -> Answer:
        if answer := self._of_line():
            return answer
        if not about.lookup:
            return Answer(verdict=Verdict.REFUSED, error="nothing can be looked up here")
        verdict = Verdict.NOT_FOUND if earlier is None else Verdict.REPEATED
        return Answer(verdict=verdict, message_id=earlier)

    def of_typing(self, about: About) -> Answer:
        refused = Answer(verdict=Verdict.REFUSED, error="typing is not shown here")
        shown = Answer(verdict=Verdict.TAKEN, message_id="")
        return self._of_line() or (shown if about.typing else refused)

    def of_reaction(self, react: React, about: About, *, known: bool) -> Answer:
        if answer := self._of_line():
            return answer
        if not about.reactions:
            return Answer(verdict=Verdict.REFUSED, error="messages bear no signs here")
        if not known:
            return Answer(verdict=Verdict.REFUSED, error=f"nobody has said {react.message_id}")
        if self.spend("rejected_reactions"):
            return Answer(verdict=Verdict.REFUSED, error="this message is to bear no sign")
        return Answer(verdict=Verdict.TAKEN, message_id=react.message_id)

    def _of_line(self) -> Answer | None:
        if self.faults.disconnected:
            return Answer(verdict=Verdict.UNREACHABLE, error="the service is disconnected")
        if self.faults.half_open:
            return Answer(verdict=Verdict.MESSAGE_LOST)
        wait = self.faults.retry_after
        if self.spend("account_floods"):
            return Answer(verdict=Verdict.FLOOD, retry_after=wait, whole_account=True)
        if self.spend("floods"):
            return Answer(verdict=Verdict.FLOOD, retry_after=wait)
        return None


def _of_length(text: str, about: About) -> Answer | None:
    if about.max_length is None or len(text) <= about.max_length:
        return None
    error = f"text is longer than {about.max_length} characters"
    return Answer(verdict=Verdict.REFUSED, error=error)
