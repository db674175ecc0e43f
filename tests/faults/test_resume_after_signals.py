"""Real processes that are stopped by signals in the middle of a turn: the turn is resumed, its
interruptions are counted, and it is given up at the third."""

import asyncio
import signal

import pytest
from tests.faults.conservation import ANSWERED, StoreContents, check_invariants, plain_message
from tests.support.process_harness import ProcessHarness

from holdfast.core.crash_points import CrashPoint
from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.transcript import NoteMessage
from holdfast.system import exit_codes

HELD_COMMAND = "echo began >> effects.log; until test -e go; do sleep 0.05; done; echo $RANDOM-out"
HELD_MESSAGE = f'run [tool terminal {{"command": "{HELD_COMMAND}"}}] [then] [text ran]'
SLOW_MESSAGE = "think [latency 60] [text thought]"


def configure(process_harness: ProcessHarness) -> None:
    """The test is the supervisor, turns have no time to park, and there are no restart notices."""
    config = process_harness.paths.config_file.read_text()
    config = config.replace("[gateway]\n", '[gateway]\nsupervisor = "s6"\npark_timeout = 0\n')
    config = config.replace(
        'allow = ["*", "ann"]\n', 'allow = ["*", "ann"]\nrestart_notices = false\n'
    )
    process_harness.paths.config_file.write_text(config)


async def stop_by(process_harness: ProcessHarness, by: signal.Signals) -> None:
    """Send this signal, and wait until the process has ended as it should."""
    assert process_harness._gateway is not None
    if by is signal.SIGKILL:
        await process_harness.kill()
        return
    process_harness._gateway.send_signal(by)
    restarts = by is signal.SIGUSR1
    await process_harness.wait_for_exit(
        exit_codes.GATEWAY_SERVICE_RESTART_EXIT_CODE if restarts else exit_codes.OK
    )


def note_texts(contents: StoreContents) -> list[str]:
    return [
        m.text for ms in contents.transcripts.values() for m in ms if isinstance(m, NoteMessage)
    ]


async def test_a_command_survives_restarts_without_a_note_in_its_turn(
    process_harness: ProcessHarness,
) -> None:
    """H6, H2, J2, F7: however many; it is parked each time, attached to, and nothing is counted."""
    configure(process_harness)
    await process_harness.start()
    await process_harness.people.say(HELD_MESSAGE)
    await process_harness.until(lambda: process_harness.effects() == ["began"])
    for _ in range(2):
        await stop_by(process_harness, signal.SIGUSR1)
        await process_harness.start()
    [workspace] = process_harness.paths.workspaces.iterdir()
    (workspace / "go").touch()
    contents = await check_invariants(process_harness)
    assert process_harness.effects() == ["began"]
    assert note_texts(contents) == []
    assert process_harness.model.requests(last=1)["count"] == 2


async def test_a_turn_is_parked_when_the_process_is_killed_after_the_commit(
    process_harness: ProcessHarness,
) -> None:
    """H6: parking is durable from its commit on."""
    configure(process_harness)
    await process_harness.start(CrashPoint.TURN_PARKED)
    await process_harness.people.say(HELD_MESSAGE)
    await process_harness.until(lambda: process_harness.effects() == ["began"])
    assert process_harness._gateway is not None
    process_harness._gateway.send_signal(signal.SIGUSR1)
    await process_harness.wait_for_crash()
    await process_harness.start()
    [workspace] = process_harness.paths.workspaces.iterdir()
    (workspace / "go").touch()
    contents = await check_invariants(process_harness)
    assert (process_harness.effects(), note_texts(contents)) == (["began"], [])


@pytest.mark.parametrize(
    ("by", "what"), [(signal.SIGTERM, "a gateway shutdown"), (signal.SIGUSR1, "a gateway restart")]
)
async def test_a_kill_between_mark_and_interruption_adds_one_note(
    process_harness: ProcessHarness, by: signal.Signals, what: str
) -> None:
    """F5, F6: the mark is committed before anything is interrupted."""
    configure(process_harness)
    await process_harness.start(CrashPoint.TURN_MARKED)
    process_harness.model.script({"match": "slowly", "latency": 60, "text": "never heard"})
    await process_harness.people.say("speak slowly [text all of it]")
    await process_harness.wait_for_running_turn()
    assert process_harness._gateway is not None
    process_harness._gateway.send_signal(by)
    await process_harness.wait_for_crash()
    await process_harness.start()
    contents = await check_invariants(process_harness)
    assert [note.split(" cut ")[0] for note in note_texts(contents)] == [f"[System note: {what}"]


T, U, K = signal.SIGTERM, signal.SIGUSR1, signal.SIGKILL


@pytest.mark.parametrize("signals", [(U, U, U), (K, K, K), (T, K, U)], ids=["clean", "kill", "mix"])
async def test_a_turn_interrupted_by_three_stops_in_a_row_is_given_up(
    process_harness: ProcessHarness, signals: tuple[signal.Signals, ...]
) -> None:
    """E5, F7: at the next start it is suspended, its user is notified, the queued message runs in a
    new session, and /resume goes back to the old history."""
    configure(process_harness)
    await process_harness.start()
    await process_harness.people.say(SLOW_MESSAGE)
    for run, by in enumerate(signals, 1):
        await process_harness.wait_for_running_turn(run)
        if run == 3:
            await process_harness.people.say(plain_message("waiting"))
            while (await process_harness.status())["inbox_counts"]["queued"] != 1:
                await asyncio.sleep(0.02)
        await stop_by(process_harness, by)
        await process_harness.start()
    await process_harness.wait_until_settled()
    await process_harness.people.say("/resume")
    contents = await check_invariants(process_harness, ends=ANSWERED | {InboxState.FAILED})
    notice, fresh, answer, _ = [sent.outgoing.text for sent in contents.ledger.sent]
    assert "interrupted 3 times" in notice
    assert "return to it with /resume" in fresh
    assert answer == "answer to waiting"
    assert len(note_texts(contents)) == 3  # two resumes, and the fresh session's own
    assert process_harness.model.requests(last=1)["count"] == 4
