"""A gateway with hooks: from what a program posts to what its receiver is posted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.contract.conftest import World
from tests.contract.test_j_approvals import RM, ByWords, Shell
from tests.platforms.telegram.doors import until
from tests.platforms.webhook.doors import Program, door_to, settings_of
from tests.platforms.webhook.receiver import Break, Receiver, listening

from holdfast.core.approval import ApprovalState
from holdfast.core.ids import CallId
from holdfast.core.message import ToolCall
from holdfast.core.outbox import DeliveryState
from holdfast.core.settings import PlatformSettings, Settings

EVENT = {"action": "opened", "issue": {"number": 7, "title": "It breaks"}}


class Switchboard(World):
    """A world that programs post to."""

    def __init__(self, home: Path, receiver: Receiver, url: str) -> None:
        super().__init__(home / "state.db")
        self.receiver = receiver
        self.url = url
        self.shell = Shell()
        self.more_tools = [self.shell]
        self.judge = ByWords()
        self._listening = AsyncExitStack()
        self.program: Program

    async def open(self, **hook: Any) -> None:
        """Start it with that hook."""
        people = PlatformSettings(allow=("ann",))
        webhook = settings_of(self.url, hook=hook)
        self.settings = Settings(platforms={"webhook": webhook, "simulated": people})
        door = door_to(self.url, hook=hook)
        self.more_doors = [door]
        await self.start()
        address = await self._listening.enter_async_context(listening(door.routes()))
        http = await self._listening.enter_async_context(aiohttp.ClientSession(address))
        self.program = Program(http)
        await until(lambda: self.receiver.pings)

    async def close(self) -> None:
        await self._listening.aclose()
        await self.stop()

    async def read(self, *texts: str) -> None:
        await until(lambda: self.receiver.texts() == list(texts))

    async def settled(self, state: DeliveryState, number: int) -> None:
        while (await self.store.outbox_ledger())[state] < number:
            await asyncio.sleep(0.005)


@pytest.fixture
async def board(tmp_path: Path, receiver: Receiver, url: str) -> AsyncIterator[Switchboard]:
    world = Switchboard(tmp_path, receiver, url)
    yield world
    await world.close()


async def test_an_event_is_answered_at_the_receiver_in_a_conversation_of_its_own(
    board: Switchboard,
) -> None:
    await board.open(template="Issue {issue.number}: {issue.title}", thread="{issue.number}")
    board.model.say("I look into it", "and into that")
    await board.program.post(EVENT)
    await board.read("I look into it")
    await board.program.post({"issue": {"number": 8, "title": "So does this"}})
    await board.read("I look into it", "and into that")
    assert [each["thread"] for each in board.receiver.messages] == ["7", "8"]
    one, other = board.model.requests
    assert one.messages[-1].text == "Issue 7: It breaks"
    assert len(other.messages) == 1
    await board.settled(DeliveryState.SENT, 2)


async def test_an_event_that_is_posted_again_after_a_restart_is_answered_once(
    board: Switchboard,
) -> None:
    """G2: the cache of replays is the inbox, and outlives the process."""
    await board.open()
    board.model.say("once")
    assert (await board.program.post(EVENT))[0] == 202
    await board.read("once")
    await board.settled(DeliveryState.SENT, 1)
    await board.die()
    await board.start()
    await until(lambda: len(board.receiver.pings) == 2)
    status, told = await board.program.post(EVENT)
    assert (status, told["status"]) == (200, "duplicate")
    assert await board.ledger() == {"answered": 1}


async def test_an_answer_whose_receipt_was_lost_arrives_exactly_once(board: Switchboard) -> None:
    """I2: an idempotency key → exactly once, over breaks and faults of the receiver."""
    await board.open()
    board.receiver.faults = [Break.CUT_AFTER, (503, {}), Break.CUT_BEFORE]
    board.model.say("hello")
    await board.program.post(EVENT)
    await board.settled(DeliveryState.SENT, 1)
    assert board.receiver.texts() == ["hello"]
    assert len(board.receiver.headers) == 4


async def test_an_answer_that_was_cut_by_a_crash_arrives_exactly_once(board: Switchboard) -> None:
    await board.open()
    board.receiver.faults = [Break.CUT_AFTER, *[(503, {})] * 50]
    board.model.say("hello")
    await board.program.post(EVENT)
    await until(lambda: len(board.receiver.headers) >= 2)
    await board.die()
    board.receiver.faults = []
    await board.start()
    await board.settled(DeliveryState.SENT, 1)
    assert board.receiver.texts() == ["hello"]


async def test_a_hook_has_the_toolsets_that_it_is_given_and_its_neighbours_have_all(
    board: Switchboard,
) -> None:
    """Permissions: what the model is shown is all that it can call; A1: a person who goes on in
    the same conversation has the agent of a person."""
    await board.open(
        toolsets=("web",), platform="simulated", chat="ann", user="ann", template="{action}"
    )
    board.model.say("noted", "at once")
    await board.program.post(EVENT)
    sent = await board.sent(1)
    board.say("go on", chat="ann")
    await board.sent(2)
    hook, person = board.model.requests
    assert [tool.name for tool in hook.tools] == []
    assert "shell" in [tool.name for tool in person.tools]
    assert hook.messages[-1].text == "[Posted to the webhook build]\nopened"
    assert [each.text for each in person.messages][:2] == [hook.messages[-1].text, "noted"]
    assert sent[0].outgoing.chat_id == "ann"


async def test_a_hook_cannot_say_yes_to_its_own_question(board: Switchboard) -> None:
    """Law 12: one that may not command is text, a plain yes too."""
    await board.open(template="{say}")
    board.model.say([ToolCall(id=CallId("c1"), name="shell", arguments=RM)], "done")
    await board.program.post({"say": "clean up"})
    await until(lambda: board.receiver.messages)
    assert "May this run?" in board.receiver.texts()[0]
    for word in ("yes", "/approve"):
        await board.program.post({"say": word})
    (approval,) = await board.store.approvals(limit=5)
    assert approval.state is ApprovalState.PENDING
    assert board.shell.pulled == []


async def test_a_hook_that_may_not_speak_as_somebody_is_refused(board: Switchboard) -> None:
    """Law 12: who it speaks as must be let in where it speaks."""
    await board.open(platform="simulated", chat="eve", user="eve")
    assert (await board.program.post(EVENT))[0] == 403
    assert await board.ledger() == {"refused": 1}  # a pairing code went to the chat


async def test_a_receiver_that_is_away_gets_what_it_is_owed_when_it_is_back(
    board: Switchboard,
) -> None:
    """What is posted meanwhile is taken, and its answer waits."""
    await board.open()
    board.receiver.faults = [(500, {})] * 4
    board.model.say("hello")
    status, _ = await board.program.post(EVENT)
    assert status == 202
    await board.read("hello")
