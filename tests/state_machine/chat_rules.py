"""Rules: people write messages and commands, edit them and delete them."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from tests.state_machine.driver import SENDERS, TICKS, Driver

from holdfast.testing.simulated.events import ReviseRequest

COMMANDS = (
    *("/stop", "/new", "/model other", "/model default", "/model", "/status", "/help", "/x"),
    *("/busy queue", "/busy steer", "/busy interrupt", "/busy default", "/queue", "/steer"),
    *("/resume", "/resume 2", "/fork", "/undo", "/undo 2", "/retry", "/title", "/compact"),
    *("/sessions", "/approvals", "/stop children", "/background", "/usage"),
)
WITH_UNIQUE_TEXT = ("/queue", "/steer", "/title", "/background")  # each gets a text of its own


class ChatRules(Driver):
    """Owns nothing: the messages are in the ledger of the chat service."""

    @rule(posted_by=SENDERS, ticks=st.sampled_from([0, 1, 3, 10, 50, 50, 50]))
    def say(self, posted_by: tuple[str, str], ticks: int) -> None:
        self.write(*posted_by, self.unique_text(), ticks)

    @rule(posted_by=SENDERS, command=st.sampled_from(COMMANDS), ticks=TICKS)
    def command(self, posted_by: tuple[str, str], command: str, ticks: int) -> None:
        more = f" {self.unique_text()}" if command in WITH_UNIQUE_TEXT else ""
        self.write(*posted_by, command + more, ticks)

    @precondition(lambda self: self.home.service.ledger().said)
    @rule(data=st.data(), deleted=st.booleans(), ticks=TICKS)
    def revise(self, data: st.DataObject, deleted: bool, ticks: int) -> None:
        """An edited message counts as sent again; a deleted one may have been answered already."""
        message = data.draw(st.sampled_from(self.home.service.ledger().said))
        text = None if deleted else self.unique_text()

        async def revise() -> None:
            self.home.service.revise(ReviseRequest(message_id=message.message_id, text=text))

        self.home.loop.run_until_complete(revise())
        self.home.loop.tick(ticks)
