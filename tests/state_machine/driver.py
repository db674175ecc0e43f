"""What every part of the machine drives by: the home, words that are said once, and how they are
said to it."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant
from tests.state_machine import invariants
from tests.state_machine.home import Home
from tests.state_machine.home_contents import Books
from tests.state_machine.watchers import Request

from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.source import ChatType, Source
from holdfast.testing.simulated.events import SayRequest

TICKS = st.sampled_from([0, 1, 3, 10, 50])
PLACES = st.sampled_from([("home", "ann"), ("home", "bob"), ("club", "ann"), ("club", "bob")])
LONGEST = 400  # characters of a message, where there is a limit
_SHM = Path("/dev/shm")


class Driven(RuleBasedStateMachine):
    """Owns the folder and the home in it. How far the loop runs after a rule is drawn too, so that
    every window is open at some time."""

    empty: Path  # a file with the newest schema and nothing in it

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=_SHM if _SHM.is_dir() else None))
        self.said = 0
        self.home: Home

    def text(self) -> str:
        self.said += 1
        return f"said {self.said}"

    def write(self, chat: str, user: str, text: str, ticks: int) -> None:
        """A person says it in a chat, whether anybody listens or not."""
        kind = ChatType.GROUP if chat == "club" else ChatType.DM

        async def write() -> None:
            say = SayRequest(
                chat=chat, user=user, text=text, chat_type=kind, user_name=user.title()
            )
            self.home.service.say(say)

        self.home.loop.run_until_complete(write())
        self.home.loop.tick(ticks)

    def ask_in(self, chat: str, text: str, watched: bool, ticks: int, **more: Any) -> None:
        """A program says it, and may watch what becomes of it."""
        event = f"e{len(self.home.requests)}"
        source = Source(platform="api", chat_id=chat, user_id="owner", chat_type=ChatType.DM)
        inbound = Inbound(source=source, text=text, event_id=event, message_id=event, **more)
        request = self.home.ask(inbound)
        if watched:
            assert request.task is not None
            request.task.add_done_callback(lambda _: self._watch_accepted(request))
        self.home.loop.tick(ticks)

    def _watch_accepted(self, request: Request) -> None:
        if self.home.ready and request.accepted is not None:
            self.home.watch(request.accepted.row.id)

    @invariant()
    def the_laws_of_every_instant(self) -> None:
        if "home" not in self.__dict__:
            return  # before `settle_in`
        broken = [why for law in invariants.ALWAYS for why in law(self.home)]
        assert not broken, "\n".join(broken)

    def check(self, which: Any) -> None:
        """Hold the books against these laws."""
        books = Books(self.home)
        broken = [why for law in which for why in law(books)]
        assert not broken, "\n".join(broken)

    def leave_for_good(self) -> None:
        self.home.close()
        shutil.rmtree(self.folder)
