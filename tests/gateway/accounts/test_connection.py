"""The connections of accounts in virtual time: retried, blocked, replaced, paused, and independent
of each other (C8, law 9)."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol

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
from holdfast.core.ports.platform import Intake, Platform
from holdfast.core.ports.store_commands import RecordAudit, SetMeta
from holdfast.core.ports.store_queries import GetMeta
from holdfast.core.text.translation import use_catalogue
from holdfast.gateway.accounts.accounts import Accounts, PausedAccounts
from holdfast.gateway.accounts.connection import (
    AccountConnection,
    ConnectionPolicy,
)
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.accounts.supervisor import AccountSupervisor
from holdfast.system.languages import PseudoCatalogue

HANG = "hang"
IGNORES_CANCEL = "ignores cancel"  # hangs and ignores cancellation, for a minute
REFUSED = ConnectRefused("the token is bad", remedy="Ask for another")
DOWN = OSError("no such host")


class PlannedPlatform:
    """A platform whose connection attempts follow a plan; the last entry repeats forever."""

    def __init__(self, *plan: Any, account: str = "a", alive_within: float = 0.0) -> None:
        self.name = "planned"
        self.account = account
        self.capabilities = Capabilities(heartbeat_interval=alive_within)
        self.plan = list(plan) or [None]
        self.attempts: list[float] = []
        self.open = 0
        self.on_close: Any = None
        self.fail_now = asyncio.Event()  # a task of the platform then fails
        self.error: Exception = AccountDisconnected("cut")

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        self.attempts.append(loop.time())
        await self._do(self.plan.pop(0) if len(self.plan) > 1 else self.plan[0])
        async with asyncio.TaskGroup() as tasks:
            breaking = tasks.create_task(self._fail())
            self.open += 1
            try:
                yield
            finally:
                self.open -= 1
                breaking.cancel()
                await self._do(self.on_close)

    async def _do(self, what: Any) -> None:
        if isinstance(what, Exception):
            raise what
        if what == HANG:
            await asyncio.Event().wait()
        elif what == IGNORES_CANCEL:
            end = asyncio.get_running_loop().time() + 60
            while (left := end - asyncio.get_running_loop().time()) > 0:
                try:
                    await asyncio.sleep(left)
                except asyncio.CancelledError:
                    continue

    async def _fail(self) -> None:
        await self.fail_now.wait()
        self.fail_now.clear()
        raise self.error

    async def send(self, outbound: Outbound) -> Receipt:
        raise AssertionError("nothing is sent here")


class MetaStore:
    """A store of which only the metadata is used."""

    def __init__(self) -> None:
        self.written: dict[str, str] = {}
        self.full = False

    async def read(self, query: GetMeta) -> str | None:
        return self.written.get(query.key)

    async def write(
        self, command: SetMeta | RecordAudit, *, audit: AuditEntry | None = None
    ) -> None:
        """Other tests cover the audit."""
        await asyncio.sleep(0)
        if isinstance(command, RecordAudit):
            return
        if self.full:
            raise StoreError("the disk is full")
        self.written[command.key] = command.value


class AccountsHarness:
    """The connections of some platforms on an event loop in virtual time."""

    def __init__(self, *platforms: PlannedPlatform, meta_store: MetaStore | None = None) -> None:
        self.loop = VirtualTimeLoop()
        self.clock = VirtualClock(self.loop)
        self.platforms = PlatformRegistry(platforms, clock=self.clock)
        self.meta_store = meta_store or MetaStore()
        self.connected: set[str] = set()
        self.loop.run_until_complete(self._open())

    async def _open(self) -> None:
        self.tasks = asyncio.TaskGroup()
        await self.tasks.__aenter__()
        policy = ConnectionPolicy(random=lambda: 0.5)
        new_connection = partial(
            AccountConnection,
            intake=self,  # type: ignore[arg-type]  # these platforms do not use it
            platforms=self.platforms,
            outbox=self,
            policy=policy,
            clock=self.clock,
        )
        self.accounts = Accounts(
            self.platforms,
            PausedAccounts(self.meta_store, clock=self.clock),  # type: ignore[arg-type]
            outbox=self,
            tasks=self.tasks,
            new_supervisor=partial(
                AccountSupervisor,
                platforms=self.platforms,
                policy=policy,
                clock=self.clock,
                tasks=self.tasks,
                redact=str,
                new_connection=new_connection,
            ),
        )
        await self.accounts.open()

    def account_connected(self, platform: Platform) -> None:
        self.connected.add(platform.account)

    def account_disconnected(self, platform: Platform) -> None:
        self.connected.discard(platform.account)

    def run(self, work: Any) -> Any:
        return self.loop.run_with_timeout(work, timeout=3600)

    def state(self, platform: Platform) -> AccountState:
        return self.platforms.status_of(platform).state

    def close(self) -> None:
        self.run(self._close())
        assert self.loop.errors == []
        self.loop.close()

    async def _close(self) -> None:
        await self.accounts.close()
        await self.tasks.__aexit__(None, None, None)


class StartAccounts(Protocol):
    """Starts the accounts of some platforms; the fixture closes them."""

    def __call__(
        self, *platforms: PlannedPlatform, meta_store: MetaStore | None = None
    ) -> AccountsHarness: ...


@pytest.fixture
def start_accounts() -> Iterator[StartAccounts]:
    started: list[AccountsHarness] = []

    def start(*platforms: PlannedPlatform, meta_store: MetaStore | None = None) -> AccountsHarness:
        started.append(AccountsHarness(*platforms, meta_store=meta_store))
        return started[-1]

    yield start
    for harness in started:
        harness.close()


def waits(platform: PlannedPlatform) -> list[float]:
    return [round(b - a, 3) for a, b in zip(platform.attempts, platform.attempts[1:], strict=False)]


def test_a_temporary_failure_is_retried_with_backoff_forever(start_accounts: StartAccounts) -> None:
    platform = PlannedPlatform(DOWN)
    harness = start_accounts(platform)
    harness.loop.wait(3 * 3600)
    assert waits(platform)[:10] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert set(waits(platform)[9:]) == {300} and len(platform.attempts) > 40
    status = harness.platforms.status_of(platform)
    assert (status.state, status.error) == (AccountState.RETRYING, "no such host")
    assert status.next_attempt_at is not None
    assert status.next_attempt_at > harness.clock.now() and status.failures == len(
        platform.attempts
    )


def test_a_hanging_attempt_times_out(start_accounts: StartAccounts) -> None:
    platform = PlannedPlatform(HANG, None)
    harness = start_accounts(platform)
    harness.loop.wait(29)
    assert harness.state(platform) is AccountState.CONNECTING
    harness.loop.wait(1.5)
    assert "within 30 s" in harness.platforms.status_of(platform).error
    harness.loop.wait(1)
    assert harness.state(platform) is AccountState.CONNECTED and harness.connected == {"a"}


def test_a_refused_account_stays_blocked_until_it_is_resumed(start_accounts: StartAccounts) -> None:
    platform = PlannedPlatform(REFUSED, None)
    harness = start_accounts(platform)
    harness.loop.wait(24 * 3600)
    status = harness.platforms.status_of(platform)
    assert (status.state, status.error) == (AccountState.BLOCKED, "the token is bad")
    assert status.remedy == "Ask for another" and status.next_attempt_at is None
    with use_catalogue(PseudoCatalogue()):
        shown = status.for_person()
    assert (shown.error, shown.remedy) == ("⟦the token is bad⟧", "⟦Ask for another⟧")
    assert len(platform.attempts) == 1
    assert harness.run(harness.accounts.resume("planned", "a")).state is AccountState.CONNECTED


def test_an_account_in_use_names_its_holder_and_is_retried(start_accounts: StartAccounts) -> None:
    platform = PlannedPlatform(
        AccountInUse("another client is connected", holder="the other host"), None
    )
    harness = start_accounts(platform)
    harness.loop.wait(0.5)
    status = harness.platforms.status_of(platform)
    assert status.error == "another client is connected (the other host)" and status.remedy
    harness.loop.wait(1)
    assert harness.state(platform) is AccountState.CONNECTED


def test_a_retry_after_of_the_platform_is_obeyed(start_accounts: StartAccounts) -> None:
    platform = PlannedPlatform(Throttled("slowly", retry_after=90), None)
    start_accounts(platform).loop.wait(100)
    assert waits(platform) == [90]


def test_only_a_connection_that_works_resets_the_backoff(start_accounts: StartAccounts) -> None:
    platform = PlannedPlatform(DOWN, DOWN, None)
    harness = start_accounts(platform)
    harness.loop.wait(3.5)
    for pause in (4, 8, 16):  # it fails as soon as it is open
        assert platform.open == 1
        platform.fail_now.set()
        harness.loop.wait(pause + 0.5)
    assert platform.open == 1
    harness.loop.wait(11)
    platform.fail_now.set()
    harness.loop.wait(1.5)
    assert platform.open == 1, "it lasted, and so it was a success"


def test_the_backoff_follows_failures_to_connect_and_not_short_connections(
    start_accounts: StartAccounts,
) -> None:
    """An account whose good connections are cut after seconds stays offline for seconds."""
    platform = PlannedPlatform(DOWN, DOWN, None)
    harness = start_accounts(platform)
    harness.loop.wait(3.5)
    for _ in range(20):
        assert platform.open == 1
        harness.loop.wait(2)
        harness.platforms.mark_alive("planned", "a")
        harness.loop.wait(1)
        platform.fail_now.set()
        harness.loop.wait(1.5)
    assert max(waits(platform)[2:]) < 5


def test_two_gateways_with_one_account_do_not_disconnect_each_other_every_second(
    start_accounts: StartAccounts,
) -> None:
    platform = PlannedPlatform(None)
    platform.error = AccountInUse("replaced by a new connection")
    harness = start_accounts(platform)
    for pause in (1, 2, 4, 8):
        harness.loop.tick(5)
        assert platform.open == 1
        harness.platforms.mark_alive("planned", "a")
        platform.fail_now.set()
        harness.loop.wait(pause + 0.1)
    assert [round(each) for each in waits(platform)] == [1, 2, 4, 8]


@pytest.mark.parametrize("how", ["reported", "task group"])
def test_a_broken_connection_is_reopened(start_accounts: StartAccounts, how: str) -> None:
    platform = PlannedPlatform()
    harness = start_accounts(platform)
    harness.loop.tick(5)
    assert harness.connected == {"a"}
    if how == "reported":
        harness.platforms.report_lost("planned", "a", AccountDisconnected("cut"))
    else:
        platform.fail_now.set()
    harness.loop.tick(10)
    status = harness.platforms.status_of(platform)
    assert (status.state, status.error) == (AccountState.RETRYING, "cut")
    assert harness.connected == set() and platform.open == 0
    harness.loop.wait(1)
    assert harness.connected == {"a"} and platform.open == 1


@pytest.mark.parametrize("how", ["reported", "task group"])
def test_a_token_revoked_while_connected_blocks_the_account(
    start_accounts: StartAccounts, how: str
) -> None:
    platform = PlannedPlatform()
    harness = start_accounts(platform)
    harness.loop.tick(5)
    platform.error = REFUSED
    if how == "reported":
        harness.platforms.report_lost("planned", "a", REFUSED)
    else:
        platform.fail_now.set()
    harness.loop.wait(3600)
    assert harness.state(platform) is AccountState.BLOCKED and len(platform.attempts) == 1


class ReportingPlatform(PlannedPlatform):
    """Reports the loss of its connection while it is still being opened, and goes on to open it, or
    raises another error."""

    def __init__(self, *reports: Exception, raised: Exception | None) -> None:
        super().__init__(None)
        self.reports = reports
        self.raised = raised
        self.registry: PlatformRegistry | None = None

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        assert self.registry is not None
        self.attempts.append(asyncio.get_running_loop().time())
        for error in self.reports:
            self.registry.report_lost(self.name, self.account, error)  # type: ignore[arg-type]
        if self.raised is not None:
            raise self.raised
        await asyncio.sleep(0.1)
        yield


@pytest.mark.parametrize(
    ("reports", "raised"),
    [
        ([REFUSED], None),
        ([REFUSED], DOWN),
        ([REFUSED], ExceptionGroup("tasks", [DOWN])),
        ([AccountDisconnected("cut"), REFUSED], None),
        ([AccountDisconnected("cut")], REFUSED),
        ([AccountDisconnected("cut")], ExceptionGroup("tasks", [DOWN, REFUSED])),
    ],
    ids=str,
)
def test_a_refusal_reported_while_connecting_blocks_the_account(
    start_accounts: StartAccounts, reports: list[Exception], raised: Exception | None
) -> None:
    """Also if the connection is cancelled because of the report."""
    platform = ReportingPlatform(*reports, raised=raised)
    harness = start_accounts(platform)
    platform.registry = harness.platforms
    harness.loop.wait(3600)
    status = harness.platforms.status_of(platform)
    assert (status.state, status.error) == (AccountState.BLOCKED, "the token is bad")
    assert status.remedy == "Ask for another" and len(platform.attempts) == 1


def test_a_half_open_connection_is_noticed_and_replaced(start_accounts: StartAccounts) -> None:
    """Law 9: nothing is received within the declared interval."""
    platform = PlannedPlatform(alive_within=60)
    harness = start_accounts(platform)
    for _ in range(10):
        harness.loop.wait(50)
        harness.platforms.mark_alive("planned", "a")
    assert len(platform.attempts) == 1, "it has received something"
    harness.loop.wait(59)
    assert harness.connected == {"a"}
    harness.loop.wait(1.5)
    status = harness.platforms.status_of(platform)
    assert status.error == "no sign of life for 60 s"
    harness.loop.wait(1)
    assert harness.connected == {"a"} and len(platform.attempts) == 2


def test_a_successful_send_does_not_prove_that_messages_are_received(
    start_accounts: StartAccounts,
) -> None:
    platform = PlannedPlatform(alive_within=60)
    harness = start_accounts(platform)
    for _ in range(4):
        harness.loop.wait(20)
        harness.platforms.mark_reachable("planned", "a")  # as the outbox does
    assert len(platform.attempts) == 2


def test_silence_is_ignored_without_a_declared_heartbeat(start_accounts: StartAccounts) -> None:
    platform = PlannedPlatform()
    start_accounts(platform).loop.wait(24 * 3600)
    assert len(platform.attempts) == 1


def test_a_report_about_a_closed_connection_is_ignored(start_accounts: StartAccounts) -> None:
    platform = PlannedPlatform(REFUSED)
    harness = start_accounts(platform)
    harness.loop.tick(5)
    harness.platforms.report_lost("planned", "a", AccountDisconnected("late"))
    harness.platforms.report_lost("planned", "unknown", AccountDisconnected("late"))
    harness.loop.tick(5)
    assert harness.platforms.status_of(platform).error == "the token is bad"


@pytest.mark.parametrize("plan", [None, HANG, DOWN, REFUSED])
def test_an_account_is_paused_from_any_state_and_stays_paused(
    start_accounts: StartAccounts, plan: Any
) -> None:
    """Also over a restart."""
    platform, meta_store = PlannedPlatform(plan), MetaStore()
    harness = start_accounts(platform, meta_store=meta_store)
    harness.loop.tick(5)
    assert harness.run(harness.accounts.pause("planned", "a")).state is AccountState.PAUSED
    attempts = len(platform.attempts)
    harness.run(harness.accounts.pause("planned", "a"))  # which changes nothing
    harness.loop.wait(3600)
    assert len(platform.attempts) == attempts and platform.open == 0 and harness.connected == set()
    again = PlannedPlatform()
    second = start_accounts(again, meta_store=meta_store)
    second.loop.wait(3600)
    assert again.attempts == [] and second.state(again) is AccountState.PAUSED
    assert second.run(second.accounts.check("planned", "a")).state is AccountState.PAUSED
    assert second.run(second.accounts.resume("planned", "a")).state is AccountState.CONNECTED
    third = start_accounts(PlannedPlatform(), meta_store=meta_store)
    third.loop.tick(5)
    assert third.connected == {"a"}


def test_a_check_retries_a_disconnected_account_and_leaves_a_connected_one_alone(
    start_accounts: StartAccounts,
) -> None:
    platform = PlannedPlatform(DOWN, DOWN, DOWN, DOWN, DOWN, None)
    harness = start_accounts(platform)
    harness.loop.wait(8)
    assert harness.state(platform) is AccountState.RETRYING
    while harness.run(harness.accounts.check("planned", "a")).state is AccountState.RETRYING:
        pass
    assert harness.connected == {"a"} and harness.loop.time() == 8
    harness.run(harness.accounts.check("planned", "a"))
    assert len(platform.attempts) == 6


def test_a_check_of_a_hanging_connection_returns(start_accounts: StartAccounts) -> None:
    platform = PlannedPlatform(HANG)
    harness = start_accounts(platform)
    assert harness.run(harness.accounts.check("planned", "a")).state is AccountState.CONNECTING
    assert harness.loop.time() <= 11


def test_a_platform_that_does_not_close_is_abandoned_and_reconnected(
    start_accounts: StartAccounts,
) -> None:
    platform = PlannedPlatform()
    harness = start_accounts(platform)
    harness.loop.tick(5)
    platform.on_close = HANG
    harness.platforms.report_lost("planned", "a", AccountDisconnected("cut"))
    harness.loop.wait(7)
    assert harness.connected == {"a"} and len(platform.attempts) == 2
    platform.on_close = None


OUTCOMES = st.sampled_from([None, HANG, IGNORES_CANCEL, DOWN, REFUSED, ValueError("a bug")])


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    plans=st.lists(st.lists(OUTCOMES, min_size=1, max_size=4), min_size=1, max_size=4),
    on_close_plans=st.lists(
        st.sampled_from([None, HANG, IGNORES_CANCEL, DOWN]), min_size=4, max_size=4
    ),
    waited=st.floats(0, 400),
)
def test_no_account_delays_another(
    plans: list[list[Any]], on_close_plans: list[Any], waited: float
) -> None:
    """C8: whatever others do, a healthy account connects at once, stays, and closes at once."""
    others = [PlannedPlatform(*plan, account=f"o{n}") for n, plan in enumerate(plans)]
    for platform, on_close in zip(others, on_close_plans, strict=False):
        platform.on_close = on_close
    healthy = PlannedPlatform(account="healthy")
    harness = AccountsHarness(*others[:2], healthy, *others[2:])
    assert harness.loop.time() == 0, "a start waits for no account"
    harness.loop.tick(5)
    assert "healthy" in harness.connected
    harness.loop.wait(waited)
    for platform in others:
        harness.platforms.report_lost("planned", platform.account, AccountDisconnected("cut"))
    harness.loop.tick(5)
    assert "healthy" in harness.connected and len(healthy.attempts) == 1
    closing = harness.loop.create_task(harness.accounts.close())
    harness.loop.tick(10)
    assert healthy.open == 0, "it is closed while others still hang"
    harness.run(closing)
    harness.run(harness.tasks.__aexit__(None, None, None))
    assert {harness.state(platform) for platform in harness.platforms} == {AccountState.CLOSED}
    assert harness.loop.errors == []
    harness.loop.close()


REQUESTS = st.sampled_from(["pause", "resume", "check", "lost", "refused", "break", "tick", "wait"])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(plan=st.lists(OUTCOMES, min_size=1, max_size=4), requests=st.lists(REQUESTS, max_size=12))
@example(plan=[None], requests=["wait", "pause", "check"])  # a check does not undo the pause
@example(plan=[None], requests=["wait", "pause", "resume"])
@example(plan=[None], requests=["pause", "wait", "resume", "pause"])
def test_the_last_request_to_an_account_wins(plan: list[Any], requests: list[str]) -> None:
    """Every transition is legal, or the task group would fail; and no task is left behind."""
    platform = PlannedPlatform(*plan, None)
    harness = AccountsHarness(platform)
    tasks: list[asyncio.Task[Any]] = []
    should_run = True
    for request in requests:
        if request in ("pause", "resume", "check"):
            should_run = {"pause": False, "resume": True}.get(request, should_run)
            work = vars(Accounts)[request](harness.accounts, "planned", "a")
            tasks.append(harness.loop.create_task(work))
        elif request == "lost":
            harness.platforms.report_lost("planned", "a", AccountDisconnected("cut"))
        elif request == "refused":
            harness.platforms.report_lost("planned", "a", REFUSED)
        elif request == "break":
            platform.fail_now.set()
            harness.loop.tick(3)
            platform.fail_now.clear()
        else:
            harness.loop.tick(2) if request == "tick" else harness.loop.wait(3)
    harness.loop.wait(200)
    for task in tasks:
        harness.run(task)
    state = harness.state(platform)
    assert (state is AccountState.PAUSED) is not should_run, state
    assert platform.open == (state is AccountState.CONNECTED) == len(harness.connected)
    harness.close()


async def test_a_pause_survives_a_restart_if_and_only_if_it_was_saved() -> None:
    """Also where the store saves one change and not another, and where two come at once."""
    meta_store = MetaStore()
    clock = VirtualClock(asyncio.get_running_loop())  # type: ignore[arg-type]
    one, two, three = (("planned", name) for name in "abc")

    async def after_a_restart() -> list[bool]:
        reloaded = PausedAccounts(meta_store, clock=clock)  # type: ignore[arg-type]
        await reloaded.load()
        return [key in reloaded for key in (one, two, three)]

    paused = PausedAccounts(meta_store, clock=clock)  # type: ignore[arg-type]
    await paused.add(one, by="ann")
    meta_store.full = True
    for change in (paused.remove(one, by="ann"), paused.add(two, by="ann")):
        with pytest.raises(StoreError):
            await change
    assert one in paused
    meta_store.full = False
    await asyncio.gather(paused.remove(one, by="ann"), paused.add(three, by="ann"))
    assert await after_a_restart() == [False, False, True]
