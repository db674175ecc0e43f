"""Tests of recovery across a stop and the next start: marks, notes and counts (F5 to F8)."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.support.gateway_harness import Call, GatewayHarness, HeldTool, Until
from tests.support.stops import (
    mark_running_turns,
    note_texts,
    only_session_row,
    open_turn,
    restart_gateway,
    restart_with_timeouts,
    set_stop_timeouts,
    start_gateway,
    stop_gateway,
    wait_for_open_turns,
)
from tests.support.store_file import open_read_only

from holdfast.core.config.settings import CrashRecovery
from holdfast.core.messages.source import Source, build_session_key
from holdfast.core.messages.transcript import (
    AssistantMessage,
    Message,
    NoteMessage,
    ToolMessage,
    UserMessage,
)
from holdfast.core.ports.store_queries import GetSession, ListOpenTurns, ListSessions
from holdfast.core.sessions.session import SessionRow
from holdfast.core.turns.stop import StopKind, TurnExitReason
from holdfast.core.turns.tool import Arguments, ReplayClass, ToolContext, ToolOutput
from holdfast.core.turns.turn_state import LaneState
from holdfast.gateway.turns.transcript_notes import UNANSWERED_RESULTS_NOTE, interruption_note

KEY = build_session_key(Source(platform="simulated", chat_id="home", user_id="ann"))
NOW = {"now": True}


async def interrupt_in_model_call(harness: GatewayHarness, kind: StopKind) -> None:
    """Interrupt a turn in a model request by a stop without a drain."""
    harness.say("work")
    asked = len(harness.model.requests)
    await harness.model.wait_for_request(asked + 1)
    await wait_for_open_turns(harness)
    await restart_gateway(harness, kind, **NOW)


async def wait_for_answers(harness: GatewayHarness, number: int) -> None:
    async with asyncio.timeout(30):
        while (await harness.ledger()).get("answered", 0) < number:
            await asyncio.sleep(0.005)


class CancellationProbe(HeldTool):
    """A tool that reads the session row from the file in the instant in which it is cancelled."""

    def __init__(self, harness: GatewayHarness) -> None:
        super().__init__("probe", ReplayClass.NEVER)
        self._harness = harness
        self.rows: list[tuple[Any, ...]] = []

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        try:
            return await super().run(context, arguments)
        except asyncio.CancelledError:
            with open_read_only(self._harness.path) as db:
                found = db.execute("SELECT resume_pending, resume_reason, cuts FROM sessions")
                self.rows = found.fetchall()
            raise


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (StopKind.RESTART, "restart_timeout"),
        (StopKind.REPLACE, "restart_timeout"),
        (StopKind.STOP, "shutdown_timeout"),
        (StopKind.SIGNAL, "shutdown_timeout"),
    ],
)
async def test_a_running_turn_is_marked_before_it_is_interrupted(
    harness: GatewayHarness, call: Call, kind: StopKind, reason: str
) -> None:
    """F5: in one commit with the count, with the reason for the stop."""
    await harness.stop()
    probe = CancellationProbe(harness)
    probe.go.clear()
    harness.extra_tools = [probe]
    set_stop_timeouts(harness)
    await harness.start()
    harness.model.say([call("probe")])
    harness.say("work")
    await probe.wait_until_started(1)
    await stop_gateway(harness, kind)
    assert probe.rows == [(1, reason, 1)]
    probe.go.set()
    await start_gateway(harness)


async def test_a_clean_drain_marks_no_session(harness: GatewayHarness) -> None:
    """F5: neither idle sessions nor those that had never begun."""
    harness.model.say("hello")
    harness.say("hi")
    await harness.sent(1)
    stopped = await restart_gateway(harness)
    assert (stopped.interrupted, stopped.parked) == (0, 0)
    found = await only_session_row(harness)
    assert (found.resume_pending, found.interruptions) == (False, 0)


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (StopKind.RESTART, "a gateway restart"),
        (StopKind.STOP, "a gateway shutdown"),
        (None, "an interruption"),
    ],
    ids=["restart", "stop", "crash"],
)
async def test_a_resumed_turn_has_one_note_that_says_what_interrupted_it(
    harness: GatewayHarness, kind: StopKind | None, what: str
) -> None:
    """F6, H3: a record of its own after the last committed step."""
    harness.say("work")
    await harness.model.wait_for_request(1)
    await wait_for_open_turns(harness)
    if kind is None:
        await harness.die()
        await harness.start()
    else:
        await restart_gateway(harness, kind, **NOW)
    request = await harness.model.wait_for_request(2)
    user, note = request.messages
    assert user == UserMessage(text="work")
    assert isinstance(note, NoteMessage)
    assert note.text.startswith(f"[System note: {what} cut the last turn.")
    assert "history above is intact" in note.text
    assert "tool results first" in note.text


@pytest.mark.parametrize("last", ["user", "assistant", "tool"])
async def test_the_note_is_added_whatever_the_transcript_ends_with(
    harness: GatewayHarness, call: Call, last: str
) -> None:
    """F6: later requests repeat it identically."""
    harness.held_tools[ReplayClass.NEVER].go.clear()
    match last:
        case "user":
            harness.say("work")
            await harness.model.wait_for_request(1)
        case "assistant":
            harness.model.say([call("never")])
            harness.say("work")
            await harness.held_tools[ReplayClass.NEVER].wait_until_started(1)
        case "tool":
            harness.model.say([call("safe")])
            harness.say("work")
            await harness.model.wait_for_request(2)
    await wait_for_open_turns(harness)
    asked = len(harness.model.requests)
    await harness.die()
    harness.held_tools[ReplayClass.NEVER].go.set()
    await harness.start()
    request = await harness.model.wait_for_request(asked + 1)
    assert note_texts(request.messages) == [interruption_note("crash").text]
    harness.model.say("worked", "again")
    await wait_for_answers(harness, 1)
    harness.say("and now?")
    later = await harness.model.wait_for_request(asked + 2)
    assert later.messages[: len(request.messages)] == request.messages


async def test_a_marked_interruption_is_not_counted_again(harness: GatewayHarness) -> None:
    """F7: counted when marked, else by recovery; once per process."""
    await interrupt_in_model_call(harness, StopKind.RESTART)
    await harness.model.wait_for_request(2)
    found = await only_session_row(harness)
    assert (found.interruptions, found.resume_pending, found.resume_reason) == (
        1,
        True,
        "restart_timeout",
    )
    assert (await open_turn(harness)).exit_reason is None


async def test_a_mark_without_a_resume_has_one_note(harness: GatewayHarness) -> None:
    """F6: a process that dies before the turn resumes has interrupted nothing."""
    harness.say("work")
    await harness.model.wait_for_request(1)
    await wait_for_open_turns(harness)
    await stop_gateway(harness, StopKind.STOP)
    harness.store = harness.open_store(harness.path)
    async with harness.store:
        assert (await open_turn(harness)).exit_reason is TurnExitReason.SHUTDOWN_TIMEOUT
    await start_gateway(harness)
    request = await harness.model.wait_for_request(2)
    assert note_texts(request.messages) == [interruption_note("shutdown_timeout").text]
    assert (await only_session_row(harness)).interruptions == 1


async def test_a_marked_turn_that_finishes_loses_its_mark(
    harness: GatewayHarness, until: Until
) -> None:
    """F7: a completed turn clears the flag and the counter, also in the last moment."""
    harness.say("work")
    await harness.model.wait_for_request(1)
    await wait_for_open_turns(harness)
    leaving = mark_running_turns(harness, TurnExitReason.RESTART_TIMEOUT)
    await asyncio.gather(*leaving)
    assert (await only_session_row(harness)).interruptions == 1
    harness.model.say("worked")
    await wait_for_answers(harness, 1)
    found = await only_session_row(harness)
    assert (found.interruptions, found.resume_pending, found.resume_reason) == (0, False, None)


async def test_a_marked_turn_that_reaches_a_boundary_still_counts_as_interrupted(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """F5, F7: the first exit reason holds, also in the count of the stop."""
    await restart_with_timeouts(harness)
    harness.say("work")
    await harness.model.wait_for_request(1)
    await wait_for_open_turns(harness)
    lanes = harness.gateway.lanes
    await asyncio.gather(*mark_running_turns(harness, TurnExitReason.RESTART_TIMEOUT))
    lanes.park()
    harness.model.say([call("never")])
    await until(lambda: lanes.count(LaneState.PARKED) == 1)
    stopped = await stop_gateway(harness, StopKind.RESTART)
    assert (stopped.parked, stopped.interrupted) == (0, 1)
    await start_gateway(harness)
    request = await harness.model.wait_for_request(2)
    assert note_texts(request.messages) == [interruption_note("restart_timeout").text]
    assert (await only_session_row(harness)).interruptions == 1


async def exchange_messages(harness: GatewayHarness) -> SessionRow:
    harness.model.say("hello")
    harness.say("hi")
    await harness.sent(1)
    return await only_session_row(harness)


@pytest.mark.parametrize(
    ("reason", "what"),
    [
        ("restart_timeout", "a gateway restart"),
        ("shutdown_timeout", "a gateway shutdown"),
        ("something else", "an interruption"),
    ],
)
async def test_a_marked_session_without_a_turn_has_the_note_in_front_of_the_next_message(
    harness: GatewayHarness, reason: str, what: str
) -> None:
    """F6: the user's text is unchanged, the note is stored apart, and comes once."""
    before = await exchange_messages(harness)
    assert await harness.gateway.sessions.mark_resume_pending(KEY, reason=reason)
    await restart_gateway(harness)
    harness.say("go on")
    request = await harness.model.wait_for_request(2)
    note, user = request.messages[-2:]
    assert isinstance(note, NoteMessage)
    assert note.text.startswith(f"[System note: {what}")
    assert user == UserMessage(text="go on")
    harness.model.say("gone on")
    await wait_for_answers(harness, 2)
    harness.say("more")
    later = await harness.model.wait_for_request(3)
    assert later.messages[: len(request.messages)] == request.messages
    assert len(note_texts(later.messages)) == 1
    assert (await only_session_row(harness)).id == before.id


async def test_a_written_note_is_no_longer_pending(harness: GatewayHarness) -> None:
    """F6: the commit that writes it clears it; the next interruption has a note of its own."""
    await exchange_messages(harness)
    await harness.gateway.sessions.mark_resume_pending(KEY)
    harness.say("go on")
    await harness.model.wait_for_request(2)
    await wait_for_open_turns(harness)
    await harness.die()
    await harness.start()
    request = await harness.model.wait_for_request(3)
    assert [type(m) for m in request.messages[2:]] == [NoteMessage, UserMessage, NoteMessage]
    assert "a gateway restart" in note_texts(request.messages)[0]  # of the mark
    assert "an interruption" in note_texts(request.messages)[1]  # of the crash that came then


async def test_clearing_the_mark_clears_the_note(harness: GatewayHarness) -> None:
    """F2, F6: no note when nothing was interrupted."""
    await exchange_messages(harness)
    await harness.gateway.sessions.mark_resume_pending(KEY)
    assert await harness.gateway.sessions.clear_resume_pending(KEY)
    harness.say("go on")
    request = await harness.model.wait_for_request(2)
    assert note_texts(request.messages) == []


async def test_a_transcript_that_merely_ends_in_a_tool_result_has_the_weaker_note(
    harness: GatewayHarness, call: Call
) -> None:
    """F6: a user stopped that turn, and no session was marked."""
    harness.model.say([call("safe")])
    harness.say("work")
    await harness.model.wait_for_request(2)
    harness.say("/stop")
    await harness.sent(1)
    harness.say("something else")
    request = await harness.model.wait_for_request(3)
    assert isinstance(request.messages[-3], ToolMessage)
    assert request.messages[-2:] == (UNANSWERED_RESULTS_NOTE, UserMessage(text="something else"))
    harness.model.say("done")
    await wait_for_answers(harness, 2)  # the command too
    harness.say("and more")
    later = await harness.model.wait_for_request(4)
    assert later.messages[: len(request.messages)] == request.messages
    assert note_texts(later.messages) == [UNANSWERED_RESULTS_NOTE.text]


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (None, "gateway restart"),
        ("restart_timeout", "gateway restart"),
        ("shutdown_timeout", "gateway shutdown"),
        ("crash", "interruption"),
    ],
)
def test_the_note_has_the_words_of_the_contract(reason: str | None, words: str) -> None:
    """F6: readers of a transcript look for them literally."""
    text = interruption_note(reason).text
    assert text.startswith("[System note:") and words in text
    others = {"gateway restart", "gateway shutdown", "interruption"} - {words}
    assert not [other for other in others if other in text]


async def test_a_transcript_that_ends_with_an_answer_has_no_note(harness: GatewayHarness) -> None:
    """F6."""
    await exchange_messages(harness)
    await restart_gateway(harness)
    harness.say("again")
    request = await harness.model.wait_for_request(2)
    kinds: list[type[Message]] = [type(message) for message in request.messages]
    assert kinds == [UserMessage, AssistantMessage, UserMessage]


async def enable_suspend_recovery(harness: GatewayHarness) -> None:
    await harness.stop()
    gateway = msgspec.structs.replace(
        harness.settings.gateway, crash_recovery=CrashRecovery.SUSPEND, park_timeout=0
    )
    harness.settings = msgspec.structs.replace(harness.settings, gateway=gateway)
    await harness.start()


async def test_active_sessions_are_suspended_after_a_crash_if_configured(
    harness: GatewayHarness,
) -> None:
    """F8: the next message starts a fresh session."""
    await enable_suspend_recovery(harness)
    before = await exchange_messages(harness)
    await harness.die()
    await harness.start()
    found = await harness.store.read(GetSession(session_id=before.id))
    assert found is not None
    assert found.suspended
    harness.model.say("hello again")
    harness.say("hi again")
    await wait_for_answers(harness, 2)
    assert len(await harness.store.read(ListSessions(limit=5))) == 2


async def test_suspending_active_sessions_returns_the_count_and_spares_marked_ones(
    harness: GatewayHarness,
) -> None:
    """F8: except those marked resume-pending, those long silent, and those suspended already."""
    harness.model.say("one", "two", "three")
    for number, chat in enumerate(("home", "other", "third"), 1):
        harness.say("hi", chat=chat)
        await harness.sent(number)
    sessions = harness.gateway.sessions
    await sessions.mark_resume_pending(KEY)
    assert await sessions.suspend_recently_active(within=120) == 2
    assert await sessions.suspend_recently_active(within=120) == 0
    assert not (await sessions.get_or_create_session(SOURCE)).was_auto_reset


SOURCE = Source(platform="simulated", chat_id="home", user_id="ann")


async def test_a_session_silent_for_longer_is_not_suspended(harness: GatewayHarness) -> None:
    """F8: within 120 s."""
    await exchange_messages(harness)
    async with asyncio.timeout(30):
        while await harness.gateway.sessions.suspend_recently_active(within=-1):
            await asyncio.sleep(0.005)
    assert not (await only_session_row(harness)).suspended


async def test_a_clean_stop_suspends_no_session(harness: GatewayHarness) -> None:
    """F8: only after a crash; a marked turn resumes."""
    await enable_suspend_recovery(harness)
    harness.say("work")
    await harness.model.wait_for_request(1)
    await wait_for_open_turns(harness)
    await restart_gateway(harness, StopKind.RESTART)
    request = await harness.model.wait_for_request(2)
    assert note_texts(request.messages) == [interruption_note("restart_timeout").text]
    assert not (await only_session_row(harness)).suspended


async def test_a_turn_interrupted_by_a_crash_fails_if_configured(
    harness: GatewayHarness,
) -> None:
    """F8: its sender is told."""
    await enable_suspend_recovery(harness)
    harness.say("work")
    await harness.model.wait_for_request(1)
    await wait_for_open_turns(harness)
    await harness.die()
    await harness.start()
    [notice] = [text for text in await harness.texts(1) if "configured not to resume" in text]
    assert notice
    assert await harness.ledger() == {"failed": 1}


async def test_a_marked_session_that_crashes_again_is_not_suspended(
    harness: GatewayHarness,
) -> None:
    """F8: it is exempt from `crash_recovery = "suspend"`, until it was cut three times (F7)."""
    await enable_suspend_recovery(harness)
    harness.say("work")
    await harness.model.wait_for_request(1)
    await wait_for_open_turns(harness)
    await restart_gateway(harness, StopKind.RESTART)
    await harness.model.wait_for_request(2)
    assert (await only_session_row(harness)).resume_pending
    await harness.die()
    await harness.start()
    await harness.model.wait_for_request(3)
    row = await only_session_row(harness)
    assert (row.suspended, row.resume_pending, row.interruptions) == (False, True, 2)
    await harness.die()
    await harness.start()
    await harness.sent(1)
    assert (await only_session_row(harness)).suspended


async def test_a_turn_of_a_suspended_session_is_not_resumed(
    harness: GatewayHarness,
) -> None:
    """F4, G3: it ends as failed, and its sender is told."""
    harness.say("work")
    await harness.model.wait_for_request(1)
    await wait_for_open_turns(harness)
    assert await harness.gateway.sessions.suspend_session(KEY)
    await harness.die()
    await harness.start()
    assert any("conversation was suspended" in text for text in await harness.texts(1))
    assert await harness.ledger() == {"failed": 1}
    assert len(harness.model.requests) == 1
    assert await harness.store.read(ListOpenTurns()) == []
    assert (await only_session_row(harness)).suspended


async def test_a_suspended_session_is_not_marked_by_a_stop(harness: GatewayHarness) -> None:
    """F2: no change on a suspended session."""
    await restart_with_timeouts(harness)
    harness.say("work")
    await harness.model.wait_for_request(1)
    await wait_for_open_turns(harness)
    await harness.gateway.sessions.suspend_session(KEY)
    await stop_gateway(harness, StopKind.STOP)
    harness.store = harness.open_store(harness.path)
    async with harness.store:
        found = await only_session_row(harness)
    assert (found.resume_pending, found.interruptions) == (False, 0)
    await harness.start()
