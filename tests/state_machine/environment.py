"""What outlives the gateway runs of a home: event loop, clock, database file, chat service and
tools."""

import asyncio
import itertools
import shutil
from pathlib import Path

from tests.state_machine.process_ends import ProcessEnds
from tests.state_machine.recording_memory import RecordingMemory
from tests.state_machine.stepped_store import SimulatedDisk
from tests.state_machine.tools import SHELL, BlockingShell, BlockingTool, WordJudge
from tests.state_machine.virtual_time import VirtualClock, VirtualTimeLoop

from holdfast.core.turns.tool import ReplayClass
from holdfast.testing.simulated.service import ChatService


class Environment:
    """Owns the loop and its clock, the database file and its disk, the chat service, and the
    tools."""

    def __init__(self, folder: Path, empty: Path, *, service: ChatService) -> None:
        self.loop = VirtualTimeLoop()
        asyncio.set_event_loop(self.loop)
        self.clock = VirtualClock(self.loop)
        self.path = folder / "state.db"
        shutil.copy(empty, self.path)
        self.disk = SimulatedDisk()
        self.service = service
        self.shell = BlockingShell()
        self.held_tools: dict[str, BlockingTool] = {
            replay: BlockingTool(replay) for replay in ReplayClass
        }
        self.held_tools[SHELL] = self.shell
        self.judge = WordJudge()
        self.memory = RecordingMemory()
        self.request_problems: list[str] = []
        self.process_ends = ProcessEnds()
        self._ids = itertools.count(1)

    def new_id(self, prefix: str) -> str:
        return f"{prefix}_{next(self._ids)}"
