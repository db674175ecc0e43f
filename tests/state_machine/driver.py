"""The base of all rule classes: the home, texts that are unique, and the ways to send them."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant
from tests.state_machine import invariants
from tests.state_machine.home import Home
from tests.state_machine.home_contents import HomeContents, Invariant
from tests.state_machine.watchers import ApiRequest

from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.source import ChatType, Source
from holdfast.testing.simulated.events import SayRequest

TICKS = st.sampled_from([0, 1, 3, 10, 50])
SENDERS = st.sampled_from([("home", "ann"), ("home", "bob"), ("club", "ann"), ("club", "bob")])
MAX_LENGTH = 400  # characters of a message, where there is a limit
_SHM = Path("/dev/shm")


class Driver(RuleBasedStateMachine):
    """Owns the folder and the home in it. How many ticks the loop runs after a rule is drawn too,
    so that every race is tried at some time."""

    empty: Path  # a file with the newest schema and nothing in it

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=_SHM if _SHM.is_dir() else None))
        self.text_count = 0
        self.home: Home

    def unique_text(self) -> str:
        self.text_count += 1
        return f"said {self.text_count}"

    def write(self, chat: str, user: str, text: str, ticks: int) -> None:
        """A person writes in a chat, whether a gateway is running or not."""
        kind = ChatType.GROUP if chat == "club" else ChatType.DM

        async def write() -> None:
            say = SayRequest(
                chat=chat, user=user, text=text, chat_type=kind, user_name=user.title()
            )
            self.home.service.say(say)

        self.home.loop.run_until_complete(write())
        self.home.loop.tick(ticks)

    def send_api_message(
        self, chat: str, text: str, watched: bool, ticks: int, **more: Any
    ) -> None:
        """A program sends a message over the API, and may watch its events."""
        event = f"e{len(self.home.requests)}"
        source = Source(platform="api", chat_id=chat, user_id="owner", chat_type=ChatType.DM)
        inbound = Inbound(source=source, text=text, event_id=event, message_id=event, **more)
        request = self.home.send_request(inbound)
        if watched:
            assert request.task is not None
            request.task.add_done_callback(lambda _: self._watch_accepted(request))
        self.home.loop.tick(ticks)

    def _watch_accepted(self, request: ApiRequest) -> None:
        if self.home.ready and request.accepted is not None:
            self.home.watch(request.accepted.row.id)

    @invariant()
    def check_step_invariants(self) -> None:
        if "home" not in self.__dict__:
            return  # before `initialise`
        violations = [why for check in invariants.ALWAYS for why in check(self.home)]
        assert not violations, "\n".join(violations)

    def check(self, which: Sequence[Invariant]) -> None:
        """Check the contents of the database against these invariants."""
        contents = HomeContents(self.home)
        violations = [why for check in which for why in check(contents)]
        assert not violations, "\n".join(violations)

    def close_home(self) -> None:
        self.home.close()
        shutil.rmtree(self.folder)
