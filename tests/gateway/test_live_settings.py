"""A reload while turns run: which settings each turn, agent and account has (A2, A4, law 13)."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from tests.support.controlled_store import ControlledStore
from tests.support.gateway_harness import Call, GatewayHarness, Until
from tests.support.replies import session_of
from tests.support.two_accounts import GatedPlatform, TwoAccountsHarness

from holdfast.core.config.changes import ChangeEffect, change_effect
from holdfast.core.config.settings import ApprovalMode, LogLevel, PlatformSettings, Settings
from holdfast.core.messages.inbox import BusyMode
from holdfast.core.messages.outbox import Address
from holdfast.core.messages.source import ChatType, Source
from holdfast.core.ops.account import AccountState
from holdfast.core.ops.status import GatewaySnapshot, Problem, StatusReport
from holdfast.core.ports.command import Query
from holdfast.core.ports.store_queries import GetContext
from holdfast.core.secrets import Secret
from holdfast.core.sessions.reset import ResetMode
from holdfast.core.turns.external import TaintPolicy
from holdfast.core.turns.model import AuxiliaryTask
from holdfast.core.turns.pricing import Price
from holdfast.core.turns.tool import ReplayClass
from holdfast.gateway.access import Action, principal_of
from holdfast.gateway.app import Gateway
from holdfast.gateway.turns.turn import Turn
from holdfast.server.status.problems import find_problems
from holdfast.system.logs import apply_log_level
from holdfast.testing.simulated.platform import SimulatedPlatform

R = TypeVar("R")


def settings_with(harness: GatewayHarness, **sections: Any) -> Settings:
    """The current settings with some keys changed."""
    settings = harness.gateway.settings
    for section, keys in sections.items():
        for key, value in keys.items():
            settings = with_key(settings, f"{section}.{key}", value)
    return settings


def apply_settings(harness: GatewayHarness, settings: Settings, **more: Any) -> None:
    """Apply settings as a reload does, with the same model and tools."""
    agent_config = harness.agent_config
    harness.gateway.apply_config(msgspec.structs.replace(agent_config, settings=settings, **more))


async def test_a_turn_that_runs_keeps_its_settings_and_the_next_has_the_new_ones(
    harness: GatewayHarness, call: Call
) -> None:
    """A2, A4: also where the running turn has steps to come, and no agent is taken from it."""
    held_tool = harness.held_tools[ReplayClass.NEVER]
    held_tool.go.clear()
    harness.model.say([call("never")])
    accepted = await harness.accept("go")
    await held_tool.wait_until_started(1)
    apply_settings(
        harness, settings_with(harness, agent={"instructions": "Rhyme.", "reasoning": "high"})
    )
    held_tool.go.set()
    harness.model.say("done", "and rhymed")
    assert (await harness.end_of(accepted)).text == "done"
    first, second = harness.model.requests
    assert (second.system, second.reasoning) == (first.system, first.reasoning)
    assert second.reasoning == "medium"
    assert (await harness.end_of(await harness.accept("again"))).text == "and rhymed"
    third = harness.model.requests[2]
    assert "Rhyme." in third.system and third.reasoning == "high"
    assert harness.model.leased == 1, "the old agent has released its client"


class HeldContextStore(ControlledStore):
    """A store that holds the construction of agents."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.asked, self.go = asyncio.Event(), asyncio.Event()
        self.go.set()

    async def read(self, query: Query[R]) -> R:
        if isinstance(query, GetContext):
            self.asked.set()
            await self.go.wait()
        return await super().read(query)


async def test_an_agent_is_rebuilt_when_its_settings_change_during_its_construction(
    tmp_path: Path,
) -> None:
    """A2: the settings change during the construction, and are then changed back."""
    harness, store = GatewayHarness(tmp_path / "state.db"), HeldContextStore(tmp_path / "state.db")
    harness.open_store = lambda path: store
    await harness.start()
    harness.model.say("one", "two", "three")
    ended = await harness.end_of(await harness.accept("hello"))
    cache, before = harness.gateway.cache, harness.gateway.settings
    cache.drop(session_of(ended))
    store.asked.clear()
    store.go.clear()
    second = await harness.accept("again")
    await store.asked.wait()
    apply_settings(harness, settings_with(harness, agent={"instructions": "Rhyme."}))
    cache.drop(session_of(ended))  # as a command does during the construction
    store.go.set()
    await harness.end_of(second)
    assert "Rhyme." in harness.model.requests[1].system
    apply_settings(harness, before)
    await harness.end_of(await harness.accept("and now?"))
    assert "Rhyme." not in harness.model.requests[2].system
    await harness.stop()


async def test_a_change_that_does_not_affect_agents_rebuilds_none(
    harness: GatewayHarness,
) -> None:
    """A2, A4: the cache of prompts keeps hitting over any number of such changes."""
    harness.model.say("one", "two")
    ended = await harness.end_of(await harness.accept("hello"))
    agent = harness.gateway.cache.find(session_of(ended))
    assert agent is not None
    prompt, hits = agent.prompt, harness.gateway.cache.hits
    apply_settings(
        harness,
        settings_with(
            harness,
            gateway={"busy_mode": BusyMode.QUEUE},
            agent={"reasoning": "low"},
            approvals={"timeout": 5.0},
            retention={"outbox_days": 3},
        ),
    )
    await harness.end_of(await harness.accept("and now?"))
    assert harness.gateway.cache.find(session_of(ended)) is agent
    assert agent.prompt is prompt
    assert harness.gateway.cache.hits == hits + 1
    assert harness.model.requests[1].reasoning == "low", "what each message sets afresh (A3)"


async def test_a_new_api_key_of_the_same_model_rebuilds_agents(harness: GatewayHarness) -> None:
    """A1: the signature includes the whole key, of the model and of its fallbacks."""
    harness.model.say("one", "two", "three")
    ended = await harness.end_of(await harness.accept("hello"))
    seen = [harness.gateway.cache.find(session_of(ended))]
    for keys in ({"api_key": Secret("a" * 40)}, {"fallback_keys": [Secret("b" * 40)]}):
        apply_settings(harness, harness.gateway.settings, **keys)
        await harness.end_of(await harness.accept("again"))
        seen.append(harness.gateway.cache.find(session_of(ended)))
    assert len({id(agent) for agent in seen}) == 3


async def test_new_and_old_secrets_are_redacted_after_a_reload(
    harness: GatewayHarness,
) -> None:
    """Law 13."""
    apply_settings(harness, harness.gateway.settings, secrets=[Secret("first-secret")])
    apply_settings(harness, harness.gateway.settings, secrets=[Secret("second-secret")])
    harness.model.say("first-secret and second-secret")
    harness.say("what do you know?")
    assert await harness.texts(1) == ["[redacted] and [redacted]"]


EVE = Source(platform="simulated", chat_id="home", user_id="eve", chat_type=ChatType.DM)
HOME, WORK, ELSEWHERE = (
    Address(platform="simulated", account=account, chat_id=chat)
    for account, chat in (("default", "home"), ("work", "office"), ("default", "elsewhere"))
)
LOGGER = logging.getLogger("holdfast")
Read = Callable[[Gateway, Turn], Any]
# Of each section a key that needs no restart, its new value, and how a gateway and a turn that
# starts after the reload show it.
APPLIED: dict[str, tuple[Any, Read]] = {
    "gateway.busy_mode": (
        BusyMode.QUEUE,
        lambda gateway, turn: gateway.live_settings.busy_mode(EVE),
    ),
    "model.context_window": (5000, lambda gateway, turn: turn.context.agent.window.size),
    "auxiliary.summaries": (
        False,
        lambda gateway, turn: gateway.auxiliary.is_enabled(AuxiliaryTask.SUMMARY),
    ),
    "compaction.at": (0.5, lambda gateway, turn: turn.context.agent.window._compact_at),
    "agent.max_steps": (7, lambda gateway, turn: turn.context.agent.max_steps),
    "cache.max_agents": (5, lambda gateway, turn: gateway.cache.status.max_agents),
    "delegate.max_background": (
        3,
        lambda gateway, turn: vars(turn.context.delegation)["_limits"].max_background,
    ),
    "jobs.max_per_person": (3, lambda gateway, turn: gateway.jobs.max_per_person),
    "memory.max_chars": (500, lambda gateway, turn: gateway.memory.notes.max_chars),
    "sessions.reset": (
        ResetMode.IDLE,
        lambda gateway, turn: gateway.sessions.policies.for_chat("simulated", ChatType.DM).mode,
    ),
    "retention.outbox_days": (
        3,
        lambda gateway, turn: gateway.settings.retention.outbox_days,
    ),
    "approvals.mode": (
        ApprovalMode.OFF,
        lambda gateway, turn: turn.context._settings.approvals.mode,
    ),
    "send.allow": (
        ("simulated:elsewhere",),
        lambda gateway, turn: (
            ("simulated:elsewhere",) if gateway.access.may_send_to(ELSEWHERE) else ()
        ),
    ),
    "web.deny": (("denied.example",), lambda gateway, turn: gateway.settings.web.deny),
    "injection.policy": (
        TaintPolicy.REFUSE,
        lambda gateway, turn: gateway.settings.injection.policy,
    ),
    "log.level": (
        LogLevel.ERROR,
        lambda gateway, turn: LogLevel(logging.getLevelName(LOGGER.level).lower()),
    ),
    "prices": (
        {"m": Price(input=1, output=2)},
        lambda gateway, turn: gateway.settings.prices,
    ),
    "platforms": (
        {"simulated": PlatformSettings(allow=("eve",), quiet=True)},
        lambda gateway, turn: {
            "simulated": PlatformSettings(
                allow=("eve",) if may_talk(gateway, EVE) else (),
                quiet=gateway.quiet_chats.is_quiet(EVE),
            )
        },
    ),
}


def may_talk(gateway: Gateway, source: Source) -> bool:
    return gateway.access.allows(principal_of(source), Action.TALK, source)


@pytest.fixture
def restored_log_level() -> Iterator[None]:
    before = LOGGER.level
    yield
    LOGGER.setLevel(before)


@pytest.mark.usefixtures("restored_log_level")
async def test_keys_that_need_no_restart_apply_from_the_next_turn(
    harness: GatewayHarness,
) -> None:
    """A key of every section, read where it is used."""
    sections = {key.partition(".")[0] for key in APPLIED}
    restarts = {
        name for name in Settings.__struct_fields__ if change_effect(name) is ChangeEffect.RESTART
    }
    assert sections == set(Settings.__struct_fields__) - restarts
    harness.gateway.live_settings.subscribe(apply_log_level)
    harness.model.say("one")
    await harness.end_of(await harness.accept("hello"))
    new_settings = harness.gateway.settings
    for key, (value, _) in APPLIED.items():
        assert change_effect(key) is not ChangeEffect.RESTART, key
        new_settings = with_key(new_settings, key, value)
    apply_settings(harness, new_settings)
    accepted = await harness.accept("and now?")
    await harness.model.wait_for_request(2)
    (lane,) = harness.gateway.lanes
    assert lane.running_turn is not None
    applied = {key: read(harness.gateway, lane.running_turn) for key, (_, read) in APPLIED.items()}
    assert applied == {key: value for key, (value, _) in APPLIED.items()}
    harness.model.say("two")
    await harness.end_of(accepted)


def with_key(settings: Settings, key: str, value: Any) -> Settings:
    section, _, name = key.partition(".")
    own = msgspec.structs.asdict(settings)[section]
    replaced = msgspec.structs.replace(own, **{name: value}) if name else value
    return msgspec.structs.replace(settings, **{section: replaced})


@pytest.fixture
async def two_accounts(tmp_path: Path) -> AsyncIterator[TwoAccountsHarness]:
    harness = TwoAccountsHarness(tmp_path / "state.db")
    await harness.start()
    yield harness
    await harness.stop()


def is_connected(harness: TwoAccountsHarness, account: str) -> bool:
    return harness.status_of(account).state is AccountState.CONNECTED


async def test_a_replaced_account_loses_nothing_and_leaves_the_others_connected(
    two_accounts: TwoAccountsHarness, until: Until
) -> None:
    """The other account keeps its connection, a turn continues, and its reply waits."""
    for account in ("default", "work"):
        await until(partial(is_connected, two_accounts, account))
    since = two_accounts.status_of("default").since
    default_platform = two_accounts.gateway.platforms.find(HOME)
    two_accounts.say_to_work("hello")
    await two_accounts.model.wait_for_request(1)
    replacement = GatedPlatform(two_accounts.work)
    two_accounts.gateway.accounts.add_or_replace(replacement)
    await until(lambda: two_accounts.status_of().state is AccountState.CONNECTING)
    two_accounts.model.say("an answer")
    await until(lambda: len(two_accounts.gateway.outbox) == 1)
    assert two_accounts.work.ledger().attempts == ()
    replacement.may_connect.set()
    assert await two_accounts.work_texts(1) == ["an answer"]
    assert two_accounts.gateway.platforms.find(WORK) is replacement
    assert two_accounts.gateway.platforms.find(HOME) is default_platform
    assert two_accounts.status_of("default").since == since


async def test_deliveries_to_a_removed_account_wait_and_are_reported(
    two_accounts: TwoAccountsHarness, until: Until
) -> None:
    """An account that is added again is connected like any other."""
    two_accounts.say_to_work("hello")
    await two_accounts.model.wait_for_request(1)
    two_accounts.gateway.accounts.remove("simulated", "work")
    await until(lambda: not two_accounts.gateway.platforms.has("simulated", "work"))
    two_accounts.model.say("nobody hears")
    await until(lambda: len(two_accounts.gateway.outbox) == 1)
    reported = [each for each in problems_of(two_accounts) if each.code == "account_removed"]
    assert [each.what for each in reported] == [
        "1 delivery waits for simulated:work, which is no longer configured."
    ]
    assert two_accounts.work.ledger().attempts == ()
    back = SimulatedPlatform(two_accounts.work, account="work", longest_delay=0.02)
    two_accounts.gateway.accounts.add_or_replace(back)
    assert await two_accounts.work_texts(1) == ["nobody hears"]
    await until(lambda: not two_accounts.gateway.outbox.undeliverable_counts)


def problems_of(harness: GatewayHarness) -> tuple[Problem, ...]:
    now = harness.clock.now()
    snapshot = GatewaySnapshot(state="running", since=now, **harness.gateway.snapshot())
    document = StatusReport(
        state="running",
        pid=1,
        version="",
        home="",
        started_at=now,
        uptime=1.0,
        snapshot=snapshot,
    )
    return find_problems(document, now=now)


async def test_a_removed_and_readded_account_has_one_connection_at_a_time(
    two_accounts: TwoAccountsHarness, until: Until
) -> None:
    """Also where its platform hangs while closing; the last request wins."""
    slow, last = (
        GatedPlatform(two_accounts.work),
        SimulatedPlatform(two_accounts.work, account="work", longest_delay=0.02),
    )
    slow.may_connect.set()
    slow.may_close.clear()
    two_accounts.gateway.accounts.add_or_replace(slow)
    await until(lambda: two_accounts.gateway.platforms.find(WORK) is slow)
    await until(lambda: two_accounts.status_of().state is AccountState.CONNECTED)
    two_accounts.gateway.accounts.remove("simulated", "work")
    two_accounts.gateway.accounts.add_or_replace(last)
    assert two_accounts.gateway.platforms.find(WORK) is slow, "its platform has not closed yet"
    slow.may_close.set()
    await until(lambda: two_accounts.gateway.platforms.find(WORK) is last)
    two_accounts.model.say("here")
    two_accounts.say_to_work("hello?")
    assert await two_accounts.work_texts(1) == ["here"]


async def test_a_paused_account_stays_paused_when_it_is_replaced(
    two_accounts: TwoAccountsHarness, until: Until
) -> None:
    """The pause was not undone."""
    await two_accounts.gateway.accounts.pause("simulated", "work")
    two_accounts.gateway.accounts.add_or_replace(
        SimulatedPlatform(two_accounts.work, account="work", longest_delay=0.02)
    )
    await two_accounts.gateway.accounts.check("simulated", "work")
    assert two_accounts.status_of().state is AccountState.PAUSED
