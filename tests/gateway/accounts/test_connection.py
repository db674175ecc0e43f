"""The lines of accounts, in time that passes only when nobody has anything to do: tried again,
parked, replaced, paused, and never in each other's way."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.state_machine.virtual_time import VirtualClock, VirtualTimeLoop

from holdfast.core.errors import (
    AccountDisconnected,
    AccountInUse,
    ConnectRefused,
    StoreError,
    Throttled,
)
from holdfast.core.messages.outbox import Outbound, Receipt
from holdfast.core.ops.account import AccountState
from holdfast.core.people.audit import AuditEntry
from holdfast.core.ports.capabilities import Capabilities
from holdfast.core.ports.platform import Platform
from holdfast.gateway.accounts.accounts import Accounts, PausedAccounts
from holdfast.gateway.accounts.connection import (
    NO_CREDENTIAL_LOCKS,
    AccountDependencies,
    BackoffSettings,
)
from holdfast.gateway.accounts.registry import PlatformRegistry

HANG = "hang"
DEAF = "deaf"  # hangs, and does not hear that it is cancelled, for a minute
REFUSED = ConnectRefused("the token is bad", remedy="Ask for another")
DOWN = OSError("there is nobody")


class Fickle:
    """A door that does at each attempt what the test has laid down, and the last of it for ever."""

    def __init__(self, *plan: Any, account: str = "a", alive_within: float = 0.0) -> None:
        self.name = "fickle"
        self.account = account
        self.capabilities = Capabilities(heartbeat_interval=alive_within)
        self.plan = list(plan) or [None]
        self.attempts: list[float] = []
        self.open = 0
        self.leaves: Any = None
        self.breaks = asyncio.Event()  # a task of the door's own fails then
        self.fault: Exception = AccountDisconnected("cut")

    @asynccontextmanager
    async def connect(self, intake: Any) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        self.attempts.append(loop.time())
        await self._do(self.plan.pop(0) if len(self.plan) > 1 else self.plan[0])
        async with asyncio.TaskGroup() as tasks:
            breaking = tasks.create_task(self._break())
            self.open += 1
            try:
                yield
            finally:
                self.open -= 1
                breaking.cancel()
                await self._do(self.leaves)

    async def _do(self, what: Any) -> None:
        if isinstance(what, Exception):
            raise what
        if what == HANG:
            await asyncio.Event().wait()
        elif what == DEAF:
            end = asyncio.get_running_loop().time() + 60
            while (left := end - asyncio.get_running_loop().time()) > 0:
                try:
                    await asyncio.sleep(left)
                except asyncio.CancelledError:
                    continue

    async def _break(self) -> None:
        await self.breaks.wait()
        self.breaks.clear()
        raise self.fault

    async def send(self, outbound: Outbound) -> Receipt:
        raise AssertionError("nothing is sent here")


class Slate:
    """A store of which only the notes beside the rows are used."""

    def __init__(self) -> None:
        self.written: dict[str, str] = {}
        self.full = False

    async def meta(self, key: str) -> str | None:
        return self.written.get(key)

    async def set_meta(self, key: str, value: str) -> None:
        await asyncio.sleep(0)
        if self.full:
            raise StoreError("the disk is full")
        self.written[key] = value

    def audited(self, act: AuditEntry) -> "Slate":
        return self  # who wanted a change is the audit's to test

    async def record_audit(self, act: AuditEntry) -> None:
        await asyncio.sleep(0)


class Board:
    """The lines of some doors on a loop whose time is held."""

    def __init__(self, *doors: Fickle, slate: Slate | None = None) -> None:
        self.loop = VirtualTimeLoop()
        self.clock = VirtualClock(self.loop)
        self.platforms = PlatformRegistry(doors, clock=self.clock)
        self.slate = slate or Slate()
        self.connected: set[str] = set()
        self.loop.run_until_complete(self._open())

    async def _open(self) -> None:
        self.tasks = asyncio.TaskGroup()
        await self.tasks.__aenter__()
        ground = AccountDependencies(
            intake=self,  # type: ignore[arg-type]  # these doors say nothing to it
            platforms=self.platforms,
            credential_locks=NO_CREDENTIAL_LOCKS,
            clock=self.clock,
            random=lambda: 0.5,
            backoff_settings=BackoffSettings(),
            tasks=self.tasks,
            on_connected=lambda door: self.connected.add(door.account),
            on_disconnected=lambda door: self.connected.discard(door.account),
            redact=str,
        )
        paused = PausedAccounts(self.slate, clock=self.clock)  # type: ignore[arg-type]
        self.accounts = Accounts(ground, paused)
        await self.accounts.open()

    def run(self, work: Any) -> Any:
        return self.loop.run_with_timeout(work, timeout=3600)

    def state(self, door: Platform) -> AccountState:
        return self.platforms.status_of(door).state

    def close(self) -> None:
        self.run(self._close())
        assert self.loop.errors == []
        self.loop.close()

    async def _close(self) -> None:
        await self.accounts.close()
        await self.tasks.__aexit__(None, None, None)


@pytest.fixture
def boards() -> Iterator[list[Board]]:
    made: list[Board] = []
    yield made
    for board in made:
        board.close()


@pytest.fixture
def board(boards: list[Board]) -> Any:
    def make(*doors: Fickle, slate: Slate | None = None) -> Board:
        boards.append(Board(*doors, slate=slate))
        return boards[-1]

    return make


def pauses(door: Fickle) -> list[float]:
    return [round(b - a, 3) for a, b in zip(door.attempts, door.attempts[1:], strict=False)]


def test_a_temporary_failure_is_retried_with_backoff_forever(board: Any) -> None:
    door = Fickle(DOWN)
    held = board(door)
    held.loop.wait(3 * 3600)
    assert pauses(door)[:10] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert set(pauses(door)[9:]) == {300} and len(door.attempts) > 40
    facts = held.platforms.status_of(door)
    assert (facts.state, facts.error) == (AccountState.RETRYING, "there is nobody")
    assert facts.next_attempt_at > held.clock.now() and facts.failures == len(door.attempts)


def test_a_hanging_attempt_times_out(board: Any) -> None:
    door = Fickle(HANG, None)
    held = board(door)
    held.loop.wait(29)
    assert held.state(door) is AccountState.CONNECTING
    held.loop.wait(1.5)
    assert "within 30 s" in held.platforms.status_of(door).error
    held.loop.wait(1)
    assert held.state(door) is AccountState.CONNECTED and held.connected == {"a"}


def test_a_refused_account_stays_blocked_until_it_is_resumed(board: Any) -> None:
    door = Fickle(REFUSED, None)
    held = board(door)
    held.loop.wait(24 * 3600)
    facts = held.platforms.status_of(door)
    assert (facts.state, facts.error) == (AccountState.BLOCKED, "the token is bad")
    assert facts.remedy == "Ask for another" and facts.next_attempt_at is None
    assert len(door.attempts) == 1
    assert held.run(held.accounts.resume("fickle", "a")).state is AccountState.CONNECTED


def test_an_account_in_use_names_its_holder_and_is_retried(board: Any) -> None:
    door = Fickle(AccountInUse("somebody else is connected", holder="the one next door"), None)
    held = board(door)
    held.loop.wait(0.5)
    facts = held.platforms.status_of(door)
    assert facts.error == "somebody else is connected (the one next door)" and facts.remedy
    held.loop.wait(1)
    assert held.state(door) is AccountState.CONNECTED


def test_a_retry_after_of_the_platform_is_obeyed(board: Any) -> None:
    door = Fickle(Throttled("slowly", retry_after=90), None)
    board(door).loop.wait(100)
    assert pauses(door) == [90]


def test_only_a_lasting_connection_resets_the_backoff(board: Any) -> None:
    door = Fickle(DOWN, DOWN, None)
    held = board(door)
    held.loop.wait(3.5)
    for pause in (4, 8, 16):  # it breaks as soon as it stands
        assert door.open == 1
        door.breaks.set()
        held.loop.wait(pause + 0.5)
    assert door.open == 1
    held.loop.wait(61)
    door.breaks.set()
    held.loop.wait(1.5)
    assert door.open == 1, "a minute was a success"


@pytest.mark.parametrize("how", ["told", "task group"])
def test_a_broken_connection_is_reopened(board: Any, how: str) -> None:
    door = Fickle()
    held = board(door)
    held.loop.tick(5)
    assert held.connected == {"a"}
    if how == "told":
        held.accounts.connection_lost("fickle", "a", AccountDisconnected("cut"))
    else:
        door.breaks.set()
    held.loop.tick(10)
    facts = held.platforms.status_of(door)
    assert (facts.state, facts.error) == (AccountState.RETRYING, "cut")
    assert held.connected == set() and door.open == 0
    held.loop.wait(1)
    assert held.connected == {"a"} and door.open == 1


@pytest.mark.parametrize("how", ["told", "task group"])
def test_a_token_revoked_while_connected_blocks_the_account(board: Any, how: str) -> None:
    door = Fickle()
    held = board(door)
    held.loop.tick(5)
    door.fault = REFUSED
    if how == "told":
        held.accounts.connection_lost("fickle", "a", REFUSED)
    else:
        door.breaks.set()
    held.loop.wait(3600)
    assert held.state(door) is AccountState.BLOCKED and len(door.attempts) == 1


def test_a_half_open_connection_is_noticed_and_replaced(board: Any) -> None:
    """Law 9: no sign of life within what the door declares."""
    door = Fickle(alive_within=60)
    held = board(door)
    for _ in range(10):
        held.loop.wait(50)
        held.platforms.mark_alive("fickle", "a")
    assert len(door.attempts) == 1, "it has given signs of life"
    held.loop.wait(59)
    assert held.connected == {"a"}
    held.loop.wait(1.5)
    facts = held.platforms.status_of(door)
    assert facts.error == "nothing was heard of it for 60 s"
    held.loop.wait(1)
    assert held.connected == {"a"} and len(door.attempts) == 2


def test_a_successful_send_does_not_prove_that_messages_are_received(board: Any) -> None:
    door = Fickle(alive_within=60)
    held = board(door)
    for _ in range(4):
        held.loop.wait(20)
        held.platforms.mark_reachable("fickle", "a")  # as delivery has it
    assert len(door.attempts) == 2


def test_silence_is_ignored_without_a_declared_heartbeat(board: Any) -> None:
    door = Fickle()
    board(door).loop.wait(24 * 3600)
    assert len(door.attempts) == 1


def test_a_report_about_a_closed_connection_is_ignored(board: Any) -> None:
    door = Fickle(REFUSED)
    held = board(door)
    held.loop.tick(5)
    held.accounts.connection_lost("fickle", "a", AccountDisconnected("late"))
    held.accounts.connection_lost("fickle", "nobody", AccountDisconnected("late"))
    held.loop.tick(5)
    assert held.platforms.status_of(door).error == "the token is bad"


@pytest.mark.parametrize("plan", [None, HANG, DOWN, REFUSED])
def test_an_account_is_paused_from_any_state_and_stays_paused(board: Any, plan: Any) -> None:
    """Also over a restart."""
    door, slate = Fickle(plan), Slate()
    held = board(door, slate=slate)
    held.loop.tick(5)
    assert held.run(held.accounts.pause("fickle", "a")).state is AccountState.PAUSED
    tried = len(door.attempts)
    held.run(held.accounts.pause("fickle", "a"))  # which changes nothing
    held.loop.wait(3600)
    assert len(door.attempts) == tried and door.open == 0 and held.connected == set()
    again = Fickle()
    second = board(again, slate=slate)
    second.loop.wait(3600)
    assert again.attempts == [] and second.state(again) is AccountState.PAUSED
    assert second.run(second.accounts.check("fickle", "a")).state is AccountState.PAUSED
    assert second.run(second.accounts.resume("fickle", "a")).state is AccountState.CONNECTED
    third = board(Fickle(), slate=slate)
    third.loop.tick(5)
    assert third.connected == {"a"}


def test_a_check_retries_a_disconnected_account_and_leaves_a_connected_one_alone(
    board: Any,
) -> None:
    door = Fickle(DOWN, DOWN, DOWN, DOWN, DOWN, None)
    held = board(door)
    held.loop.wait(8)
    assert held.state(door) is AccountState.RETRYING
    while held.run(held.accounts.check("fickle", "a")).state is AccountState.RETRYING:
        pass
    assert held.connected == {"a"} and held.loop.time() == 8
    held.run(held.accounts.check("fickle", "a"))
    assert len(door.attempts) == 6


def test_a_check_of_a_hanging_connection_returns(board: Any) -> None:
    door = Fickle(HANG)
    held = board(door)
    assert held.run(held.accounts.check("fickle", "a")).state is AccountState.CONNECTING
    assert held.loop.time() <= 11


def test_a_platform_that_does_not_close_is_abandoned_and_reconnected(board: Any) -> None:
    door = Fickle()
    held = board(door)
    held.loop.tick(5)
    door.leaves = HANG
    held.accounts.connection_lost("fickle", "a", AccountDisconnected("cut"))
    held.loop.wait(7)
    assert held.connected == {"a"} and len(door.attempts) == 2
    door.leaves = None


TROUBLE = st.sampled_from([None, HANG, DEAF, DOWN, REFUSED, ValueError("a bug")])


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    plans=st.lists(st.lists(TROUBLE, min_size=1, max_size=4), min_size=1, max_size=4),
    leaving=st.lists(st.sampled_from([None, HANG, DEAF, DOWN]), min_size=4, max_size=4),
    waited=st.floats(0, 400),
)
def test_no_account_delays_another(
    plans: list[list[Any]], leaving: list[Any], waited: float
) -> None:
    """C8: whatever others do, a sound account is there at once, stays, and is let go at once."""
    others = [Fickle(*plan, account=f"o{n}") for n, plan in enumerate(plans)]
    for door, leaves in zip(others, leaving, strict=False):
        door.leaves = leaves
    sound = Fickle(account="sound")
    held = Board(*others[:2], sound, *others[2:])
    assert held.loop.time() == 0, "a start waits for nobody"
    held.loop.tick(5)
    assert "sound" in held.connected
    held.loop.wait(waited)
    for door in others:
        held.accounts.connection_lost("fickle", door.account, AccountDisconnected("cut"))
    held.loop.tick(5)
    assert "sound" in held.connected and len(sound.attempts) == 1
    closing = held.loop.create_task(held.accounts.close())
    held.loop.tick(10)
    assert sound.open == 0, "and is let go while others still hang"
    held.run(closing)
    held.run(held.tasks.__aexit__(None, None, None))
    assert {held.state(door) for door in held.platforms} == {AccountState.CLOSED}
    assert held.loop.errors == []
    held.loop.close()


WORDS = st.sampled_from(["pause", "resume", "check", "lost", "refused", "break", "tick", "wait"])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(plan=st.lists(TROUBLE, min_size=1, max_size=4), words=st.lists(WORDS, max_size=12))
@example(plan=[None], words=["wait", "pause", "check"])  # which does not take the pause back
@example(plan=[None], words=["wait", "pause", "resume"])
@example(plan=[None], words=["pause", "wait", "resume", "pause"])
def test_the_last_request_to_an_account_wins(plan: list[Any], words: list[str]) -> None:
    """Every move is a legal one, or the household would break; and nothing is left behind."""
    door = Fickle(*plan, None)
    held = Board(door)
    asked: list[asyncio.Task[Any]] = []
    wanted = True
    for word in words:
        if word in ("pause", "resume", "check"):
            wanted = {"pause": False, "resume": True}.get(word, wanted)
            work = vars(Accounts)[word](held.accounts, "fickle", "a")
            asked.append(held.loop.create_task(work))
        elif word == "lost":
            held.accounts.connection_lost("fickle", "a", AccountDisconnected("cut"))
        elif word == "refused":
            held.accounts.connection_lost("fickle", "a", REFUSED)
        elif word == "break":
            door.breaks.set()
            held.loop.tick(3)
            door.breaks.clear()
        else:
            held.loop.tick(2) if word == "tick" else held.loop.wait(3)
    held.loop.wait(200)
    for task in asked:
        held.run(task)
    state = held.state(door)
    assert (state is AccountState.PAUSED) is not wanted, state
    assert door.open == (state is AccountState.CONNECTED) == len(held.connected)
    held.close()


async def test_a_pause_survives_a_restart_if_and_only_if_it_was_saved() -> None:
    """Also where the store takes one change and not another, and where two come at once."""
    slate = Slate()
    clock = VirtualClock(asyncio.get_running_loop())  # type: ignore[arg-type]
    one, two, three = (("fickle", name) for name in "abc")

    async def after_a_restart() -> list[bool]:
        anew = PausedAccounts(slate, clock=clock)  # type: ignore[arg-type]
        await anew.load()
        return [key in anew for key in (one, two, three)]

    paused = PausedAccounts(slate, clock=clock)  # type: ignore[arg-type]
    await paused.add(one, by="ann")
    slate.full = True
    for change in (paused.remove(one, by="ann"), paused.add(two, by="ann")):
        with pytest.raises(StoreError):
            await change
    assert one in paused
    slate.full = False
    await asyncio.gather(paused.remove(one, by="ann"), paused.add(three, by="ann"))
    assert await after_a_restart() == [False, False, True]
