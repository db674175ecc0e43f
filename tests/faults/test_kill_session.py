"""`kill -9` and the state of a session: interruptions, processes and messages sent meanwhile."""

import asyncio
import json
import sys

from tests.faults.conservation import (
    ANSWERED,
    StoreContents,
    check_invariants,
    effect_message,
    messages_end_with_one_reply,
    plain_message,
)
from tests.support.process_harness import ProcessHarness
from tests.support.stores import open_store

from holdfast.core.crash_points import CrashPoint
from holdfast.core.ids import PrincipalId, SessionId, TurnId
from holdfast.core.messages.inbox import Inbound, InboxState
from holdfast.core.messages.source import Source, build_session_key
from holdfast.core.messages.transcript import UserMessage
from holdfast.core.ports.store_commands import AcceptMessage, ResumeTurn
from holdfast.core.turns.turn import BeginTurn
from holdfast.gateway.turns.transcript_notes import interruption_note
from holdfast.testing.simulated.events import Faults

WITH_FAILED = ANSWERED | {InboxState.FAILED}


async def test_a_turn_interrupted_three_times_is_given_up_and_the_next_message_gets_a_new_session(
    process_harness: ProcessHarness,
) -> None:
    """F7, H3, F4: first run and two resumes; its user is notified, and is answered from then on."""
    await process_harness.people.say(effect_message("a"))
    for point in (CrashPoint.REPLY_COMMITTED, CrashPoint.MODEL_CALLED, CrashPoint.MODEL_CALLED):
        await process_harness.launch(point)
        await process_harness.wait_for_crash()
    await process_harness.start()
    await process_harness.wait_until_settled()
    await process_harness.people.say(plain_message("b"))
    contents = await check_invariants(process_harness, ends=WITH_FAILED)
    notice, fresh, answer = _replies(contents)
    assert "interrupted 3 times" in notice
    assert "fresh conversation" in fresh
    assert answer == "answer to b"
    assert len(contents.transcripts) == 2, "the next message was to have a session of its own"
    assert [row.state for row in contents.inbox.values()] == ["failed", "answered"]


async def test_the_command_of_a_turn_that_is_given_up_is_ended(
    process_harness: ProcessHarness,
) -> None:
    """F7, J2: no turn waits for it any more, and its user was notified that it has ended."""
    await process_harness.start()
    command = "echo $$ > pid; until test -e go; do sleep 0.05; done; echo ran >> effects.log"
    await process_harness.people.say(
        f'run [tool terminal {{"command": "{command}"}}] [then] [text ran]'
    )
    await process_harness.until(lambda: any(process_harness.paths.workspaces.glob("*/pid")))
    await process_harness.kill()
    for _ in range(2):
        await process_harness.launch(CrashPoint.RESUME_COMMITTED)
        await process_harness.wait_for_crash()
    await process_harness.start()
    await process_harness.wait_until_settled()
    [workspace] = process_harness.paths.workspaces.iterdir()
    (workspace / "go").touch()
    await asyncio.sleep(0.5)
    assert process_harness.effects() == []
    assert not (await process_harness.status())["inbox_counts"]["running"]


async def test_a_message_queued_behind_a_turn_that_is_given_up_runs_in_the_fresh_session(
    process_harness: ProcessHarness,
) -> None:
    """F7: what waited behind a stuck turn is answered, and not lost with it."""
    await process_harness.start()
    await process_harness.people.say("a [latency 30] [text never said]")
    while not (await process_harness.status())["inbox_counts"]["running"]:
        await asyncio.sleep(0.02)
    await process_harness.people.say(plain_message("b"))
    while not all(said.acked for said in (await process_harness.people.ledger()).said):
        await asyncio.sleep(0.02)
    await process_harness.kill()
    for _ in range(2):
        await process_harness.launch(CrashPoint.MODEL_CALLED)
        await process_harness.wait_for_crash()
    await process_harness.start()
    contents = await check_invariants(process_harness, ends=WITH_FAILED)
    notice, fresh, answer = _replies(contents)
    assert "interrupted 3 times" in notice
    assert "fresh conversation" in fresh
    assert answer == "answer to b"


async def test_messages_of_one_turn_are_given_up_together_with_one_reply(
    process_harness: ProcessHarness,
) -> None:
    """F7, G3: one reply says why, and every message of the turn ends in it."""
    await write_twice_interrupted_turn(process_harness, "b", "c")
    await process_harness.start()
    contents = StoreContents(
        process_harness, await process_harness.wait_until_settled(), idempotent=False
    )
    assert [row.state for row in contents.inbox.values()] == ["merged", "failed"]
    assert not list(messages_end_with_one_reply(contents))
    [notice] = [sent.outgoing.text for sent in contents.ledger.sent]
    assert "interrupted 3 times" in notice


def _replies(contents: StoreContents) -> list[str]:
    """The bot's messages, without notices about messages that have to wait."""
    texts = [sent.outgoing.text for sent in contents.ledger.sent]
    return [text for text in texts if not text.startswith("I ")]


async def write_twice_interrupted_turn(process_harness: ProcessHarness, *texts: str) -> None:
    """Write the store of a gateway that died twice in a turn of several messages. Which messages
    share a turn is a matter of microseconds, so no real gateway is used."""
    source = Source(platform="simulated", chat_id="home", user_id="ann")
    route, session, turn = build_session_key(source), SessionId("s_1"), TurnId("turn_1")
    async with open_store(process_harness.paths.db) as store:
        rows = [
            await store.write(
                AcceptMessage(
                    inbound=Inbound(source=source, event_id=text, message_id=text, text=text),
                    route=route,
                    principal=PrincipalId("simulated:default:ann"),
                    at=1.0,
                )
            )
            for text in texts
        ]
        await store.write(
            BeginTurn(
                turn_id=turn,
                session_id=session,
                route=route,
                inbox_ids=tuple(accepted.row.id for accepted in rows),
                messages=tuple(UserMessage(text=text) for text in texts),
                prompt="be brief",
                at=1.0,
            )
        )
        for _ in range(2):
            await store.write(
                ResumeTurn(
                    turn_id=turn, session_id=session, note=interruption_note("crash"), at=1.0
                )
            )


async def test_a_completed_turn_resets_the_count_of_interruptions(
    process_harness: ProcessHarness,
) -> None:
    """F7: only interruptions in a row count; a completed turn clears them."""
    for name in ("a", "b"):
        await process_harness.people.say(effect_message(name))
        for point in (CrashPoint.REPLY_COMMITTED, CrashPoint.MODEL_CALLED):
            await process_harness.launch(point)
            await process_harness.wait_for_crash()
        await process_harness.start()
        await process_harness.wait_until_settled()
        await process_harness.kill()
    await process_harness.start()
    contents = await check_invariants(process_harness)
    assert len(contents.transcripts) == 1


async def test_a_background_process_survives_a_kill_and_is_listed_by_the_next_gateway(
    process_harness: ProcessHarness,
) -> None:
    """J2: it keeps running, it can be listed, and its end is known."""
    await process_harness.start()
    command = "echo up >> effects.log; until test -e go; do sleep 0.05; done; echo down"
    start = f'[tool process {{"action": "start", "command": "{command}"}}]'
    await process_harness.people.say(f"start {start} [then] [text started]")
    await process_harness.until(lambda: process_harness.effects() == ["up"])
    await process_harness.wait_until_settled()
    await process_harness.kill()
    await process_harness.start()
    await process_harness.people.say('list [tool process {"action": "list"}]')
    await process_harness.wait_until_settled()
    terminal = '[tool terminal {"command": "touch go"}]'
    wait = '[tool process {"action": "wait", "id": "p1", "timeout": 20}]'
    await process_harness.people.say(f"end {terminal} [then] {wait}")
    contents = await check_invariants(process_harness)
    _, listed, ended = [sent.outgoing.text for sent in contents.ledger.sent]
    assert "running" in listed
    assert "exit code 0" in ended
    assert "down" in ended
    assert process_harness.effects() == ["up"], "it was started once"


async def test_a_message_sent_while_down_is_answered_after_start(
    process_harness: ProcessHarness,
) -> None:
    """G1: the platform keeps it, before the first start and between two."""
    await process_harness.people.say(plain_message("a"))
    await process_harness.start()
    await process_harness.wait_until_settled()
    await process_harness.kill()
    await process_harness.people.say(effect_message("b"))
    await process_harness.people.say(plain_message("c"), chat="other")
    await process_harness.start()
    await check_invariants(process_harness)


async def test_an_update_delivered_twice_is_accepted_once(process_harness: ProcessHarness) -> None:
    """G2: by the same gateway, and by one that never saw the first."""
    await process_harness.people.set_faults(Faults(duplicates=1))
    await process_harness.start()
    await process_harness.people.say(effect_message("a"))
    await process_harness.wait_until_settled()
    await process_harness.kill()
    await process_harness.start(CrashPoint.ACCEPT_COMMITTED)
    await process_harness.people.say(plain_message("b"))
    await process_harness.wait_for_crash()
    await process_harness.start()
    contents = await check_invariants(process_harness)
    assert [said.times_given for said in contents.ledger.said] == [2, 2]


async def test_a_message_that_arrives_during_a_stop_is_answered_by_the_next_gateway(
    process_harness: ProcessHarness,
) -> None:
    """C1, G1: closed intake acknowledges nothing, and the stop goes through all the same."""
    await process_harness.start()
    await process_harness.people.say(effect_message("a"))
    await process_harness.wait_until_settled()
    stopping = asyncio.create_task(process_harness.stop())
    for number in range(20):
        await process_harness.people.say(plain_message(f"late{number}"), chat=f"chat{number}")
        await asyncio.sleep(0.01)
    await stopping
    await process_harness.start()
    await check_invariants(process_harness)


async def test_status_shows_balanced_message_counts_after_a_kill(
    process_harness: ProcessHarness,
) -> None:
    """G3: accepted less ended = in flight + queued, as `holdfast status --json` has it."""
    await process_harness.start(CrashPoint.CALL_RETURNED)
    await process_harness.people.say(effect_message("a"))
    await process_harness.wait_for_crash()
    await process_harness.start()
    await process_harness.wait_until_settled()
    ledger: dict[str, int] = {}
    while not ledger:  # the first snapshot may not exist yet
        status = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "holdfast.cli",
            "status",
            "--json",
            stdout=asyncio.subprocess.PIPE,
            env=process_harness.environment(),
        )
        output, _ = await status.communicate()
        ledger = json.loads(output)["snapshot"]["inbox_counts"]
    assert ledger["accepted"] == ledger["answered"] == 1
    assert ledger["queued"] == ledger["running"] == 0
    await check_invariants(process_harness)
