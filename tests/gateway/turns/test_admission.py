"""Chapter G, what is said to a gateway that is busy or dead: one kept decision, one place, and no
command that is done by halves or done again."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.gateway_harness import Call, GatewayHarness, Until
from tests.support.stops import wait_for_open_turns
from tests.support.store_file import open_read_only

from holdfast.core.errors import StoreError
from holdfast.core.messages.inbox import Accepted, BusyMode, InboxState
from holdfast.core.messages.source import ChatType
from holdfast.core.messages.transcript import UserMessage
from holdfast.core.turns.stop import StopOrder
from holdfast.core.turns.tool import ReplayClass
from holdfast.store.sqlite.store import SqliteStore

APART = {"mergeable": False}


class Listening(SqliteStore):
    """A store that keeps in which order it was asked to write, holds what is accepted back, and
    takes no command while it is full."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.heard: list[str] = []
        self.accepting = asyncio.Event()
        self.accepting.set()
        self.full = False

    async def accept(self, *arguments: Any, **more: Any) -> Any:
        self.heard.append("accept")
        await self.accepting.wait()
        return await super().accept(*arguments, **more)

    def record_busy_decision(self, *arguments: Any, **more: Any) -> Any:
        self.heard.append("decide")
        return super().record_busy_decision(*arguments, **more)

    def begin_turn(self, *arguments: Any, **more: Any) -> Any:
        self.heard.append("begin_turn")
        return super().begin_turn(*arguments, **more)

    def record_steer(self, *arguments: Any, **more: Any) -> Any:
        self.heard.append("record_steer")
        return super().record_steer(*arguments, **more)

    def end_turn(self, *arguments: Any, **more: Any) -> Any:
        self.heard.append("end_turn")
        return super().end_turn(*arguments, **more)

    def apply_command(self, *arguments: Any, **more: Any) -> Any:
        if not self.full:
            return super().apply_command(*arguments, **more)
        refused = asyncio.get_running_loop().create_future()
        refused.set_exception(StoreError("the disk is full"))
        return refused


@pytest.fixture
async def listening(harness: GatewayHarness) -> GatewayHarness:
    """The harness, on such a store."""
    await harness.stop()
    harness.open_store = Listening
    await harness.start()
    return harness


def store_of(harness: GatewayHarness) -> Listening:
    assert isinstance(harness.store, Listening)
    return harness.store


def busy(harness: GatewayHarness, mode: BusyMode) -> None:
    """For the starts that follow."""
    gateway = msgspec.structs.replace(harness.settings.gateway, busy_mode=mode)
    harness.settings = msgspec.structs.replace(harness.settings, gateway=gateway)


async def kept(harness: GatewayHarness, like: Accepted, text: str) -> Accepted:
    """Accepted by a process that did not live to do anything about it."""
    inbound = msgspec.structs.replace(
        like.row.inbound, event_id=f"late {text}", message_id=f"late {text}", text=text
    )
    at, row = harness.clock.now(), like.row
    return await harness.store.accept(inbound, route=row.route, principal=row.principal, at=at)


async def test_no_message_is_acknowledged_before_its_commit(
    listening: GatewayHarness, until: Until
) -> None:
    """G1: the platform hears so from the commit; until then it is the platform's to give again."""
    store = store_of(listening)
    store.accepting.clear()
    listening.say("hi")
    await until(lambda: store.heard == ["accept"])
    assert [said.acked for said in listening.service.ledger().said] == [False]
    store.accepting.set()
    await until(lambda: listening.service.ledger().said[0].acked)
    assert sum((await listening.ledger()).values()) == 1


async def test_an_edit_is_another_event_about_the_same_message(harness: GatewayHarness) -> None:
    """G2: what is told apart is the event, and not the message that it is about."""
    harness.model.say("one", "two")
    first = await harness.accept("tea", event_id="said", message_id="m")
    await harness.end_of(first)
    edited = await harness.accept("coffee", event_id="edited", message_id="m")
    assert not edited.duplicate
    assert (await harness.end_of(edited)).text == "two"


@pytest.mark.parametrize(
    ("mode", "follows"),
    [
        (BusyMode.INTERRUPT, "end_turn"),
        (BusyMode.QUEUE, "begin_turn"),
        (BusyMode.STEER, "record_steer"),
    ],
)
async def test_a_busy_decision_is_submitted_before_anything_that_follows_from_it(
    listening: GatewayHarness, call: Call, mode: BusyMode, follows: str
) -> None:
    """G4: one decision, kept with the session that it was made for."""
    store, lever = store_of(listening), listening.held_tools[ReplayClass.SAFE]
    lever.go.clear()
    listening.model.say([call("safe")])
    await listening.accept("one")
    await lever.wait_until_started(1)
    store.heard.clear()
    second = await listening.accept("two", busy_mode=mode)
    lever.go.set()
    listening.model.say("done", "done")
    await listening.end_of(second)
    assert store.heard[:2] == ["accept", "decide"]
    assert follows in store.heard[2:]
    row = await store.inbox_row(second.row.id)
    assert row is not None
    assert (row.decision, row.session_id) == (mode, await listening.only_session())


@pytest.mark.parametrize(
    ("decided", "ledger"),
    [
        (BusyMode.QUEUE, {"answered": 2}),
        (BusyMode.INTERRUPT, {"answered": 1, "merged": 1}),
        (BusyMode.STEER, {"answered": 1, "merged": 1}),
    ],
)
async def test_a_busy_decision_holds_for_the_next_process(
    harness: GatewayHarness, decided: BusyMode, ledger: dict[str, int]
) -> None:
    """G4, H3: whatever its configuration has become; a message is decided about once."""
    first = await harness.accept("one", **APART)
    await harness.model.wait_for_request(1)
    second = await kept(harness, first, "two")
    session = await harness.only_session()
    await harness.store.record_busy_decision(second.row.id, session_id=session, decision=decided)
    await harness.die()
    busy(harness, BusyMode.INTERRUPT if decided is BusyMode.QUEUE else BusyMode.QUEUE)
    await harness.start()
    harness.model.say("done", "done")
    await harness.end_of(first)
    await harness.end_of(second)
    assert await harness.ledger() == ledger
    row = await harness.store.inbox_row(second.row.id)
    assert row is not None
    assert row.decision is decided


async def test_a_message_sent_while_the_gateway_was_down_reaches_the_interrupted_turn(
    harness: GatewayHarness,
) -> None:
    """H3, G4, H5: turns are gone on with before intake opens, so it is admitted to them."""
    harness.say("work")
    await harness.model.wait_for_request(1)
    await harness.die()
    harness.say("and more")
    await harness.start()
    async with asyncio.timeout(30):
        while (request := harness.model.requests[-1]).messages[-1] != UserMessage(text="and more"):
            await asyncio.sleep(0.005)
    assert [m for m in request.messages if isinstance(m, UserMessage)] == [
        UserMessage(text="work"),
        UserMessage(text="and more"),
    ]
    harness.model.say("all of it")
    assert await harness.texts(1) == ["all of it"]
    assert await harness.ledger() == {"answered": 1, "merged": 1}


@pytest.mark.parametrize("at_work", [True, False], ids=["at work", "unstarted"])
async def test_a_reply_goes_to_the_thread_of_its_message_after_a_crash(
    harness: GatewayHarness, at_work: bool
) -> None:
    """G4: the row has the chat, the thread, the person and the message that is replied to."""
    thread = {"chat": "ops", "chat_type": ChatType.THREAD, "thread": "t7"}
    message = harness.say("first", **thread)
    await harness.model.wait_for_request(1)
    await wait_for_open_turns(harness)
    if not at_work:
        message = harness.say("/queue second", **thread)
        async with asyncio.timeout(30):
            while (await harness.ledger()).get("queued") != 1:
                await asyncio.sleep(0.005)
    await harness.die()
    await harness.start()
    harness.model.say("first answer", "second answer")
    sent = (await harness.sent(1 if at_work else 2))[-1].outgoing
    assert (sent.chat_id, sent.thread_id, sent.reply_to) == ("ops", "t7", message)


async def test_a_new_command_from_before_the_start_ends_the_messages_queued_before_it(
    harness: GatewayHarness,
) -> None:
    """G4: in the order of acceptance, over a crash: what came after it is the new session's."""
    harness.model.say("hello", "fresh")
    first = await harness.accept("hi")
    old = (await harness.end_of(first)).session_id
    before = await kept(harness, first, "too late")
    new = await kept(harness, first, "/new")
    after = await kept(harness, first, "in time")
    await harness.die()
    await harness.start()
    ended = await harness.end_of(after)
    assert (ended.text, ended.session_id != old) == ("fresh", True)
    assert (await harness.end_of(before)).state is InboxState.SUPERSEDED
    assert (await harness.end_of(new)).state is InboxState.ANSWERED
    assert len(harness.model.requests) == 2


class Restarts:
    """A process that counts how often it is asked to start anew."""

    order: StopOrder | None = None
    waiting: StopOrder | None = None

    def __init__(self) -> None:
        self.asked: list[StopOrder] = []

    async def restart(self, order: StopOrder, *, when_idle: bool = False) -> None:
        self.asked.append(order)


async def test_a_restart_from_before_this_start_is_not_executed(harness: GatewayHarness) -> None:
    """G5: it would restart every successor that finds it."""
    await harness.stop()
    process = harness.lifecycle = Restarts()
    await harness.start()
    harness.model.say("hello")
    first = await harness.accept("hi")
    await harness.end_of(first)
    restart = await kept(harness, first, "/restart now")
    await harness.die()
    await harness.start()
    ended = await harness.end_of(restart)
    assert (ended.state, process.asked) == (InboxState.SUPERSEDED, [])
    assert "before the gateway was started again" in ended.reason


COMMANDS = {
    "/new": "SELECT count(*) FROM sessions WHERE ended_at IS NOT NULL",
    "/busy queue": "SELECT count(*) FROM busy WHERE mode = 'queue'",
    "/model other": "SELECT count(*) FROM sessions WHERE model_override = 'other'",
    "/title Tea time": "SELECT count(*) FROM sessions WHERE title = 'Tea time'",
    "/undo": "SELECT count(*) FROM undone",
    "/fork Copy": "SELECT count(*) FROM sessions WHERE title = 'Copy'",
}


def effects(path: Path, commands: Iterable[str]) -> list[int]:
    with open_read_only(path) as db:
        return [int(db.execute(COMMANDS[each]).fetchall()[0][0]) for each in commands]


async def test_a_command_whose_commit_fails_has_no_effect(
    listening: GatewayHarness,
) -> None:
    """G5: its effect is in the commit that ends its row; the next start carries it out, once."""
    harness = listening
    for chat in COMMANDS:
        harness.model.say("hello")
        await harness.end_of(await harness.accept("hi", chat=chat))
    store_of(harness).full = True
    asked = [await harness.accept(command, chat=command) for command in COMMANDS]
    for told in await asyncio.gather(*map(harness.end_of, asked)):
        assert "carried out when the gateway starts again" in told.text
    assert effects(harness.path, COMMANDS) == [0] * len(COMMANDS)
    await harness.die()
    await harness.start()
    for each in asked:
        assert (await harness.end_of(each)).state is InboxState.ANSWERED
    assert effects(harness.path, COMMANDS) == [1] * len(COMMANDS)


async def test_a_memory_command_that_runs_again_adds_one_note(
    listening: GatewayHarness,
) -> None:
    """G5: /memory changes the notes first; done again behind a crash, it is the same change."""
    store_of(listening).full = True
    asked = await listening.accept("/memory add Speaks Danish")
    await listening.end_of(asked)
    await listening.die()
    await listening.start()
    assert (await listening.end_of(asked)).state is InboxState.ANSWERED
    [notebook] = await listening.store.notebooks(limit=5)
    assert [note.text for note in notebook.notes] == ["Speaks Danish"]
