"""`kill -9` while subagents run: the next start resumes them and their parent."""

import asyncio
import json
from collections import Counter
from typing import Any

import pytest
from tests.faults.conservation import StoreContents, check_invariants
from tests.support.process_harness import SETTLES_WITHIN, ProcessHarness

from holdfast.core.crash_points import CrashPoint
from holdfast.core.messages.transcript import ToolMessage, ToolOutcome
from holdfast.core.turns.subagent import INTERNAL_PLATFORM

P = CrashPoint


def subagent_task(name: str, *, wait_for: str = "") -> str:
    """A task that writes its name into a file, and ends when another file exists."""
    wait = f"; until test -e {wait_for}; do sleep 0.05; done" if wait_for else ""
    call = json.dumps({"command": f"echo {name} >> effects.log{wait}"})
    return f"do {name} [tool terminal {call}] [then] [text did {name}]"


def delegation(*tasks: str, answer: str, context: str = "", **more: Any) -> str:
    """`context` is given to the last of the tasks."""
    given: list[dict[str, str]] = [{"task": task} for task in tasks]
    given[-1]["context"] = context
    call = json.dumps({"tasks": given, **more})
    return f"give it away [tool delegate {call}] [then] [text {answer}]"


def touch(process_harness: ProcessHarness, name: str) -> None:
    [workspace] = process_harness.paths.workspaces.iterdir()
    (workspace / name).touch()


async def wait_for_text(process_harness: ProcessHarness, text: str) -> None:
    """Wait until a chat has got this text."""
    async with asyncio.timeout(SETTLES_WITHIN):
        while text not in [
            one.outgoing.text for one in (await process_harness.people.ledger()).sent
        ]:
            await asyncio.sleep(0.03)


def delegate_result(contents: StoreContents) -> ToolMessage:
    found = [m for ms in contents.transcripts.values() for m in ms if isinstance(m, ToolMessage)]
    [found_result] = [message for message in found if message.name == "delegate"]
    return found_result


def answers(contents: StoreContents) -> list[str]:
    return [sent.outgoing.text for sent in contents.ledger.sent]


async def test_killed_subagents_end_once_and_their_parent_gets_both_results(
    process_harness: ProcessHarness,
) -> None:
    """H1, H2, G2: one runs a command, the other waits for its model; both are resumed."""
    await process_harness.start()
    # Only the subagent gets its context in a line of its own. Slow for the first request.
    slowly = {"delay": 0.5, "text": "never heard to its end " * 20}
    process_harness.model.script({"match": "\nslowly", **slowly})
    tasks = subagent_task("a", wait_for="go"), "speak [text spoken]"
    await process_harness.people.say(delegation(*tasks, context="slowly", answer="both done"))
    await process_harness.until(lambda: process_harness.effects() == ["a"])
    await process_harness.until(lambda: process_harness.model.requests(last=1)["count"] >= 3)
    await process_harness.kill()
    await process_harness.start()
    touch(process_harness, "go")
    contents = await check_invariants(process_harness)
    assert process_harness.effects() == ["a"]
    result = delegate_result(contents)
    assert result.outcome is ToolOutcome.OK
    assert "\ndid a\n" in result.text
    assert result.text.endswith("\nspoken")
    assert answers(contents) == ["both done"]


async def test_the_session_of_a_subagent_ends_with_its_task(
    process_harness: ProcessHarness,
) -> None:
    """A11: killed right after the commit that ends the task; the invariants look at the session."""
    await process_harness.launch(P.END_COMMITTED)
    await process_harness.people.say(delegation(subagent_task("a"), answer="done"))
    await process_harness.wait_for_crash()
    await process_harness.start()
    contents = await check_invariants(process_harness)
    assert process_harness.effects() == ["a"]
    assert answers(contents) == ["done"]


async def test_a_subagent_that_had_ended_is_not_run_again(process_harness: ProcessHarness) -> None:
    """H1, H2: its reply is in the log; the call finds it there, and waits for the other."""
    await process_harness.start()
    tasks = subagent_task("quick"), subagent_task("slow", wait_for="go")
    await process_harness.people.say(delegation(*tasks, answer="both done"))
    await process_harness.until(lambda: sorted(process_harness.effects()) == ["quick", "slow"])
    while (await process_harness.status())["inbox_counts"]["answered"] == 0:
        await asyncio.sleep(0.03)
    await process_harness.kill()
    await process_harness.start()
    touch(process_harness, "go")
    contents = await check_invariants(process_harness)
    assert sorted(process_harness.effects()) == ["quick", "slow"]
    assert "\ndid quick\n" in delegate_result(contents).text
    assert delegate_result(contents).text.endswith("\ndid slow")
    assert answers(contents) == ["both done"]


async def test_a_killed_background_subagent_reports_once(
    process_harness: ProcessHarness,
) -> None:
    """G2, H3, I2: its turn is resumed, and its reply is one message of the chat."""
    await process_harness.start()
    # The subagent's reply scripts the model's answer in the turn that it starts.
    task = subagent_task("a", wait_for="go").replace(
        "[text did a]", "[text did a [text told of it]]"
    )
    await process_harness.people.say(delegation(task, answer="under way", background=True))
    await process_harness.until(lambda: process_harness.effects() == ["a"])
    await wait_for_text(process_harness, "under way")
    await process_harness.kill()
    await process_harness.start()
    touch(process_harness, "go")
    await wait_for_text(process_harness, "told of it")
    contents = await check_invariants(process_harness)
    assert process_harness.effects() == ["a"]
    assert answers(contents)[-1] == "told of it"
    assert Counter(answers(contents))["told of it"] == 1


# The subagent's accept, its turn, its end, its delivery back, and the accept of that.
BACKGROUND_POINTS = (
    f"{P.ACCEPT_COMMITTED}:2",
    f"{P.TURN_BEGUN}:2",
    f"{P.END_COMMITTED}:2",
    f"{P.SENT}:1",
    f"{P.SENT}:2",
    f"{P.ACCEPT_COMMITTED}:3",
)


@pytest.mark.parametrize("order", BACKGROUND_POINTS)
async def test_a_background_result_is_reported_once_after_a_kill_at_any_point(
    process_harness: ProcessHarness, order: str
) -> None:
    """G2, I2: sent twice, the result is accepted once; nothing of it is lost on the way."""
    await process_harness.start(order)
    task = subagent_task("a").replace("[text did a]", "[text did a [text told of it]]")
    await process_harness.people.say(delegation(task, answer="under way", background=True))
    await process_harness.wait_for_crash()
    await process_harness.start()
    await wait_for_text(process_harness, "told of it")
    contents = await check_invariants(process_harness)
    assert process_harness.effects() == ["a"]
    results = [
        row for row in contents.inbox.values() if row.event_id.startswith(f"{INTERNAL_PLATFORM}:")
    ]
    assert len(results) == 1


async def test_a_background_command_killed_before_its_answer_starts_one_subagent(
    process_harness: ProcessHarness,
) -> None:
    """G5: carried out again by the next start, it finds the existing subagent."""
    await process_harness.start(f"{P.ACCEPT_COMMITTED}:2")
    task = subagent_task("a").replace("[text did a]", "[text did a [text told of it]]")
    await process_harness.people.say(f"/background {task}")
    await process_harness.wait_for_crash()
    await process_harness.start()
    await wait_for_text(process_harness, "told of it")
    contents = await check_invariants(process_harness)
    assert process_harness.effects() == ["a"]
    [notice, answer] = answers(contents)
    assert notice.startswith("Working on it in the background: do a")
    assert answer == "told of it"
