"""What people say as rules: messages and commands, changed and taken back."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from tests.state_machine.driver import PLACES, TICKS, Driven

from holdfast.testing.simulated.events import ReviseRequest

COMMANDS = (
    *("/stop", "/new", "/model other", "/model default", "/model", "/status", "/help", "/x"),
    *("/busy queue", "/busy steer", "/busy interrupt", "/busy default", "/queue", "/steer"),
    *("/resume", "/resume 2", "/fork", "/undo", "/undo 2", "/retry", "/title", "/compact"),
    *("/sessions", "/approvals", "/stop children", "/background", "/usage"),
)
UNIQUE = ("/queue", "/steer", "/title", "/background")  # what follows them is said nowhere else


class Talking(Driven):
    """Owns nothing: what was said is in the ledger of the chat service."""

    @rule(place=PLACES, ticks=st.sampled_from([0, 1, 3, 10, 50, 50, 50]))
    def say(self, place: tuple[str, str], ticks: int) -> None:
        self.write(*place, self.text(), ticks)

    @rule(place=PLACES, command=st.sampled_from(COMMANDS), ticks=TICKS)
    def command(self, place: tuple[str, str], command: str, ticks: int) -> None:
        more = f" {self.text()}" if command in UNIQUE else ""
        self.write(*place, command + more, ticks)

    @precondition(lambda self: self.home.service.ledger().said)
    @rule(data=st.data(), deleted=st.booleans(), ticks=TICKS)
    def revise(self, data: st.DataObject, deleted: bool, ticks: int) -> None:
        """What is changed is said once more; what is deleted may have been answered already."""
        said = data.draw(st.sampled_from(self.home.service.ledger().said))
        text = None if deleted else self.text()

        async def revise() -> None:
            self.home.service.revise(ReviseRequest(message_id=said.message_id, text=text))

        self.home.loop.run_until_complete(revise())
        self.home.loop.tick(ticks)
