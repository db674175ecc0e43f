"""A4: the instructions of messages in the frozen prompt: kept until a message brings others."""

import pytest
from tests.support.gateway_harness import GatewayHarness

from holdfast.agent.prompt import build_prompt, kept_fingerprint, request_fingerprint
from holdfast.tools.registry import ToolRegistry


async def prompt_of(harness: GatewayHarness, instructions: str = "") -> str:
    harness.model.say("done")
    await harness.end_of(await harness.accept("go", instructions=instructions))
    return harness.model.requests[-1].system


async def test_instructions_stay_until_a_message_brings_others(harness: GatewayHarness) -> None:
    first = await prompt_of(harness, "Be brief.")
    assert "Be brief." in first
    assert await prompt_of(harness, "Be brief.") == first
    assert await prompt_of(harness) == first
    hits = harness.gateway.cache.hits
    other = await prompt_of(harness, "Be long.")
    assert "Be long." in other and "Be brief." not in other
    assert harness.gateway.cache.hits == hits, "the cached agent has another prompt"
    assert await prompt_of(harness, "Be long.") == other
    assert harness.gateway.cache.hits == hits + 1


@pytest.mark.parametrize("killed", [False, True])
async def test_a_restart_keeps_the_prompt_of_the_last_instructions(
    harness: GatewayHarness, killed: bool
) -> None:
    await prompt_of(harness, "Be brief.")
    other = await prompt_of(harness, "Be long.")
    await (harness.die() if killed else harness.stop())
    await harness.start()
    assert await prompt_of(harness) == other
    assert await prompt_of(harness, "Be long.") == other
    assert "Be brief." in await prompt_of(harness, "Be brief.")


async def test_instructions_that_come_later_are_added(harness: GatewayHarness) -> None:
    assert "Be brief." not in await prompt_of(harness)
    assert "Be brief." in await prompt_of(harness, "Be brief.")


def test_a_prompt_of_an_earlier_version_is_kept_if_it_has_the_instructions() -> None:
    prompt = build_prompt(
        date="x", toolbox=ToolRegistry([]).for_toolsets([]), instructions="", request="Be brief."
    )

    def kept(stored: str, request: str) -> str | None:
        return kept_fingerprint(stored, prompt, fingerprint="f", request=request)

    brief = request_fingerprint("f", "Be brief.")
    for stored in ("", "f"):
        assert kept(stored, "Be brief.") == brief
        assert kept(stored, "Be") is None
        assert kept(stored, "") == "f"
    assert (kept(brief, "Be brief."), kept(brief, " Be brief.\n"), kept(brief, "")) == (brief,) * 3
    assert kept(brief, "Be long.") is None
    assert kept(request_fingerprint("g", "Be brief."), "Be brief.") is None, "another configuration"
