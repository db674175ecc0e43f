"""The agent cache: bounded, with frozen prompts, and never evicting a running agent (A1 to A13)."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.support.gateway_harness import Call, GatewayHarness, ManualClock, Until
from tests.support.replies import last_message, last_reply, session_of

from holdfast.agent.agent import Agent
from holdfast.agent.prompt import agent_signature
from holdfast.core.ids import SessionId
from holdfast.core.messages.events import TextStreamed
from holdfast.core.messages.inbox import Accepted
from holdfast.core.messages.source import ChatType
from holdfast.core.messages.transcript import ToolMessage, UserMessage
from holdfast.core.ports.store_queries import GetTurn
from holdfast.core.secrets import Secret
from holdfast.core.turns.tool import ReplayClass
from holdfast.core.turns.turn import TurnRowState
from holdfast.core.turns.turn_state import LaneState
from holdfast.gateway.agents.cache import AgentCache
from holdfast.gateway.turns.turn import Turn
from holdfast.testing.scripted_model import ScriptedModel
from holdfast.tools.registry import ToolRegistry

SIGNATURE_INPUTS: dict[str, Any] = {
    "provider": "openai",
    "model": "m",
    "api_mode": "chat_completions",
    "base_url": "http://x/v1",
    "api_key": Secret("eyJhbGciOi.one"),
    "toolsets": ["files", "web"],
    "instructions": "",
    "max_steps": 90,
    "principal": None,
}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model", "n"),
        ("provider", "local"),
        ("base_url", "http://y/v1"),
        ("api_mode", "responses"),
        ("api_key", Secret("eyJhbGciOi.two")),
        ("toolsets", ["files"]),
        ("instructions", "be brief"),
        ("max_steps", 10),
        ("principal", "ann"),
        ("extra", {"memory": 1}),
    ],
)
def test_every_signed_input_changes_the_signature(key: str, value: object) -> None:
    """A1: also two keys that share a prefix, as JWTs do."""
    assert agent_signature(**SIGNATURE_INPUTS) != agent_signature(
        **{**SIGNATURE_INPUTS, key: value}
    )


def test_equal_inputs_give_an_equal_signature_with_toolsets_in_any_order() -> None:
    """A1: and nothing of the key is in it."""
    assert agent_signature(**SIGNATURE_INPUTS) == agent_signature(
        **{**SIGNATURE_INPUTS, "toolsets": ["web", "files"]}
    )
    assert "eyJ" not in agent_signature(**SIGNATURE_INPUTS)


def test_a_signature_is_the_same_in_another_process() -> None:
    """A1: equal inputs, whatever the seed of that process's hashes."""
    program = (
        "from holdfast.agent.prompt import agent_signature\n"
        "from holdfast.core.secrets import Secret\n"
        "print(agent_signature(provider='openai', model='m', api_mode='chat_completions',"
        " base_url='http://x/v1', api_key=Secret('eyJhbGciOi.one'),"
        " toolsets={'web', 'files'}, instructions='', max_steps=90, principal=None))"
    )
    environ = {"PYTHONHASHSEED": "12345", "PATH": os.environ["PATH"]}
    result = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == agent_signature(**SIGNATURE_INPUTS)


class AgentBuilder:
    """Builds agents for a cache, and records them."""

    def __init__(self) -> None:
        self.model = ScriptedModel()
        self.built: list[Agent] = []

    def build(self, name: str, *, signature: str = "s") -> Callable[[], Awaitable[Agent]]:
        async def make() -> Agent:
            await asyncio.sleep(0)
            agent = Agent(
                SessionId(name),
                signature=signature,
                prompt="p",
                toolbox=ToolRegistry([]).for_toolsets([]),
                client=self.model.lease(),
                messages=[],
                max_steps=1,
            )
            self.built.append(agent)
            return agent

        return make

    async def lease(self, cache: AgentCache, name: str, *, signature: str = "s") -> Agent:
        build = self.build(name, signature=signature)
        return await cache.lease(SessionId(name), signature=signature, build=build)

    async def use(
        self, cache: AgentCache, name: str, *, says: str = "", at: float | None = None
    ) -> Agent:
        agent = await self.lease(cache, name)
        if says:
            agent.append(UserMessage(text=says))
        agent.active_at = at
        cache.release(agent)
        return agent


def new_cache(agents: int = 2, size: int = 10**9, ttl: float = 3600) -> AgentCache:
    return AgentCache(max_agents=agents, max_bytes=size, idle_ttl=ttl)


async def next_loop_iteration() -> None:
    """Wait one iteration of the loop: an evicted agent releases its resources at its end."""
    await asyncio.sleep(0)


async def test_the_same_signature_gives_the_same_agent() -> None:
    """A2: and another one releases the old and builds a new."""
    agents, cache = AgentBuilder(), new_cache()
    first = await agents.use(cache, "a")
    assert await agents.lease(cache, "a") is first
    cache.release(first)
    second = await agents.lease(cache, "a", signature="t")
    assert second is not first
    assert first.client is None
    assert second.client is not None


async def test_the_least_recently_used_agent_is_evicted_first() -> None:
    """A6: a hit makes an entry the most recent."""
    agents, cache = AgentBuilder(), new_cache(2)
    for name in ("a", "b", "a", "c"):
        await agents.use(cache, name)
    assert [name in cache for name in "abc"] == [True, False, True]


async def test_a_busy_agent_is_never_evicted_nor_a_younger_one_in_its_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A8: the cache stays over its cap for a while, and logs a warning."""
    agents, cache = AgentBuilder(), new_cache(2)
    busy = await agents.lease(cache, "a")
    for name in ("b", "c"):
        await agents.use(cache, name)
    assert [name in cache for name in "abc"] == [True, True, True]
    assert busy.client is not None
    assert "1 of the oldest agents are mid-turn" in caplog.text
    cache.release(busy)
    assert [name in cache for name in "abc"] == [False, True, True]


async def test_concurrent_inserts_settle_at_the_cap() -> None:
    """A9: 160 inserts by 8 workers into 16 slots end at 16."""
    agents, cache = AgentBuilder(), new_cache(16)

    async def worker(number: int) -> None:
        for turn in range(20):
            await agents.use(cache, f"{number}-{turn}")

    await asyncio.gather(*(worker(number) for number in range(8)))
    await next_loop_iteration()
    assert len(cache) == 16
    assert agents.model.leased == 16


async def test_eviction_gives_the_client_back_and_drops_the_buffer() -> None:
    """A10: after it `agent.client is None`; a newly built agent has a client at once."""
    agents, cache = AgentBuilder(), new_cache(1)
    first = await agents.use(cache, "a", says="hello")
    await agents.use(cache, "b")
    await next_loop_iteration()
    assert (first.client, first.messages, first.size) == (None, [], 0)
    assert (await agents.lease(cache, "c")).client is not None


async def test_the_byte_budget_evicts_the_oldest_until_it_fits() -> None:
    """The cache is bounded in bytes as well as in number."""
    agents, cache = AgentBuilder(), new_cache(100, size=100_000)
    for name in ("a", "b", "c"):
        await agents.use(cache, name, says="x" * 40_000)
    assert [name in cache for name in "abc"] == [False, True, True]
    assert 80_000 < cache.bytes < 100_000
    cache.clear()
    await next_loop_iteration()
    assert (len(cache), cache.bytes, agents.model.leased) == (0, 0, 0)


async def test_an_agent_that_was_idle_too_long_is_swept() -> None:
    """A7: the sweep says how many, and when there will be another to sweep."""
    agents, cache = AgentBuilder(), new_cache(9, ttl=60)
    assert cache.next_sweep() is None
    await agents.use(cache, "old", at=100)
    await agents.use(cache, "young", at=130)
    assert cache.next_sweep() == 160
    assert cache.sweep(159.9) == 0
    assert cache.sweep(160) == 1
    assert ["old" in cache, "young" in cache] == [False, True]
    assert (cache.next_sweep(), cache.sweep(160)) == (190, 0)


async def test_an_agent_that_never_reported_activity_is_left_alone() -> None:
    """A7: how long it has been idle is unknown."""
    agents, cache = AgentBuilder(), new_cache(9, ttl=60)
    await agents.use(cache, "a")
    assert (cache.next_sweep(), cache.sweep(1e12)) == (None, 0)
    assert "a" in cache


async def test_an_agent_in_its_turn_is_not_swept_however_old() -> None:
    """A7, A8: busy is from lease to release."""
    agents, cache = AgentBuilder(), new_cache(9, ttl=60)
    await agents.use(cache, "a", at=100)
    busy = await agents.lease(cache, "a")
    assert (cache.next_sweep(), cache.sweep(1e12)) == (None, 0)
    cache.release(busy)
    assert cache.sweep(1e12) == 1
    await next_loop_iteration()
    assert busy.client is None


async def test_a_turn_reports_activity_and_its_agent_is_swept_when_idle(
    harness: GatewayHarness,
) -> None:
    """A7, A12: a swept agent is built again for the same session by the next message."""
    harness.model.say("hello", "again")
    cache = harness.gateway.cache
    first = await harness.end_of(await harness.accept("hi"))
    await wait_for_idle_lanes(harness)
    due = cache.next_sweep()
    assert due is not None
    assert (cache.sweep(due - 1), cache.sweep(due)) == (0, 1)
    assert (await harness.end_of(await harness.accept("hi again"))).session_id == first.session_id
    assert len(harness.model.requests[1].messages) == 3


async def wait_for_idle_lanes(harness: GatewayHarness) -> None:
    """Wait for the lanes to end: the end of a message is published before its lane ends."""
    await asyncio.gather(*(lane.task for lane in harness.gateway.lanes if lane.task))


async def test_an_agent_dropped_in_its_turn_ends_with_it() -> None:
    """A5: soft, after the running turn."""
    agents, cache = AgentBuilder(), new_cache()
    busy = await agents.lease(cache, "a")
    cache.drop(SessionId("a"))
    assert busy.client is not None
    cache.release(busy)
    cache.release(busy)
    assert busy.client is None


async def test_the_user_of_an_evicted_session_notices_nothing(harness: GatewayHarness) -> None:
    """A4, A12: the next message builds a fresh agent with the same history and prompt."""
    harness.model.say("hello", "you are Ann")
    first = await harness.end_of(await harness.accept("I am Ann"))
    harness.gateway.cache.clear()
    second = await harness.end_of(await harness.accept("who am I?"))
    assert second.session_id == first.session_id
    one, two = harness.model.requests
    assert two.system == one.system
    assert [m.text for m in two.messages] == ["I am Ann", "hello", "who am I?"]


async def test_the_prompt_is_frozen_across_a_restart(harness: GatewayHarness) -> None:
    """A4: byte-identical, whatever day it is meanwhile, so that the cache keeps hitting."""
    harness.model.say("hello", "hello")
    await harness.end_of(await harness.accept("hi", instructions="Speak like a pirate."))
    await harness.stop()
    harness.clock = ManualClock(harness.clock.now() + 3 * 86_400)
    await harness.start()
    await harness.end_of(await harness.accept("hi"))
    one, two = harness.model.requests
    assert "pirate" in one.system
    assert two.system == one.system


async def test_changed_instructions_give_a_session_a_new_prompt(
    harness: GatewayHarness,
) -> None:
    """A4: a session that continues gets the new instructions, and then they are frozen."""
    harness.model.say("hello", "hello", "hello", "hello")
    await harness.end_of(await harness.accept("hi"))
    await harness.stop()
    agent = msgspec.structs.replace(harness.settings.agent, instructions="Speak like a pirate.")
    harness.settings = msgspec.structs.replace(harness.settings, agent=agent)
    await harness.start()
    for _ in range(2):
        await harness.end_of(await harness.accept("hi"))
        harness.gateway.cache.clear()
    await harness.stop()
    harness.clock = ManualClock(harness.clock.now() + 3 * 86_400)
    await harness.start()
    await harness.end_of(await harness.accept("hi"))
    first, *after = [request.system for request in harness.model.requests]
    assert "pirate" not in first
    assert "pirate" in after[0]
    assert after == [after[0]] * 3


async def test_a_cached_agent_is_reused_without_reading_the_store(harness: GatewayHarness) -> None:
    """A2: the second message finds the same instance."""
    harness.model.say("1", "2")
    await harness.end_of(await harness.accept("one"))
    await harness.end_of(await harness.accept("two"))
    agents = harness.gateway.snapshot()["agents"]
    assert (agents.hits, agents.misses) == (1, 1)


async def test_a_lane_with_nothing_to_do_goes_away(harness: GatewayHarness, until: Until) -> None:
    """B1, law 10: a lane exists only while it has work."""
    harness.model.say("1")
    await harness.end_of(await harness.accept("one"))
    await until(lambda: len(harness.gateway.lanes) == 0)
    assert harness.gateway.lanes.count(LaneState.RUNNING) == 0
    assert harness.gateway.snapshot()["in_flight"] == 0


async def test_a_one_off_conversation_keeps_no_cached_agent(
    harness: GatewayHarness, until: Until
) -> None:
    """A6: requests that carry their own history evict no session that will be used again."""
    harness.model.say("1", "2")
    await harness.end_of(await harness.accept("one"))
    await harness.end_of(await harness.accept("two", chat="once", lasting=False))
    await until(
        lambda: len(harness.gateway.lanes) == 0
    )  # the end is published before the lane ends
    assert harness.gateway.snapshot()["agents"].cached == 1
    assert harness.model.leased == 1


def cached_agent(harness: GatewayHarness, session_id: SessionId) -> Agent:
    """The cached instance for a session."""
    agent: Agent = harness.gateway.cache._entries[session_id].agent
    return agent


async def test_a_change_of_speaker_in_a_shared_thread_rebuilds_nothing(
    harness: GatewayHarness,
) -> None:
    """A1: the signature includes the person only where one person owns the session."""
    thread = {"chat_type": ChatType.THREAD, "thread": "t1"}
    harness.model.say("hello Ann", "hello Bob")
    harness.say("I am Ann", user="ann", **thread)
    await harness.texts(1)
    agent = cached_agent(harness, await harness.only_session())
    harness.say("I am Bob", user="bob", **thread)
    await harness.texts(2)
    assert cached_agent(harness, await harness.only_session()) is agent
    assert harness.gateway.snapshot()["agents"].misses == 1


async def test_the_signature_includes_the_person_where_one_person_owns_the_session(
    harness: GatewayHarness,
) -> None:
    """A1: in a chat of two, and in a group, where each has a session of their own."""
    agents = harness.gateway.agent_factory
    row = (await harness.accept("hi", busy_mode=None)).row
    other = msgspec.structs.replace(row, principal="another:user")
    assert agents.signature_for(row) == agents.signature_for(row)
    assert agents.signature_for(row) != agents.signature_for(other)
    source = msgspec.structs.replace(
        row.inbound.source, chat_type=ChatType.THREAD, thread_id="t", chat_id="c"
    )
    inbound = msgspec.structs.replace(row.inbound, source=source)
    shared, by_other = (msgspec.structs.replace(r, inbound=inbound) for r in (row, other))
    assert agents.signature_for(shared) == agents.signature_for(by_other)
    harness.model.say("hello")


@pytest.mark.parametrize(
    "changed",
    [
        {"agent": {"instructions": "Be brief."}},
        {"agent": {"max_steps": 7}},
        {"agent": {"toolsets": ("files",)}},
        {"model": {"name": "another"}},
        {"model": {"base_url": "http://elsewhere/v1"}},
        {"memory": {"max_chars": 500}},
    ],
)
async def test_the_signature_includes_every_config_value_that_shapes_an_agent(
    harness: GatewayHarness, changed: dict[str, dict[str, Any]]
) -> None:
    """A1, A2: prompt and tools are made from it."""
    row = (await harness.accept("hi")).row
    before = harness.gateway.agent_factory.signature_for(row)
    ((section, keys),) = changed.items()
    await harness.stop()
    part = msgspec.structs.replace(getattr(harness.settings, section), **keys)
    harness.settings = msgspec.structs.replace(harness.settings, **{section: part})
    await harness.start()
    assert harness.gateway.agent_factory.signature_for(row) != before
    harness.model.say("hello")


async def test_effort_and_subscribers_are_set_per_message_on_the_same_agent(
    harness: GatewayHarness,
) -> None:
    """A3: neither evicted nor rebuilt, and the system prompt stays the same object."""
    harness.model.say("one", "two", "three")
    first = await harness.accept("hi")
    assert "one " in await streamed_texts(harness, first)
    agent = cached_agent(harness, await harness.only_session())
    prompt = agent.prompt
    second = await harness.accept("hi", effort="high")
    assert "two " in await streamed_texts(harness, second)
    await harness.end_of(await harness.accept("hi"))
    assert cached_agent(harness, await harness.only_session()) is agent
    assert agent.prompt is prompt
    assert all(request.system is prompt for request in harness.model.requests)
    efforts = [request.reasoning for request in harness.model.requests]
    assert efforts == ["medium", "high", "medium"]


async def streamed_texts(harness: GatewayHarness, accepted: Accepted) -> list[str]:
    events = await harness.events_of(accepted)
    return [event.text for event in events if isinstance(event, TextStreamed)]


async def test_model_ends_the_entry_after_the_running_turn_and_no_other(
    harness: GatewayHarness, until: Until
) -> None:
    """A5: soft: the turn that runs is answered by the agent it has."""
    harness.model.say("hello")
    await harness.end_of(await harness.accept("hi", chat="other"))
    running = await harness.accept("hi")
    await harness.model.wait_for_request(2)
    agent = only_turn(harness).context.agent
    await harness.end_of(await harness.accept("/model another", busy_mode=None))
    assert agent.client is not None
    harness.model.say("from the old one", "from the new one")
    ended = await harness.end_of(running)
    assert (await last_reply(harness, ended)).model == "scripted"
    await until(lambda: agent.client is None)
    after = await harness.end_of(await harness.accept("hi"))
    assert (await last_reply(harness, after)).model == "another"
    assert len(harness.gateway.cache) == 2
    assert harness.gateway.snapshot()["agents"].misses == 3


async def test_new_ends_its_own_entry_and_no_other(harness: GatewayHarness, until: Until) -> None:
    """A5, A13: at once, and the client is released."""
    harness.model.say("1", "2")
    one = await harness.end_of(await harness.accept("hi"))
    two = await harness.end_of(await harness.accept("hi", chat="other"))
    await wait_for_idle_lanes(harness)
    agent = cached_agent(harness, session_of(one))
    await harness.end_of(await harness.accept("/new"))
    await until(lambda: agent.client is None)
    cache = harness.gateway.cache
    assert [session_of(ended) in cache for ended in (one, two)] == [False, True]


def only_turn(harness: GatewayHarness) -> Turn:
    (turn,) = [lane.running_turn for lane in harness.gateway.lanes if lane.running_turn]
    return turn


async def test_a_session_without_an_agent_yet_protects_no_cache_entry() -> None:
    """A8: it has no agent yet."""
    agents, cache = AgentBuilder(), new_cache(1)
    old = await agents.use(cache, "old")
    may_build = asyncio.Event()

    async def slow() -> Agent:
        await may_build.wait()
        return await agents.build("new")()

    leasing = asyncio.create_task(cache.lease(SessionId("new"), signature="s", build=slow))
    await next_loop_iteration()
    assert "old" in cache and "new" not in cache
    await agents.use(cache, "third")
    await next_loop_iteration()
    assert "old" not in cache and old.client is None
    may_build.set()
    busy = await leasing
    assert len(cache) == 1 and busy.client is not None


async def test_eviction_considers_only_the_excess_and_again_at_the_next_insert(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A8: the `size - cap` oldest; a WARNING with the number of those that are mid-turn."""
    agents, cache = AgentBuilder(), new_cache(2)
    busy = [await agents.lease(cache, name) for name in ("a", "b", "c")]
    await agents.use(cache, "d")
    assert len(cache) == 4, "d is recent: it is not evicted in place of a and b"
    warned = [r for r in caplog.records if r.levelname == "WARNING"]
    numbers = [record.getMessage().split(": ")[1].split()[0] for record in warned]
    assert numbers == ["1", "2"], "each time that it gets worse, and not with every insert"
    cache.release(busy[0])
    cache.release(busy[1])
    await agents.use(cache, "e")
    assert [name in cache for name in "abcde"] == [False, False, True, True, True]
    assert busy[2].client is not None


async def test_concurrent_turns_settle_at_the_cap(harness: GatewayHarness, until: Until) -> None:
    """A9: with real turns, many at once."""
    await harness.stop()
    small = msgspec.structs.replace(harness.settings.cache, max_agents=4)
    harness.settings = msgspec.structs.replace(harness.settings, cache=small)
    await harness.start()
    harness.model.say(*(["hello"] * 40))

    async def worker(number: int) -> None:
        for turn in range(5):
            await harness.end_of(await harness.accept("hi", chat=f"{number}-{turn}"))

    await asyncio.gather(*(worker(number) for number in range(8)))
    await until(lambda: len(harness.gateway.lanes) == 0)
    await until(lambda: harness.model.leased == 4)
    assert len(harness.gateway.cache) == 4


async def test_an_agent_can_be_interrupted_and_its_user_is_told_why(
    harness: GatewayHarness, call: Call
) -> None:
    """H7: the open call has its result, and the conversation continues."""
    held_tool = harness.held_tools[ReplayClass.NEVER]
    held_tool.go.clear()
    harness.model.say([call("never")])
    accepted = await harness.accept("go")
    await held_tool.wait_until_started(1)
    agent = only_turn(harness).context.agent
    assert agent.interrupt("the machine is needed for something else")
    ended = await harness.end_of(accepted)
    assert "the machine is needed for something else" in ended.text
    assert ended.turn_id is not None
    turn = await harness.store.read(GetTurn(turn_id=ended.turn_id))
    assert turn is not None and turn.state is TurnRowState.FAILED
    result = await last_message(harness, ended)
    assert isinstance(result, ToolMessage) and result.outcome == "cancelled"
    await wait_for_idle_lanes(harness)
    assert not agent.interrupt("nothing runs")
    harness.model.say("fine")
    assert (await harness.end_of(await harness.accept("and now?"))).text == "fine"


async def test_an_agent_can_be_interrupted_in_its_second_turn(harness: GatewayHarness) -> None:
    """A2, C3: each lease of one agent is a turn that can be stopped."""
    harness.model.say("hello")
    first = await harness.end_of(await harness.accept("hi"))
    await wait_for_idle_lanes(harness)
    accepted = await harness.accept("go")
    await harness.model.wait_for_request(2)
    agent = only_turn(harness).context.agent
    assert agent is cached_agent(harness, session_of(first))
    assert agent.interrupt("the machine is needed for something else")
    ended = await harness.end_of(accepted)
    assert "the machine is needed for something else" in ended.text


async def test_an_agent_that_is_closed_in_its_turn_ends_with_it(
    harness: GatewayHarness, until: Until
) -> None:
    """A11: the turn ends first, with all that a provider needs; then the client is released."""
    accepted = await harness.accept("go")
    await harness.model.wait_for_request(1)
    agent = only_turn(harness).context.agent
    await agent.close()
    assert "closed" in (await harness.end_of(accepted)).text
    await until(lambda: agent.client is None)
    assert harness.runners.ended == [agent.session_id]
    assert len(harness.gateway.cache) == 0
