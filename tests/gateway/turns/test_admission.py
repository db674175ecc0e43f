"""Tests of messages that reach a busy or stopped gateway: one persisted decision each, and commands
that take effect exactly once (G1 to G5)."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.controlled_store import Commit, ControlledStore, Intercepted
from tests.support.gateway_harness import Call, GatewayHarness, Until
from tests.support.stops import wait_for_open_turns
from tests.support.store_file import open_read_only

from holdfast.core.errors import StoreError
from holdfast.core.messages.inbox import Accepted, BusyMode, InboxState
from holdfast.core.messages.source import ChatType
from holdfast.core.messages.transcript import UserMessage
from holdfast.core.ports.command import Command
from holdfast.core.ports.store_commands import AcceptMessage, RecordBusyDecision, RecordSteer
from holdfast.core.ports.store_queries import GetInboxRow, ListNotebooks
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.turns.stop import StopOrder
from holdfast.core.turns.tool import ReplayClass
from holdfast.core.turns.turn import BeginTurn, EndTurn


class RecordingStore(ControlledStore):
    """A store that records the order of its writes, can delay the acceptance of messages, and
    refuses commands while it is full."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.writes: list[type[Command[Any]]] = []
        self.may_accept = asyncio.Event()
        self.may_accept.set()
        self.full = False

    def intercept(self, command: Command[Any], commit: Commit) -> Intercepted:
        if isinstance(
            command, AcceptMessage | RecordBusyDecision | BeginTurn | RecordSteer | EndTurn
        ):
            self.writes.append(type(command))
        if isinstance(command, AcceptMessage) and not self.may_accept.is_set():
            return self._accept_when_released(commit)
        if isinstance(command, CommandEffect) and self.full:
            return StoreError("the disk is full")
        return None

    async def _accept_when_released(self, commit: Commit) -> Any:
        await self.may_accept.wait()
        return await commit()


@pytest.fixture
async def recording(harness: GatewayHarness) -> GatewayHarness:
    """The harness, on a `RecordingStore`."""
    await harness.stop()
    harness.open_store = RecordingStore
    await harness.start()
    return harness


def recording_store(harness: GatewayHarness) -> RecordingStore:
    assert isinstance(harness.store, RecordingStore)
    return harness.store


def set_busy_mode(harness: GatewayHarness, mode: BusyMode) -> None:
    """Set the busy mode of the following starts."""
    gateway = msgspec.structs.replace(harness.settings.gateway, busy_mode=mode)
    harness.settings = msgspec.structs.replace(harness.settings, gateway=gateway)


async def accept_only(harness: GatewayHarness, like: Accepted, text: str) -> Accepted:
    """Store a message as accepted, as a process does that dies before it runs it."""
    harness.gateway.intake.close()
    inbound = msgspec.structs.replace(
        like.row.inbound, event_id=f"late {text}", message_id=f"late {text}", text=text
    )
    at, row = harness.clock.now(), like.row
    return await harness.store.write(
        AcceptMessage(inbound=inbound, route=row.route, principal=row.principal, at=at)
    )


async def test_no_message_is_acknowledged_before_its_commit(
    recording: GatewayHarness, until: Until
) -> None:
    """G1: the commit acknowledges it; until then the platform delivers it again."""
    store = recording_store(recording)
    store.may_accept.clear()
    recording.say("hi")
    await until(lambda: store.writes == [AcceptMessage])
    assert [said.acked for said in recording.service.ledger().said] == [False]
    store.may_accept.set()
    await until(lambda: recording.service.ledger().said[0].acked)
    assert sum((await recording.ledger()).values()) == 1


async def test_an_edit_is_another_event_about_the_same_message(harness: GatewayHarness) -> None:
    """G2: duplicates are recognised by the event id, not by the message id."""
    harness.model.say("one", "two")
    first = await harness.accept("tea", event_id="said", message_id="m")
    await harness.end_of(first)
    edited = await harness.accept("coffee", event_id="edited", message_id="m")
    assert not edited.duplicate
    assert (await harness.end_of(edited)).text == "two"


@pytest.mark.parametrize(
    ("mode", "follows"),
    [
        (BusyMode.INTERRUPT, EndTurn),
        (BusyMode.QUEUE, BeginTurn),
        (BusyMode.STEER, RecordSteer),
    ],
)
async def test_a_busy_decision_is_submitted_before_anything_that_follows_from_it(
    recording: GatewayHarness, call: Call, mode: BusyMode, follows: type[Command[Any]]
) -> None:
    """G4: one decision, stored with the session that it was made for."""
    store, tool = recording_store(recording), recording.held_tools[ReplayClass.SAFE]
    tool.go.clear()
    recording.model.say([call("safe")])
    await recording.accept("one")
    await tool.wait_until_started(1)
    store.writes.clear()
    second = await recording.accept("two", busy_mode=mode)
    tool.go.set()
    recording.model.say("done", "done")
    await recording.end_of(second)
    assert store.writes[:2] == [AcceptMessage, RecordBusyDecision]
    assert follows in store.writes[2:]
    row = await store.read(GetInboxRow(inbox_id=second.row.id))
    assert row is not None
    assert (row.decision, row.session_id) == (mode, await recording.only_session())


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
    """G4, H3: even if the configuration has changed; a message is decided about once."""
    first = await harness.accept("one", mergeable=False)
    await harness.model.wait_for_request(1)
    second = await accept_only(harness, first, "two")
    session = await harness.only_session()
    await harness.store.write(
        RecordBusyDecision(inbox_id=second.row.id, session_id=session, decision=decided)
    )
    await harness.die()
    set_busy_mode(harness, BusyMode.INTERRUPT if decided is BusyMode.QUEUE else BusyMode.QUEUE)
    await harness.start()
    harness.model.say("done", "done")
    await harness.end_of(first)
    await harness.end_of(second)
    assert await harness.ledger() == ledger
    row = await harness.store.read(GetInboxRow(inbox_id=second.row.id))
    assert row is not None
    assert row.decision is decided


async def test_a_message_sent_while_the_gateway_was_down_reaches_the_interrupted_turn(
    harness: GatewayHarness,
) -> None:
    """H3, G4, H5: turns resume before intake opens, so the message is admitted to them."""
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


@pytest.mark.parametrize("is_running", [True, False], ids=["running", "queued"])
async def test_a_reply_goes_to_the_thread_of_its_message_after_a_crash(
    harness: GatewayHarness, is_running: bool
) -> None:
    """G4: the row has the chat, the thread, the person and the message that is replied to."""
    thread = {"chat": "ops", "chat_type": ChatType.THREAD, "thread": "t7"}
    message = harness.say("first", **thread)
    await harness.model.wait_for_request(1)
    await wait_for_open_turns(harness)
    if not is_running:
        message = harness.say("/queue second", **thread)
        async with asyncio.timeout(30):
            while (await harness.ledger()).get("queued") != 1:
                await asyncio.sleep(0.005)
    await harness.die()
    await harness.start()
    harness.model.say("first answer", "second answer")
    sent = (await harness.sent(1 if is_running else 2))[-1].outgoing
    assert (sent.chat_id, sent.thread_id, sent.reply_to) == ("ops", "t7", message)


async def test_a_new_command_from_before_the_start_ends_the_messages_queued_before_it(
    harness: GatewayHarness,
) -> None:
    """G4: in the order of acceptance, across a crash: later messages go to the new session."""
    harness.model.say("hello", "fresh")
    first = await harness.accept("hi")
    old = (await harness.end_of(first)).session_id
    before = await accept_only(harness, first, "too late")
    new = await accept_only(harness, first, "/new")
    after = await accept_only(harness, first, "in time")
    await harness.die()
    await harness.start()
    ended = await harness.end_of(after)
    assert (ended.text, ended.session_id != old) == ("fresh", True)
    assert (await harness.end_of(before)).state is InboxState.SUPERSEDED
    assert (await harness.end_of(new)).state is InboxState.ANSWERED
    assert len(harness.model.requests) == 2


class RecordingLifecycle:
    """A process lifecycle that records the restarts it is asked for."""

    stop_order: StopOrder | None = None
    pending_restart: StopOrder | None = None

    def __init__(self) -> None:
        self.orders: list[StopOrder] = []

    async def restart(self, order: StopOrder, *, when_idle: bool = False) -> None:
        self.orders.append(order)

    def stop(self, order: StopOrder) -> None:
        raise AssertionError("only restarts are expected")


async def test_a_restart_from_before_this_start_is_not_executed(harness: GatewayHarness) -> None:
    """G5: otherwise it would restart every process that finds it."""
    await harness.stop()
    process = harness.lifecycle = RecordingLifecycle()
    await harness.start()
    harness.model.say("hello")
    first = await harness.accept("hi")
    await harness.end_of(first)
    restart = await accept_only(harness, first, "/restart now")
    await harness.die()
    await harness.start()
    ended = await harness.end_of(restart)
    assert (ended.state, process.orders) == (InboxState.SUPERSEDED, [])
    assert "before the gateway restarted" in ended.reason


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
        return [int(str(db.execute(COMMANDS[each]).fetchall()[0][0])) for each in commands]


async def test_a_command_whose_commit_fails_has_no_effect(
    recording: GatewayHarness,
) -> None:
    """G5: its effect is in the commit that ends its row; the next start executes it, once."""
    harness = recording
    for chat in COMMANDS:
        harness.model.say("hello")
        await harness.end_of(await harness.accept("hi", chat=chat))
    recording_store(harness).full = True
    asked = [await harness.accept(command, chat=command) for command in COMMANDS]
    for ended in await asyncio.gather(*map(harness.end_of, asked)):
        assert "runs when the gateway starts again" in ended.text
    assert effects(harness.path, COMMANDS) == [0] * len(COMMANDS)
    await harness.die()
    await harness.start()
    for each in asked:
        assert (await harness.end_of(each)).state is InboxState.ANSWERED
    assert effects(harness.path, COMMANDS) == [1] * len(COMMANDS)


async def test_a_memory_command_that_runs_again_adds_one_note(
    recording: GatewayHarness,
) -> None:
    """G5: /memory changes the notes first; repeated after a crash, it is the same change."""
    recording_store(recording).full = True
    asked = await recording.accept("/memory add Speaks Danish")
    await recording.end_of(asked)
    await recording.die()
    await recording.start()
    assert (await recording.end_of(asked)).state is InboxState.ANSWERED
    [notebook] = await recording.store.read(ListNotebooks(limit=5))
    assert [note.text for note in notebook.notes] == ["Speaks Danish"]
