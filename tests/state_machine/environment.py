"""The ground of a home: all that outlives its gateways, and what is on record about them."""

import asyncio
import itertools
import shutil
from pathlib import Path

from tests.state_machine.process_ends import Ends
from tests.state_machine.recording_memory import Diary
from tests.state_machine.stepped_store import Weather
from tests.state_machine.tools import SHELL, ByWord, Lever, Shell
from tests.state_machine.virtual_time import HeldClock, HeldLoop

from holdfast.core.turns.tool import ReplayClass
from holdfast.testing.simulated.service import ChatService


class Ground:
    """Owns the loop and its clock, the file and its disk, the chat service, and the tools."""

    def __init__(self, folder: Path, empty: Path, *, service: ChatService) -> None:
        self.loop = HeldLoop()
        asyncio.set_event_loop(self.loop)
        self.clock = HeldClock(self.loop)
        self.path = folder / "state.db"
        shutil.copy(empty, self.path)
        self.weather = Weather()
        self.service = service
        self.shell = Shell()
        self.held_tools: dict[str, Lever] = {replay: Lever(replay) for replay in ReplayClass}
        self.held_tools[SHELL] = self.shell
        self.judge = ByWord()
        self.diary = Diary()
        self.complaints: list[str] = []
        self.ends = Ends()
        self._ids = itertools.count(1)

    def new_id(self, prefix: str) -> str:
        return f"{prefix}_{next(self._ids)}"
