"""Tests of writes in the last instants of a process: an end that the disk refused, and an approval
requested during the stop (F5, F7, H3)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.support.approvals import DD, RM, ApprovalHarness
from tests.support.controlled_store import Commit, ControlledStore, Intercepted
from tests.support.gateway_harness import Call, Until
from tests.support.stops import (
    mark_running_turns,
    note_texts,
    only_session_row,
    set_stop_timeouts,
    start_gateway,
    stop_gateway,
    wait_for_open_turns,
)

from holdfast.core.errors import StoreError
from holdfast.core.messages.inbox import InboxState
from holdfast.core.people.approval import ApprovalRequest
from holdfast.core.people.audit import AuditEntry
from holdfast.core.ports.command import Command, Query
from holdfast.core.ports.store_queries import ListApprovalRules, ListApprovals
from holdfast.core.turns.stop import StopKind, TurnExitReason
from holdfast.core.turns.turn import EndTurn
from holdfast.core.turns.turn_state import LaneState
from holdfast.gateway.turns.transcript_notes import interruption_note

R = TypeVar("R")


def no_op() -> None:
    """The default hook: do nothing."""


class HookedStore(ControlledStore):
    """A store that refuses the ends of turns while it is full, and calls hooks when a turn reads
    the approval rules or asks for an approval."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.full = False
        self.refused = 0
        self.on_read_rules: Callable[[], Any] = no_op
        self.on_ask: Callable[[], Any] = no_op

    async def read(self, query: Query[R]) -> R:
        if isinstance(query, ListApprovalRules):
            self.on_read_rules()
        return await super().read(query)

    def intercept(self, command: Command[Any], commit: Commit) -> Intercepted:
        if isinstance(command, EndTurn) and self.full:
            self.refused += 1
            return StoreError("the disk is full")
        return None

    def write(
        self, command: Command[R], *, audit: AuditEntry | None = None, deferred: bool = False
    ) -> asyncio.Future[R]:
        written = super().write(command, audit=audit, deferred=deferred)
        if isinstance(command, ApprovalRequest):
            self.on_ask()
        return written


class LastWritesHarness(ApprovalHarness):
    """An approval harness on a `HookedStore`."""

    store: HookedStore

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.open_store = HookedStore
        set_stop_timeouts(self)

    def mark_turns(self) -> None:
        """Do what the phase `mark` does, now."""
        self.store.on_read_rules = self.store.on_ask = no_op
        mark_running_turns(self, TurnExitReason.SHUTDOWN_TIMEOUT)

    async def stop_while_end_is_pending(self, until: Until) -> None:
        """Stop after the disk has refused the end of a turn; by then there is space again."""
        await until(lambda: self.store.refused > 0)
        self.store.full = False
        stopped = await stop_gateway(self, StopKind.STOP)
        assert (stopped.parked, stopped.interrupted) == (0, 0)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[LastWritesHarness]:
    harness = LastWritesHarness(tmp_path / "state.db")
    await harness.start()
    yield harness
    await harness.stop()


async def test_an_answer_that_the_disk_refused_is_written_by_the_stop(
    harness: LastWritesHarness, until: Until
) -> None:
    """H4, H1, F7: the next start sends it; the model is not asked again, and nothing is counted."""
    accepted = await harness.accept("hi")
    await harness.model.wait_for_request(1)
    await wait_for_open_turns(harness)
    harness.store.full = True
    harness.model.say("hello")
    await harness.stop_while_end_is_pending(until)
    await start_gateway(harness)
    assert (await harness.end_of(accepted)).text == "hello"
    assert len(harness.model.requests) == 1
    assert (await only_session_row(harness)).interruptions == 0


async def test_a_turn_that_its_user_stopped_on_a_full_disk_is_not_resumed(
    harness: LastWritesHarness, until: Until
) -> None:
    """H3, F9: the gateway stops while that end waits for the disk, and writes it."""
    accepted = await harness.accept("work")
    await harness.model.wait_for_request(1)
    await wait_for_open_turns(harness)
    harness.store.full = True
    stop = await harness.accept("/stop")
    await harness.stop_while_end_is_pending(until)
    await start_gateway(harness)
    assert (await harness.end_of(accepted)).state is InboxState.SUPERSEDED
    assert (await harness.end_of(stop)).text == "Stopped."
    assert len(harness.model.requests) == 1


async def test_a_turn_that_waits_and_was_stopped_on_a_full_disk_is_not_resumed(
    harness: LastWritesHarness, call: Call, until: Until
) -> None:
    """H3, F9, J3: no agent runs it, and its end is written nevertheless."""
    harness.model.say([call("shell", RM)])
    accepted = await harness.accept("clean up")
    await harness.pending_approvals()
    harness.store.full = True
    await harness.accept("/stop")
    await harness.stop_while_end_is_pending(until)
    await start_gateway(harness)
    assert (await harness.end_of(accepted)).state is InboxState.SUPERSEDED
    assert await harness.store.read(ListApprovals(limit=5, pending=True)) == []


async def test_a_turn_that_asks_in_the_instant_of_its_mark_was_not_interrupted(
    harness: LastWritesHarness, call: Call
) -> None:
    """C2, F5, F7: its question is stored before the mark, so it is at a boundary."""
    harness.store.on_ask = harness.mark_turns
    harness.model.say([call("shell", RM)])
    harness.say("clean up")
    await harness.pending_approvals()
    stopped = await stop_gateway(harness, StopKind.STOP)
    assert (stopped.parked, stopped.interrupted) == (1, 0)
    await start_gateway(harness)
    found = await only_session_row(harness)
    assert (found.interruptions, found.resume_pending) == (0, False)
    harness.say("/approve")
    request = await harness.model.wait_for_request(2)
    assert note_texts(request.messages) == []


async def test_a_marked_turn_asks_for_no_approval(
    harness: LastWritesHarness, call: Call, until: Until
) -> None:
    """F5, F6, F7: it is interrupted, counted and gets a note; its successor asks."""
    harness.store.on_read_rules = harness.mark_turns
    harness.model.say([call("shell", RM)])
    harness.say("clean up")
    await until(lambda: harness.gateway.lanes.count(LaneState.PARKED) == 1)
    assert await harness.store.read(ListApprovals(limit=5)) == []
    stopped = await stop_gateway(harness, StopKind.STOP)
    assert (stopped.parked, stopped.interrupted) == (0, 1)
    await start_gateway(harness)
    await harness.pending_approvals()
    assert (await only_session_row(harness)).interruptions == 1
    harness.say("/approve")
    request = await harness.model.wait_for_request(2)
    assert note_texts(request.messages) == [interruption_note("shutdown_timeout").text]


@pytest.mark.parametrize("kind", [None, StopKind.STOP], ids=["crash", "stop"])
async def test_a_turn_stopped_in_one_call_counts_as_interrupted_although_it_asked_about_the_next(
    harness: LastWritesHarness, call: Call, kind: StopKind | None
) -> None:
    """F6, F7, H3: it ran the approved call; one count, one note, and the second question stays."""
    harness.shell.go.clear()
    harness.model.say([call("shell", RM), call("shell", DD)])
    harness.say("clean up")
    first, _ = await harness.pending_approvals(number=2)
    harness.say(f"/approve {first.number}")
    await harness.shell.wait_until_started(1)
    harness.shell.known[harness.shell.started[0]] = "removed"
    if kind is None:
        await harness.die()
    else:
        await stop_gateway(harness, kind)
    await start_gateway(harness)
    [second] = await harness.pending_approvals()
    assert (second.number, (await only_session_row(harness)).interruptions) == (2, 1)
    harness.shell.go.set()
    harness.say("/approve 2")
    request = await harness.model.wait_for_request(2)
    assert note_texts(request.messages) == [
        interruption_note("crash" if kind is None else "shutdown_timeout").text
    ]
