"""`kill -9` and what belongs to a session: its cuts, its processes, its messages meanwhile."""

import asyncio
import json
import sys

from tests.faults.laws import ANSWERED, Books, check_laws, effect, ended_visibly, plain
from tests.faults.world import World

from holdfast.core.crash_points import CrashPoint
from holdfast.core.ids import PrincipalId, SessionId, TurnId
from holdfast.core.messages.inbox import Inbound, InboxState
from holdfast.core.messages.source import Source, build_session_key
from holdfast.core.messages.transcript import UserMessage
from holdfast.core.turns.turn import BeginTurn
from holdfast.gateway.turns.transcript_notes import interruption_note
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.simulated.events import Faults

WITH_FAILED = ANSWERED | {InboxState.FAILED}


async def test_a_turn_cut_three_times_is_given_up_and_the_next_message_begins_afresh(
    world: World,
) -> None:
    """F7, H3, F4: first run and two resumes; its user is told, and is answered from then on."""
    await world.people.say(effect("a"))
    for point in (CrashPoint.REPLY_COMMITTED, CrashPoint.MODEL_CALLED, CrashPoint.MODEL_CALLED):
        await world.begin(point)
        await world.dies()
    await world.start()
    await world.settled()
    await world.people.say(plain("b"))
    books = await check_laws(world, ends=WITH_FAILED)
    told, fresh, answer = _replies(books)
    assert "interrupted 3 times" in told
    assert "fresh conversation" in fresh
    assert answer == "answer to b"
    assert len(books.transcripts) == 2, "the next message was to have a session of its own"
    assert [row.state for row in books.inbox.values()] == ["failed", "answered"]


async def test_a_command_of_a_turn_that_is_given_up_does_not_run_on(world: World) -> None:
    """F7, J2: no turn wants it any more, and its user was told that it has ended."""
    await world.start()
    command = "echo $$ > pid; until test -e go; do sleep 0.05; done; echo ran >> effects.log"
    await world.people.say(f'run [tool terminal {{"command": "{command}"}}] [then] [text ran]')
    await world.until(lambda: any(world.paths.workspaces.glob("*/pid")))
    await world.kill()
    for _ in range(2):
        await world.begin(CrashPoint.RESUME_COMMITTED)
        await world.dies()
    await world.start()
    await world.settled()
    [workspace] = world.paths.workspaces.iterdir()
    (workspace / "go").touch()
    await asyncio.sleep(0.5)
    assert world.effects() == []
    assert not (await world.status())["inbox_counts"]["running"]


async def test_a_message_queued_behind_a_turn_that_is_given_up_runs_in_the_fresh_session(
    world: World,
) -> None:
    """F7: what waited behind a stuck turn is answered, and not lost with it."""
    await world.start()
    await world.people.say("a [latency 30] [text never said]")
    while not (await world.status())["inbox_counts"]["running"]:
        await asyncio.sleep(0.02)
    await world.people.say(plain("b"))
    while not all(said.acked for said in (await world.people.ledger()).said):
        await asyncio.sleep(0.02)
    await world.kill()
    for _ in range(2):
        await world.begin(CrashPoint.MODEL_CALLED)
        await world.dies()
    await world.start()
    books = await check_laws(world, ends=WITH_FAILED)
    told, fresh, answer = _replies(books)
    assert "interrupted 3 times" in told
    assert "fresh conversation" in fresh
    assert answer == "answer to b"


async def test_messages_that_ran_together_are_given_up_together_and_told_once(
    world: World,
) -> None:
    """F7, G3: one reply says why, and every message of the turn ends in it."""
    await cut_twice_in_one_turn(world, "b", "c")
    await world.start()
    books = Books(world, await world.settled(), idempotent=False)
    assert [row.state for row in books.inbox.values()] == ["merged", "failed"]
    assert not list(ended_visibly(books))
    [told] = [sent.outgoing.text for sent in books.ledger.sent]
    assert "interrupted 3 times" in told


def _replies(books: Books) -> list[str]:
    """What was sent, but for what is said about a message that has to wait."""
    texts = [sent.outgoing.text for sent in books.ledger.sent]
    return [text for text in texts if not text.startswith("I ")]


async def cut_twice_in_one_turn(world: World, *texts: str) -> None:
    """The log of a gateway that died twice in a turn of several messages. Which messages share
    a turn is a matter of microseconds, so it is written down and not waited for."""
    source = Source(platform="simulated", chat_id="home", user_id="ann")
    route, session, turn = build_session_key(source), SessionId("s_1"), TurnId("turn_1")
    async with SqliteStore(world.paths.db) as store:
        rows = [
            await store.accept(
                Inbound(source=source, event_id=text, message_id=text, text=text),
                route=route,
                principal=PrincipalId("simulated:default:ann"),
                at=1.0,
            )
            for text in texts
        ]
        await store.begin_turn(
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
            await store.resume_turn(
                turn, session_id=session, note=interruption_note("crash"), at=1.0
            )


async def test_two_cuts_and_a_completed_turn_leave_the_session_with_no_count(
    world: World,
) -> None:
    """F7: only cuts in a row count; a completed turn clears them."""
    for name in ("a", "b"):
        await world.people.say(effect(name))
        for point in (CrashPoint.REPLY_COMMITTED, CrashPoint.MODEL_CALLED):
            await world.begin(point)
            await world.dies()
        await world.start()
        await world.settled()
        await world.kill()
    await world.start()
    books = await check_laws(world)
    assert len(books.transcripts) == 1


async def test_a_background_process_lives_through_a_kill_and_is_seen_by_the_successor(
    world: World,
) -> None:
    """J2: it keeps running, it can be listed, and its end is known."""
    await world.start()
    command = "echo up >> effects.log; until test -e go; do sleep 0.05; done; echo down"
    start = f'[tool process {{"action": "start", "command": "{command}"}}]'
    await world.people.say(f"start {start} [then] [text started]")
    await world.until(lambda: world.effects() == ["up"])
    await world.settled()
    await world.kill()
    await world.start()
    await world.people.say('list [tool process {"action": "list"}]')
    await world.settled()
    terminal = '[tool terminal {"command": "touch go"}]'
    wait = '[tool process {"action": "wait", "id": "p1", "timeout": 20}]'
    await world.people.say(f"end {terminal} [then] {wait}")
    books = await check_laws(world)
    _, listed, ended = [sent.outgoing.text for sent in books.ledger.sent]
    assert "running" in listed
    assert "exit code 0" in ended
    assert "down" in ended
    assert world.effects() == ["up"], "it was started once"


async def test_a_message_sent_while_down_is_answered_after_start(world: World) -> None:
    """G1: the platform keeps it, before the first start and between two."""
    await world.people.say(plain("a"))
    await world.start()
    await world.settled()
    await world.kill()
    await world.people.say(effect("b"))
    await world.people.say(plain("c"), chat="other")
    await world.start()
    await check_laws(world)


async def test_an_update_given_again_is_accepted_once(world: World) -> None:
    """G2: in one life, and by a life that never saw the first."""
    await world.people.set_faults(Faults(duplicates=1))
    await world.start()
    await world.people.say(effect("a"))
    await world.settled()
    await world.kill()
    await world.start(CrashPoint.ACCEPT_COMMITTED)
    await world.people.say(plain("b"))
    await world.dies()
    await world.start()
    books = await check_laws(world)
    assert [said.times_given for said in books.ledger.said] == [2, 2]


async def test_a_message_that_comes_while_the_gateway_stops_waits_for_the_next(
    world: World,
) -> None:
    """C1, G1: closed intake acknowledges nothing, and the stop goes through all the same."""
    await world.start()
    await world.people.say(effect("a"))
    await world.settled()
    stopping = asyncio.create_task(world.stop())
    for number in range(20):
        await world.people.say(plain(f"late{number}"), chat=f"chat{number}")
        await asyncio.sleep(0.01)
    await stopping
    await world.start()
    await check_laws(world)


async def test_status_tells_a_balanced_ledger_after_a_kill(world: World) -> None:
    """G3: accepted less ended = in flight + queued, as `holdfast status --json` has it."""
    await world.start(CrashPoint.CALL_RETURNED)
    await world.people.say(effect("a"))
    await world.dies()
    await world.start()
    await world.settled()
    ledger: dict[str, int] = {}
    while not ledger:  # a busy loop may have said nothing of it yet; then the last word is told
        asking = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "holdfast.cli",
            "status",
            "--json",
            stdout=asyncio.subprocess.PIPE,
            env=world.environment(),
        )
        told, _ = await asking.communicate()
        ledger = json.loads(told)["snapshot"]["inbox_counts"]
    assert ledger["accepted"] == ledger["answered"] == 1
    assert ledger["queued"] == ledger["running"] == 0
    await check_laws(world)
