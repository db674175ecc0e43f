"""A configuration that is put into force while turns run: who has which, and what stays so."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.gateway_harness import Call, GatewayHarness, Until
from tests.support.two_accounts import Late, Two

from holdfast.core.config.changes import ChangeEffect, change_effect
from holdfast.core.config.settings import ApprovalMode, LogLevel, PlatformSettings, Settings
from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import BusyMode
from holdfast.core.messages.outbox import Address
from holdfast.core.messages.source import ChatType, Source
from holdfast.core.ops.account import AccountState
from holdfast.core.ops.status import GatewaySnapshot, Problem, StatusReport
from holdfast.core.secrets import Secret
from holdfast.core.sessions.reset import ResetMode
from holdfast.core.turns.model import AuxiliaryTask
from holdfast.core.turns.pricing import Price
from holdfast.core.turns.tool import ReplayClass
from holdfast.gateway.app import Gateway
from holdfast.gateway.inbound.access import Action, principal_of
from holdfast.gateway.turns.turn import Turn
from holdfast.server.status.problems import find_problems
from holdfast.store.sqlite.store import SqliteStore
from holdfast.system.logs import apply_log_level
from holdfast.testing.simulated.platform import SimulatedPlatform


def changed(harness: GatewayHarness, **sections: Any) -> Settings:
    """The settings in force, with some keys of some sections set otherwise."""
    settings = harness.gateway.services.settings
    for section, keys in sections.items():
        for key, value in keys.items():
            settings = with_key(settings, f"{section}.{key}", value)
    return settings


def put(harness: GatewayHarness, settings: Settings, **more: Any) -> None:
    """As whoever reads the file does, with the model and the tools that were there."""
    outfit = harness.gateway.dependencies.agent_config
    harness.gateway.apply_config(msgspec.structs.replace(outfit, settings=settings, **more))


async def test_a_turn_that_runs_keeps_its_settings_and_the_next_has_the_new_ones(
    harness: GatewayHarness, call: Call
) -> None:
    """A2, A4: also where the running turn has steps to come, and no agent is taken from it."""
    lever = harness.held_tools[ReplayClass.NEVER]
    lever.go.clear()
    harness.model.say([call("never")])
    accepted = await harness.accept("go")
    await lever.wait_until_started(1)
    put(harness, changed(harness, agent={"instructions": "Rhyme.", "reasoning": "high"}))
    lever.go.set()
    harness.model.say("done", "and rhymed")
    assert (await harness.end_of(accepted)).text == "done"
    first, second = harness.model.requests
    assert (second.system, second.reasoning) == (first.system, first.reasoning)
    assert second.reasoning == "medium"
    assert (await harness.end_of(await harness.accept("again"))).text == "and rhymed"
    third = harness.model.requests[2]
    assert "Rhyme." in third.system and third.reasoning == "high"
    assert harness.model.leased == 1, "the agent of before has given its client back"


class Held(SqliteStore):
    """A store that keeps whoever builds an agent waiting."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.asked, self.go = asyncio.Event(), asyncio.Event()
        self.go.set()

    async def context(self, session_id: SessionId) -> Any:
        self.asked.set()
        await self.go.wait()
        return await super().context(session_id)


async def test_an_agent_is_rebuilt_when_its_settings_change_during_its_construction(
    tmp_path: Path,
) -> None:
    """A2: another configuration came meanwhile, and then the first one again."""
    harness, store = GatewayHarness(tmp_path / "state.db"), Held(tmp_path / "state.db")
    harness.open_store = lambda path: store
    await harness.start()
    harness.model.say("one", "two", "three")
    ended = await harness.end_of(await harness.accept("hello"))
    cache, before = harness.gateway.services.cache, harness.gateway.services.settings
    cache.drop(ended.session_id)
    store.asked.clear()
    store.go.clear()
    second = await harness.accept("again")
    await store.asked.wait()
    put(harness, changed(harness, agent={"instructions": "Rhyme."}))
    cache.drop(ended.session_id)  # as a command does, while it is built
    store.go.set()
    await harness.end_of(second)
    assert "Rhyme." in harness.model.requests[1].system
    put(harness, before)
    await harness.end_of(await harness.accept("and now?"))
    assert "Rhyme." not in harness.model.requests[2].system
    await harness.stop()


async def test_a_change_that_does_not_affect_agents_rebuilds_none(
    harness: GatewayHarness,
) -> None:
    """A2, A4: the cache of prompts keeps hitting over any number of such changes."""
    harness.model.say("one", "two")
    ended = await harness.end_of(await harness.accept("hello"))
    agent = harness.gateway.services.cache.find(ended.session_id)
    assert agent is not None
    prompt, hits = agent.prompt, harness.gateway.services.cache.hits
    put(
        harness,
        changed(
            harness,
            gateway={"busy_mode": BusyMode.QUEUE},
            agent={"reasoning": "low"},
            approvals={"timeout": 5.0},
            retention={"outbox_days": 3},
        ),
    )
    await harness.end_of(await harness.accept("and now?"))
    assert harness.gateway.services.cache.find(ended.session_id) is agent
    assert agent.prompt is prompt
    assert harness.gateway.services.cache.hits == hits + 1
    assert harness.model.requests[1].reasoning == "low", "what each message sets afresh (A3)"


async def test_a_new_api_key_of_the_same_model_rebuilds_agents(harness: GatewayHarness) -> None:
    """A1: the whole key is signed, of the model and of those that stand in for it."""
    harness.model.say("one", "two", "three")
    ended = await harness.end_of(await harness.accept("hello"))
    seen = [harness.gateway.services.cache.find(ended.session_id)]
    for keys in ({"api_key": Secret("a" * 40)}, {"fallback_keys": [Secret("b" * 40)]}):
        put(harness, harness.gateway.services.settings, **keys)
        await harness.end_of(await harness.accept("again"))
        seen.append(harness.gateway.services.cache.find(ended.session_id))
    assert len({id(agent) for agent in seen}) == 3


async def test_new_and_old_secrets_are_redacted_after_a_reload(
    harness: GatewayHarness,
) -> None:
    """Law 13."""
    put(harness, harness.gateway.services.settings, secrets=[Secret("first-secret")])
    put(harness, harness.gateway.services.settings, secrets=[Secret("second-secret")])
    harness.model.say("first-secret and second-secret")
    harness.say("what do you know?")
    assert await harness.texts(1) == ["[redacted] and [redacted]"]


EVE = Source(platform="simulated", chat_id="home", user_id="eve", chat_type=ChatType.DM)
HOME, WORK, ELSEWHERE = (
    Address(platform="simulated", account=account, chat_id=chat)
    for account, chat in (("default", "home"), ("work", "office"), ("default", "elsewhere"))
)
Read = Callable[[Gateway, Turn], Any]
# Of each section a key that claims to hold without a restart, what it is set to, and who shows it:
# those who have made something of the settings, and a turn that begins after the swap.
APPLIED: dict[str, tuple[Any, Read]] = {
    "gateway.busy_mode": (BusyMode.QUEUE, lambda now, turn: now.services.busy_mode(EVE)),
    "model.context_window": (5000, lambda now, turn: turn.agent.window.size),
    "auxiliary.summaries": (
        False,
        lambda now, turn: now.services.auxiliary.is_enabled(AuxiliaryTask.SUMMARY),
    ),
    "compaction.at": (0.5, lambda now, turn: turn.agent.window._compact_at),
    "agent.max_steps": (7, lambda now, turn: turn.agent.max_steps),
    "cache.max_agents": (5, lambda now, turn: now.services.cache.status.max_agents),
    "delegate.max_background": (
        3,
        lambda now, turn: turn.context.delegation._limits.max_background,
    ),
    "jobs.max_per_person": (3, lambda now, turn: now.services.jobs.max_per_person),
    "memory.max_chars": (500, lambda now, turn: now.services.memory.notes.max_chars),
    "sessions.reset": (
        ResetMode.IDLE,
        lambda now, turn: now.sessions.policies.for_chat("simulated", ChatType.DM).mode,
    ),
    "retention.outbox_days": (3, lambda now, turn: now.services.settings.retention.outbox_days),
    "approvals.mode": (ApprovalMode.OFF, lambda now, turn: turn.context._settings.approvals.mode),
    "send.allow": (
        ("simulated:elsewhere",),
        lambda now, turn: ("simulated:elsewhere",) if now.access.may_send_to(ELSEWHERE) else (),
    ),
    "log.level": (
        LogLevel.ERROR,
        lambda now, turn: LogLevel(logging.getLevelName(OURS.level).lower()),
    ),
    "prices": (
        {"m": Price(input=1, output=2)},
        lambda now, turn: now.services.settings.prices,
    ),
    "platforms": (
        {"simulated": PlatformSettings(allow=("eve",), quiet=True)},
        lambda now, turn: {
            "simulated": PlatformSettings(
                allow=("eve",) if talks(now, EVE) else (),
                quiet=now.services.quiet_chats.is_quiet(EVE),
            )
        },
    ),
}
OURS = logging.getLogger("holdfast")


def talks(now: Gateway, who: Source) -> bool:
    return now.access.allows(principal_of(who), Action.TALK, who)


@pytest.fixture
def level() -> Iterator[None]:
    before = OURS.level
    yield
    OURS.setLevel(before)


@pytest.mark.usefixtures("level")
async def test_keys_that_need_no_restart_apply_from_the_next_turn(
    harness: GatewayHarness,
) -> None:
    """A key of every section, each shown by those who go by it."""
    sections = {key.partition(".")[0] for key in APPLIED}
    restarts = {
        name for name in Settings.__struct_fields__ if change_effect(name) is ChangeEffect.RESTART
    }
    assert sections == set(Settings.__struct_fields__) - restarts
    harness.gateway.services.live_settings.subscribe(apply_log_level)
    harness.model.say("one")
    await harness.end_of(await harness.accept("hello"))
    wanted = harness.gateway.services.settings
    for key, (value, _) in APPLIED.items():
        assert change_effect(key) is not ChangeEffect.RESTART, key
        wanted = with_key(wanted, key, value)
    put(harness, wanted)
    accepted = await harness.accept("and now?")
    await harness.model.wait_for_request(2)
    (lane,) = harness.gateway.lanes
    assert lane.running_turn is not None
    shown = {key: read(harness.gateway, lane.running_turn) for key, (_, read) in APPLIED.items()}
    assert shown == {key: value for key, (value, _) in APPLIED.items()}
    harness.model.say("two")
    await harness.end_of(accepted)


def with_key(settings: Settings, key: str, value: Any) -> Settings:
    section, _, name = key.partition(".")
    own = msgspec.structs.asdict(settings)[section]
    changed = msgspec.structs.replace(own, **{name: value}) if name else value
    return msgspec.structs.replace(settings, **{section: changed})


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Two]:
    harness = Two(tmp_path / "state.db")
    await harness.start()
    yield harness
    await harness.stop()


async def test_a_replaced_account_loses_nothing_and_leaves_the_others_connected(
    two: Two, until: Until
) -> None:
    """The other keeps its connection, a turn goes on, and what it says waits for the new one."""
    for account in ("default", "work"):
        await until(lambda account=account: two.facts(account).state is AccountState.CONNECTED)
    since = two.facts("default").since
    kept = two.gateway.services.platforms.find(HOME)
    two.say_at_work("hello")
    await two.model.wait_for_request(1)
    anew = Late(two.work)
    two.gateway.accounts.add_or_replace(anew)
    await until(lambda: two.facts().state is AccountState.CONNECTING)
    two.model.say("an answer")
    await until(lambda: len(two.gateway.outbox) == 1)
    assert two.work.ledger().attempts == ()
    anew.let_in.set()
    assert await two.sent_at_work(1) == ["an answer"]
    assert two.gateway.services.platforms.find(WORK) is anew
    assert two.gateway.services.platforms.find(HOME) is kept
    assert two.facts("default").since == since


async def test_deliveries_to_a_removed_account_wait_and_are_reported(
    two: Two, until: Until
) -> None:
    """Put back, or added for the first time, an account is connected like any other."""
    two.say_at_work("hello")
    await two.model.wait_for_request(1)
    two.gateway.accounts.remove("simulated", "work")
    await until(lambda: not two.gateway.services.platforms.has("simulated", "work"))
    two.model.say("nobody hears")
    await until(lambda: len(two.gateway.outbox) == 1)
    told = [each for each in facts(two) if each.code == "account_removed"]
    assert [each.what for each in told] == [
        "1 delivery waits for simulated:work, which is not configured any more."
    ]
    assert two.work.ledger().attempts == ()
    back = SimulatedPlatform(two.work, account="work", longest_delay=0.02)
    two.gateway.accounts.add_or_replace(back)
    assert await two.sent_at_work(1) == ["nobody hears"]
    await until(lambda: not two.gateway.outbox.undeliverable_counts)


def facts(harness: GatewayHarness) -> tuple[Problem, ...]:
    now = harness.clock.now()
    snapshot = GatewaySnapshot(state="running", since=now, **harness.gateway.snapshot())
    document = StatusReport(
        state="running", pid=1, version="", home="", started_at=now, uptime=1.0, snapshot=snapshot
    )
    return find_problems(document, now=now)


async def test_a_removed_and_readded_account_has_one_connection_at_a_time(
    two: Two, until: Until
) -> None:
    """Also where its door hangs meanwhile: never two at a time, and the last wish counts."""
    slow, last = Late(two.work), SimulatedPlatform(two.work, account="work", longest_delay=0.02)
    slow.let_in.set()
    slow.let_out.clear()
    two.gateway.accounts.add_or_replace(slow)
    await until(lambda: two.gateway.services.platforms.find(WORK) is slow)
    await until(lambda: two.facts().state is AccountState.CONNECTED)
    two.gateway.accounts.remove("simulated", "work")
    two.gateway.accounts.add_or_replace(last)
    assert two.gateway.services.platforms.find(WORK) is slow, "its door has not closed yet"
    slow.let_out.set()
    await until(lambda: two.gateway.services.platforms.find(WORK) is last)
    two.model.say("here")
    two.say_at_work("hello?")
    assert await two.sent_at_work(1) == ["here"]


async def test_a_paused_account_stays_paused_when_it_is_replaced(two: Two, until: Until) -> None:
    """Whoever paused it has not taken that back."""
    await two.gateway.accounts.pause("simulated", "work")
    two.gateway.accounts.add_or_replace(
        SimulatedPlatform(two.work, account="work", longest_delay=0.02)
    )
    await two.gateway.accounts.check("simulated", "work")
    assert two.facts().state is AccountState.PAUSED
