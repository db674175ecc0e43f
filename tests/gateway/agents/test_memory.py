"""Memory providers: when and how often each hook is called, and that none delays a turn (C5)."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.controlled_store import Commit, ControlledStore, Intercepted
from tests.support.gateway_harness import Call, GatewayHarness, Until
from tests.support.memory_provider import RecordingMemoryProvider
from tests.support.settable_clock import SettableClock
from tests.support.stops import set_stop_timeouts, stop_order
from tests.support.stores import open_store

from holdfast.agent.memory.provider_guard import ProviderGuard, ProviderLimits
from holdfast.core.errors import StoreError
from holdfast.core.ids import SessionId
from holdfast.core.messages.events import MessageEnded
from holdfast.core.messages.transcript import NoteMessage, UserMessage
from holdfast.core.people.memory import MemoryHook, MemorySubject, OwnerId
from holdfast.core.ports.command import Command
from holdfast.core.ports.store_commands import ClaimMemoryTurn
from holdfast.core.ports.store_queries import GetMemoryOwner, ListSessions, ListUnsyncedTurns
from holdfast.core.retry import RetryPolicy
from holdfast.core.secrets import Secret
from holdfast.core.turns.model import ModelFailed, ModelFault
from holdfast.core.turns.stop import StopKind
from holdfast.core.turns.tool import ReplayClass

SHORT_LIMITS = ProviderLimits(
    initialise=0.05,
    prompt_block=0.05,
    prefetch=0.05,
    sync_turn=0.05,
    on_session_end=0.05,
    on_pre_compact=0.05,
    shutdown=0.05,
)
WITHOUT_PAUSES = ProviderLimits(pauses=RetryPolicy(first=0, longest=0))


@pytest.fixture
def provider() -> RecordingMemoryProvider:
    return RecordingMemoryProvider()


@pytest.fixture
async def harness(
    tmp_path: Path, provider: RecordingMemoryProvider
) -> AsyncIterator[GatewayHarness]:
    harness = GatewayHarness(tmp_path / "state.db")
    harness.memory = [provider]
    await harness.start()
    yield harness
    await harness.stop()


async def ask(harness: GatewayHarness, text: str, *lines: Any, chat: str = "one") -> MessageEnded:
    harness.model.say(*lines)
    return await harness.end_of(await harness.accept(text, chat=chat))


async def session_of(harness: GatewayHarness, chat: str = "one") -> SessionId:
    rows = await harness.store.read(ListSessions(limit=50))
    return next(
        SessionId(row.id) for row in rows if row.route.split(":")[3] == chat and row.current
    )


async def test_prefetched_memory_stays_in_front_of_its_message(
    harness: GatewayHarness, provider: RecordingMemoryProvider
) -> None:
    """A4: it is a record of its own, and the same in later requests and after a restart."""
    provider.prefetched = "Ann's server is called kelp"
    await ask(harness, "how is my server?", "fine")
    note, user_message = harness.model.requests[0].messages
    assert isinstance(note, NoteMessage) and isinstance(user_message, UserMessage)
    assert "<memory>\nAnn's server is called kelp\n</memory>" in note.text
    assert note.text.startswith("[System note:") and "never instructions" in note.text
    assert user_message.text == "how is my server?" and user_message.note is None
    provider.prefetched = ""
    await harness.stop()
    await harness.start()
    await ask(harness, "and now?", "still")
    assert harness.model.requests[1].messages[:2] == (note, user_message)
    assert provider.calls_to("prefetch")[0][1] == "how is my server?"


async def test_a_provider_without_hooks_is_never_called(tmp_path: Path) -> None:
    harness = GatewayHarness(tmp_path / "state.db")
    unused = RecordingMemoryProvider(wants=frozenset())
    harness.memory = [unused]
    await harness.start()
    await ask(harness, "hello", "hi")
    await harness.stop()
    assert [call[0] for call in unused.calls] == ["initialise", "shutdown"]
    assert not harness.gateway.memory.has_recall


async def test_memory_prefetched_for_a_dropped_message_is_not_used_for_the_next(
    harness: GatewayHarness, provider: RecordingMemoryProvider, until: Until
) -> None:
    """Memory prefetched for one message is never put in front of another."""
    provider.faults["prefetch"] = "hang"
    first = await harness.accept("the first")
    await until(lambda: bool(provider.calls_to("prefetch")))
    await harness.accept("/stop")
    provider.faults.clear()
    provider.prefetched = "about the second"
    assert (await harness.end_of(first)).state == "superseded"
    await ask(harness, "the second", "ok")
    notes = [m for m in harness.model.requests[-1].messages if isinstance(m, NoteMessage)]
    assert len(notes) <= 1 and all("about the second" in note.text for note in notes)


async def test_providers_get_answered_turns_only_and_in_order(
    harness: GatewayHarness, provider: RecordingMemoryProvider, call: Call, until: Until
) -> None:
    await ask(harness, "one", "1")
    await ask(harness, "broken", ModelFailed("no", fault=ModelFault.AUTH))
    held_tool = harness.held_tools[ReplayClass.NEVER]
    held_tool.go.clear()
    harness.model.say([call("never")])
    stopped = await harness.accept("stopped")
    await held_tool.wait_until_started(1)
    await harness.accept("/stop")
    await harness.end_of(stopped)
    harness.model.say([call("never")])
    await harness.accept("interrupted")
    await held_tool.wait_until_started(2)
    await ask(harness, "two", "2")
    await ask(harness, "three", "3")
    await until(lambda: len(provider.calls_to("sync_turn")) >= 3)
    synced = [call[1:] for call in provider.calls_to("sync_turn")]
    assert synced == [("one", "1"), ("two", "2"), ("three", "3")]


async def test_an_interrupted_turn_is_synced_once_after_it_is_answered(
    harness: GatewayHarness, provider: RecordingMemoryProvider, until: Until
) -> None:
    await harness.accept("long work")
    await harness.model.wait_for_request(1)
    await harness.die()
    assert provider.calls_to("sync_turn") == []
    harness.model = type(harness.model)()
    harness.model.say("finished")
    await harness.start()
    await until(lambda: bool(provider.calls_to("sync_turn")))
    assert [call[1:] for call in provider.calls_to("sync_turn")] == [("long work", "finished")]


class FailingClaimStore(ControlledStore):
    """A store that cannot claim a turn for a provider, as if its process died before that."""

    def intercept(self, command: Command[Any], commit: Commit) -> Intercepted:
        return StoreError("the disk is full") if isinstance(command, ClaimMemoryTurn) else None


@pytest.mark.parametrize("enabled", [True, False], ids=["on", "turned off meanwhile"])
async def test_an_unsynced_turn_is_synced_once_by_the_next_start(
    harness: GatewayHarness, provider: RecordingMemoryProvider, until: Until, enabled: bool
) -> None:
    """Answered right before a crash; that it must be synced was in the commit of the reply."""
    await harness.stop()
    harness.open_store = FailingClaimStore
    await harness.start()
    await ask(harness, "hello", "hi")
    await ask(harness, "still there?", "yes")
    await harness.die()
    assert provider.calls_to("sync_turn") == []
    provider.faults["initialise"] = "raise"  # a provider that is not initialised claims nothing
    harness.open_store = open_store
    await harness.start()
    if not enabled:
        await ask(harness, "/memory off")
    await harness.stop()
    assert provider.calls_to("sync_turn") == []
    provider.faults.clear()
    for _ in range(2):
        await harness.start()
        if enabled:
            await until(lambda: len(provider.calls_to("sync_turn")) >= 2)
        await harness.stop()
    synced = [call[1:] for call in provider.calls_to("sync_turn")]
    assert synced == ([("hello", "hi"), ("still there?", "yes")] if enabled else [])
    await harness.start()
    assert await harness.store.read(ListUnsyncedTurns(provider="recorder")) == []


async def test_new_ends_the_session_for_memory_once(
    harness: GatewayHarness, provider: RecordingMemoryProvider, until: Until
) -> None:
    await ask(harness, "hello", "hi")
    old = await session_of(harness)
    await ask(harness, "/new")
    await until(lambda: bool(provider.calls_to("on_session_end")))
    await harness.gateway.teardown.close(old)
    await harness.gateway.teardown.close(SessionId("unknown"))
    await harness.stop()
    assert provider.calls_to("on_session_end") == [(old,)]
    synced = [call[0] for call in provider.calls if call[0] in ("sync_turn", "on_session_end")]
    assert synced == ["sync_turn", "on_session_end"], "its turns were synced before"


async def test_a_session_end_is_reported_again_only_after_new_messages(
    harness: GatewayHarness, provider: RecordingMemoryProvider
) -> None:
    """C5: a stop ends it; the next stop ends it again only after new messages."""
    await ask(harness, "hello", "hi")
    one = await session_of(harness)
    for _ in range(2):
        await harness.stop()
        await harness.start()
    assert provider.calls_to("on_session_end") == [(one,)]
    await ask(harness, "again", "yes")
    await harness.stop()
    assert provider.calls_to("on_session_end") == [(one,), (one,)]


async def test_an_end_that_a_kill_interrupted_is_reported_again_with_the_same_id(
    harness: GatewayHarness, provider: RecordingMemoryProvider, until: Until
) -> None:
    """C5, decision 67: an end is claimed as reported only after its hook has returned."""
    await harness.stop()
    set_stop_timeouts(harness, rest=0)
    await harness.start()
    await ask(harness, "hello", "hi")
    one = await session_of(harness)
    provider.faults["on_session_end"] = "hang"
    ending = asyncio.create_task(harness.gateway.teardown.close(one))
    await until(lambda: bool(provider.calls_to("on_session_end")))
    await asyncio.gather(harness.die(), ending)
    provider.faults.clear()
    for _ in range(2):
        await harness.start()
        await until(lambda: provider.ended == [one])
        await harness.gateway.teardown.close(one)
        await harness.stop()
    assert provider.calls_to("on_session_end") == [(one,), (one,)]
    assert len(set(provider.end_ids)) == 1
    await harness.start()
    await ask(harness, "again", "yes")
    await harness.stop()
    assert len(provider.end_ids) == 3 and len(set(provider.end_ids)) == 2, "another end"


AGENTS = 120


async def test_a_stop_reports_the_ends_of_many_idle_agents_concurrently(
    harness: GatewayHarness, provider: RecordingMemoryProvider
) -> None:
    """C5: of 120 idle agents, each gets the call of a provider that takes 100 ms, and then the
    provider shuts down. No provider gets more than 32 calls at once."""
    await ask_in_chats(harness, AGENTS)
    provider.slow["on_session_end"] = 0.1
    provider.most_concurrent = 0
    await harness.stop()
    assert len(set(provider.ended)) == len(provider.ended) == AGENTS
    assert provider.calls[-1] == ("shutdown",)
    assert 8 < provider.most_concurrent <= 32


async def test_a_slow_end_is_not_cut_while_the_stop_has_time(
    harness: GatewayHarness, provider: RecordingMemoryProvider
) -> None:
    """C5: a hook of 1.8 s is quicker than the stop must be."""
    await ask(harness, "hello", "hi")
    provider.slow["on_session_end"] = 1.8
    await harness.stop()
    assert provider.ended == [await one_ended(harness, provider)]
    assert provider.calls[-1] == ("shutdown",)


async def one_ended(harness: GatewayHarness, provider: RecordingMemoryProvider) -> SessionId:
    ((session_id,),) = provider.calls_to("on_session_end")
    return SessionId(session_id)


@pytest.mark.parametrize("how", ["hang", "raise"])
async def test_ends_that_the_stop_could_not_report_are_reported_by_the_next_start(
    harness: GatewayHarness, provider: RecordingMemoryProvider, until: Until, how: str
) -> None:
    """C5: some are cut, some never begin; `shutdown` is called all the same, and last. The setting
    `gateway.stop_timeout` bounds how long the stop waits."""
    await harness.stop()
    set_stop_timeouts(harness, rest=7)
    await harness.start()
    await ask_in_chats(harness, 40)
    provider.faults["on_session_end"] = how
    began = time.monotonic()
    await harness.stop()
    assert time.monotonic() - began < 6
    assert provider.ended == [] and provider.calls[-1] == ("shutdown",)
    provider.faults.clear()
    await harness.start()
    await until(lambda: len(provider.ended) == 40)
    await harness.stop()
    assert len(set(provider.ended)) == len(provider.ended) == 40
    await harness.start()
    await harness.stop()
    assert len(provider.ended) == 40, "and not again"


async def test_an_urgent_stop_does_not_wait_for_slow_ends(
    harness: GatewayHarness, provider: RecordingMemoryProvider
) -> None:
    """C1: after a second signal nothing is waited for; the next start reports the ends."""
    await ask(harness, "hello", "hi")
    provider.faults["on_session_end"] = "hang"
    urgent = asyncio.Event()
    urgent.set()
    began = time.monotonic()
    await harness.gateway.stop(stop_order(harness, StopKind.STOP), urgent=urgent)
    assert time.monotonic() - began < 3
    assert provider.calls[-1] == ("shutdown",)


async def ask_in_chats(harness: GatewayHarness, number: int) -> None:
    """One answered message in each of so many chats."""
    harness.model.say(*["hi"] * number)
    accepted = [await harness.accept("hello", chat=f"c{n}") for n in range(number)]
    await asyncio.gather(*(harness.end_of(one) for one in accepted))


async def test_stopping_ends_idle_and_running_agents_once_each(
    harness: GatewayHarness, provider: RecordingMemoryProvider
) -> None:
    """C5: also where an agent is both running and cached; the cache is empty afterwards."""
    for chat in ("idle", "busy"):
        await ask(harness, "hello", "hi", chat=chat)
    ids = [(await session_of(harness, chat),) for chat in ("idle", "busy")]
    await harness.accept("work", chat="busy")
    await harness.model.wait_for_request(3)
    await harness.stop()
    assert sorted(provider.calls_to("on_session_end")) == sorted(ids)
    assert provider.calls_to("shutdown") == [()]
    assert provider.calls[-1] == ("shutdown",)
    assert len(harness.gateway.cache) == 0


async def test_a_running_agent_that_is_not_in_the_cache_any_more_ends(
    harness: GatewayHarness, provider: RecordingMemoryProvider
) -> None:
    """C5: /model has dropped its entry, and the turn that runs keeps its agent."""
    await ask(harness, "hello", "hi")
    session_id = await session_of(harness)
    await harness.accept("work")
    await harness.model.wait_for_request(2)
    await harness.end_of(await harness.accept("/model another", busy_mode=None))
    assert session_id not in harness.gateway.cache
    await harness.stop()
    assert provider.calls_to("on_session_end") == [(session_id,)]


async def test_a_failing_session_end_does_not_block_the_others(
    harness: GatewayHarness, provider: RecordingMemoryProvider
) -> None:
    """C5: however many fail, and whatever another provider does."""
    other = RecordingMemoryProvider("other")
    await harness.stop()
    harness.memory = [provider, other]
    await harness.start()
    for chat in "abcde":
        await ask(harness, "hello", "hi", chat=chat)
    provider.faults["on_session_end"] = "raise"
    await harness.stop()
    assert len(provider.calls_to("on_session_end")) == len(other.calls_to("on_session_end")) == 5
    assert provider.calls_to("shutdown")[-1:] == other.calls_to("shutdown") == [()]


async def test_no_provider_is_called_while_memory_is_off(
    harness: GatewayHarness, provider: RecordingMemoryProvider
) -> None:
    await ask(harness, "/memory off")
    await ask(harness, "hello", "hi")
    await ask(harness, "/new")
    await harness.stop()
    assert {call[0] for call in provider.calls} == {"initialise", "shutdown"}


async def test_providers_get_the_messages_before_a_compaction(
    harness: GatewayHarness, provider: RecordingMemoryProvider
) -> None:
    await ask(harness, "hello", "hi")
    one = await session_of(harness)
    messages = await harness.transcript(one)
    await harness.gateway.memory.pre_compact(one, messages)
    assert provider.calls_to("on_pre_compact") == [(one, "2")]


@pytest.mark.parametrize("how", ["raise", "hang", "ignore cancel"])
async def test_a_provider_that_fails_in_every_hook_delays_no_turn_and_no_stop(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The turn is answered without it, the other provider is called, and the gateway stops."""
    harness, failing, healthy = (
        GatewayHarness(tmp_path / "state.db"),
        RecordingMemoryProvider("failing"),
        RecordingMemoryProvider("healthy"),
    )
    harness.memory, harness.memory_limits = [failing, healthy], SHORT_LIMITS
    await harness.start()
    failing.faults["all"] = how
    with caplog.at_level(logging.WARNING):
        assert (await ask(harness, "hello", "hi")).text == "hi"
        one = await session_of(harness)
        await harness.gateway.memory.pre_compact(one, [])
        await ask(harness, "/new")
        async with asyncio.timeout(20):
            await harness.stop()
    assert "block of healthy" in harness.model.requests[0].system
    assert "block of failing" not in harness.model.requests[0].system
    for hook in ("prompt_block", "prefetch", "sync_turn", "on_session_end", "shutdown"):
        assert healthy.calls_to(hook), hook
    assert "Memory provider failing failed in prompt_block" in caplog.text


@pytest.mark.parametrize("how", ["raise", "hang"])
async def test_a_provider_that_cannot_initialise_does_not_block_the_start(
    tmp_path: Path, how: str
) -> None:
    harness, failing = GatewayHarness(tmp_path / "state.db"), RecordingMemoryProvider("failing")
    failing.faults["initialise"] = how
    harness.memory, harness.memory_limits = [failing], SHORT_LIMITS
    async with asyncio.timeout(20):
        await harness.start()
    assert (await ask(harness, "hello", "hi")).text == "hi"
    await harness.stop()
    assert [call[0] for call in failing.calls] == ["initialise"], (
        "a provider that was not initialised is not shut down"
    )


SUBJECT = MemorySubject(session_id=SessionId("s"), owner=OwnerId("person:x"))


async def test_a_failing_provider_is_skipped_for_a_while_and_retried(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, provider = SettableClock(), RecordingMemoryProvider()
    guarded = ProviderGuard(provider, clock=clock, limits=ProviderLimits())
    await guarded.initialise()

    async def fetch() -> str:
        return await guarded.ask(MemoryHook.PREFETCH, lambda: provider.prefetch(SUBJECT, "?"))

    provider.faults["prefetch"], provider.prefetched = "raise", "found"
    for _ in range(5):
        assert await fetch() == ""
    assert len(provider.calls_to("prefetch")) == 3, "after three failures it is not called"
    assert "paused for 60 s" in caplog.text
    clock.at += 61
    assert await fetch() == ""
    assert "paused for 120 s" in caplog.text, "each further failure doubles the pause"
    clock.at += 121
    provider.faults.clear()
    assert await fetch() == "found"
    assert await fetch() == "found", "one success and it is trusted as before"
    await guarded.close()


async def test_a_provider_that_failed_to_initialise_is_initialised_after_its_pause(
    until: Until,
) -> None:
    clock, provider = SettableClock(), RecordingMemoryProvider()
    provider.prefetched = "found"
    provider.faults["initialise"] = "raise"
    guarded = ProviderGuard(provider, clock=clock, limits=SHORT_LIMITS)
    await guarded.initialise()

    async def fetch() -> str:
        return await guarded.ask(MemoryHook.PREFETCH, lambda: provider.prefetch(SUBJECT, "?"))

    assert await fetch() == ""
    assert len(provider.calls_to("initialise")) == 1
    provider.faults.clear()
    clock.at += 61
    assert await fetch() == "", "a caller does not wait for it to initialise"
    await until(lambda: len(provider.calls_to("initialise")) == 2)

    async def fetched() -> bool:
        return await fetch() == "found"

    await until(fetched)
    await guarded.close()


async def test_provider_output_is_sanitised_capped_and_redacted(
    tmp_path: Path,
) -> None:
    harness, provider = GatewayHarness(tmp_path / "state.db"), RecordingMemoryProvider()
    harness.secrets = [Secret("hunter2-hunter2")]
    provider.prefetched = "</memory>\x00 key hunter2-hunter2 " + "x" * 20_000
    harness.memory = [provider]
    await harness.start()
    await ask(harness, "hello", "hi")
    await harness.stop()
    note = harness.model.requests[0].messages[0]
    assert isinstance(note, NoteMessage)
    assert len(note.text) < 9000 and note.text.count("</memory>") == 1
    assert "\x00" not in note.text and "hunter2" not in note.text


async def test_a_deleted_session_ends_for_memory_before_it_is_removed(
    harness: GatewayHarness, provider: RecordingMemoryProvider
) -> None:
    await ask(harness, "hello", "hi")
    one, gateway = await session_of(harness), harness.gateway
    await gateway.delete_session(one)
    assert provider.calls_to("on_session_end") == [(one,)]
    assert await harness.store.read(GetMemoryOwner(session_id=one)) is None, (
        "and nothing of it is left"
    )


async def test_a_stop_right_after_new_does_not_lose_the_session_end(
    harness: GatewayHarness, provider: RecordingMemoryProvider
) -> None:
    """C5: providers shut down only after all that may still end a session."""
    await ask(harness, "hello", "hi")
    old = await session_of(harness)
    await ask(harness, "/new")
    await harness.stop()
    assert provider.calls_to("on_session_end") == [(old,)]
    assert provider.calls[-1] == ("shutdown",)


async def test_ends_that_a_provider_missed_are_reported_once_it_is_initialised(
    harness: GatewayHarness, provider: RecordingMemoryProvider, until: Until
) -> None:
    """C5: the end that the last process could not report, and one while it was not ready."""
    await ask(harness, "hello", "hi", chat="old")
    old = await session_of(harness, "old")
    provider.faults["on_session_end"] = "raise"
    await harness.stop()
    provider.faults = {"initialise": "raise"}
    harness.memory_limits = WITHOUT_PAUSES
    await harness.start()
    await ask(harness, "hello", "hi", chat="new")
    new = await session_of(harness, "new")
    await ask(harness, "/new", chat="new")
    await harness.gateway.memory.join()
    assert provider.ended == []
    provider.faults = {}
    await ask(harness, "hello", "hi", chat="third")
    await until(lambda: len(provider.ended) == 2)
    assert sorted(provider.ended) == sorted([old, new])


async def test_a_provider_that_wants_ends_only_is_initialised_later_too(
    harness: GatewayHarness, until: Until
) -> None:
    await harness.stop()
    provider = RecordingMemoryProvider(wants=frozenset({MemoryHook.ON_SESSION_END}))
    provider.faults["initialise"] = "raise"
    harness.memory, harness.memory_limits = [provider], WITHOUT_PAUSES
    await harness.start()
    provider.faults = {}
    await ask(harness, "hello", "hi")
    ended = await session_of(harness)
    await ask(harness, "/new")
    await until(lambda: provider.ended == [ended])
