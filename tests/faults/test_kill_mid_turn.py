"""`kill -9` from outside, in the middle of a turn, and what the next start makes of it."""

import asyncio
import re

import pytest
from tests.faults.conservation import StoreContents, check_invariants, plain_message
from tests.support.process_harness import NewProcessHarness, ProcessHarness

from holdfast.core.crash_points import CrashPoint
from holdfast.core.messages.transcript import NoteMessage, ToolMessage, ToolOutcome
from holdfast.testing.simulated.events import Faults


def tool_results(contents: StoreContents) -> list[ToolMessage]:
    return [m for ms in contents.transcripts.values() for m in ms if isinstance(m, ToolMessage)]


def note_messages(contents: StoreContents) -> list[NoteMessage]:
    return [m for ms in contents.transcripts.values() for m in ms if isinstance(m, NoteMessage)]


def release_command(process_harness: ProcessHarness) -> None:
    """Let the command that waits in the only workspace continue."""
    [workspace] = process_harness.paths.workspaces.iterdir()
    (workspace / "go").touch()


async def test_a_turn_killed_during_a_model_call_is_resumed_and_answered(
    process_harness: ProcessHarness,
) -> None:
    """H1, H3, F6: the step that was not committed is asked for again, under one note."""
    await process_harness.start()
    # Slow for the first request; a repeated one is answered at once.
    process_harness.model.script(
        {"match": "slowly", "delay": 0.5, "text": "never heard to its end" * 9}
    )
    await process_harness.people.say("speak slowly [text all of it]")
    await process_harness.wait_for_running_turn()
    await process_harness.kill()
    await process_harness.start()
    contents = await check_invariants(process_harness)
    assert [sent.outgoing.text for sent in contents.ledger.sent] == ["all of it"]
    assert process_harness.model.requests(last=1)["count"] == 2
    [note] = note_messages(contents)
    assert note.text.startswith("[System note:")


async def test_the_next_gateway_attaches_to_a_command_that_still_runs(
    process_harness: ProcessHarness,
) -> None:
    """H2, J2: the successor waits for the real command and records its real result."""
    await process_harness.start()
    wait = "until test -e go; do sleep 0.05; done"
    command = f"echo began >> effects.log; {wait}; echo ended >> effects.log; echo $RANDOM-out"
    await process_harness.people.say(
        f'run [tool terminal {{"command": "{command}"}}] [then] [text ran]'
    )
    await process_harness.until(lambda: process_harness.effects() == ["began"])
    await process_harness.kill()
    await process_harness.start()
    release_command(process_harness)
    contents = await check_invariants(process_harness)
    assert process_harness.effects() == ["began", "ended"]
    [result] = tool_results(contents)
    assert result.outcome is ToolOutcome.OK
    assert result.text.endswith("-out")


async def test_a_command_that_ended_while_the_gateway_was_dead_reports_its_true_result(
    process_harness: ProcessHarness,
) -> None:
    """H2: it ended while no gateway ran, and its result is known all the same."""
    await process_harness.start()
    wait = "until test -e go; do sleep 0.05; done"
    command = f"echo began >> effects.log; {wait}; echo ended >> effects.log; echo heard; exit 7"
    await process_harness.people.say(
        f'run [tool terminal {{"command": "{command}"}}] [then] [text ran]'
    )
    await process_harness.until(lambda: process_harness.effects() == ["began"])
    await process_harness.kill()
    release_command(process_harness)
    await process_harness.until(lambda: process_harness.effects() == ["began", "ended"])
    await asyncio.sleep(0.2)
    await process_harness.start()
    contents = await check_invariants(process_harness)
    assert process_harness.effects() == ["began", "ended"]
    assert [result.text for result in tool_results(contents)] == ["heard\n[exit code 7]"]


async def test_text_written_to_a_process_is_not_written_again(
    process_harness: ProcessHarness,
) -> None:
    """H2: its outcome is unknown, so the model is told so and told to check."""
    await process_harness.start()
    start = '[tool process {"action": "start", "command": "cat >> effects.log"}]'
    await process_harness.people.say(f"begin {start} [then] [text begun]")
    await process_harness.wait_until_settled()
    asked = str(process_harness.model.requests(last=1)["requests"])
    [process] = re.findall(r"(\w+) running: cat", asked)
    await process_harness.kill()
    await process_harness.start(CrashPoint.CALL_RETURNED)
    write = f'[tool process {{"action": "write", "id": "{process}", "text": "typed\\n"}}]'
    await process_harness.people.say(f"type {write} [then] [text typed]")
    await process_harness.wait_for_crash()
    await process_harness.start()
    contents = await check_invariants(process_harness)
    assert process_harness.effects() == ["typed"]
    assert [result.outcome for result in tool_results(contents)] == [
        ToolOutcome.OK,
        ToolOutcome.UNKNOWN,
    ]


async def test_messages_queued_behind_a_killed_turn_are_answered_after_it_in_order(
    process_harness: ProcessHarness,
) -> None:
    """G4, H5: the queue survives; its messages wait for the resumed turn, and are answered."""
    await process_harness.start()
    command = "echo a >> effects.log; until test -e go; do sleep 0.05; done"
    await process_harness.people.say(
        f'a [tool terminal {{"command": "{command}"}}] [then] [text first]'
    )
    await process_harness.until(lambda: process_harness.effects() == ["a"])
    for name in ("b", "c"):
        await process_harness.people.say(plain_message(name))
    await process_harness.people.say(plain_message("elsewhere"), chat="other")
    while not all(said.acked for said in (await process_harness.people.ledger()).said):
        await asyncio.sleep(0.02)
    await process_harness.kill()
    await process_harness.start()
    release_command(process_harness)
    contents = await check_invariants(process_harness)
    home = [s.outgoing.text for s in contents.ledger.sent if s.outgoing.chat_id == "home"]
    assert home[0] == "first"
    assert home[-1] == "answer to c"


@pytest.mark.parametrize("point", [CrashPoint.ATTEMPT_COMMITTED, CrashPoint.SENT])
async def test_an_answer_interrupted_while_sending_is_resent_once_and_marked(
    process_harness: ProcessHarness, point: CrashPoint
) -> None:
    """I2: its outcome is unknown, so the copy says that it may be one."""
    await process_harness.start(point)
    await process_harness.people.say(plain_message("a"))
    await process_harness.wait_for_crash()
    await process_harness.start()
    contents = await check_invariants(process_harness)
    repeat_marks = [sent.outgoing.maybe_repeated for sent in contents.ledger.sent]
    assert repeat_marks == ([True] if point is CrashPoint.ATTEMPT_COMMITTED else [False, True])
    assert process_harness.model.requests(last=1)["count"] == 1, (
        "H4: a finished turn is not run again"
    )


async def test_an_answer_committed_and_not_yet_sent_goes_out_unmarked(
    process_harness: ProcessHarness,
) -> None:
    """I1, H4: between the commit and the first attempt nothing can have arrived."""
    await process_harness.start(CrashPoint.END_COMMITTED)
    await process_harness.people.say(plain_message("a"))
    await process_harness.wait_for_crash()
    await process_harness.start()
    contents = await check_invariants(process_harness)
    assert [sent.outgoing.maybe_repeated for sent in contents.ledger.sent] == [False]
    assert process_harness.model.requests(last=1)["count"] == 1


async def test_a_kill_while_the_platform_is_disconnected_loses_no_answer(
    process_harness: ProcessHarness,
) -> None:
    """G1, H3, I2: the answer waits for its platform, over a kill and a start without it."""
    await process_harness.start()
    command = "echo a >> effects.log; until test -e go; do sleep 0.05; done"
    text = f'do a [tool terminal {{"command": "{command}"}}] [then] [text answer to a]'
    await process_harness.people.say(text)
    await process_harness.until(lambda: process_harness.effects() == ["a"])
    await process_harness.people.set_faults(Faults(disconnected=True))
    await process_harness.kill()
    await process_harness.start()
    release_command(process_harness)
    while (await process_harness.status())["inbox_counts"]["answered"] == 0:
        await asyncio.sleep(0.05)
    await process_harness.kill()
    await process_harness.start()
    await process_harness.people.say(plain_message("b"))
    await process_harness.people.set_faults(Faults())
    contents = await check_invariants(process_harness)
    assert [s.outgoing.text for s in contents.ledger.sent] == ["answer to a", "answer to b"]


async def test_a_resumed_turn_can_be_interrupted_by_the_next_message(
    new_process_harness: NewProcessHarness,
) -> None:
    """G4, H3: in interrupt mode the resumed turn and the message that came meanwhile both end."""
    async with new_process_harness(busy_mode="interrupt") as process_harness:
        await process_harness.start()
        await process_harness.people.say("a [latency 30] [text too late]")
        await process_harness.wait_for_running_turn()
        await process_harness.kill()
        await process_harness.people.say(plain_message("b"))
        await process_harness.start()
        contents = await check_invariants(process_harness)
        assert [s.outgoing.text for s in contents.ledger.sent] == ["answer to b"]
