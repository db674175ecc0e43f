"""A line: the connection of one account, tried, held, watched, and tried again."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass
from typing import Protocol

from holdfast.core.account import AccountState, Standing
from holdfast.core.errors import ConnectError, ConnectRefused, LineLost, Throttled
from holdfast.core.ports import Clock, Intake, Platform
from holdfast.gateway.backoff import Backoff, Patience
from holdfast.gateway.doors import Doors

log = logging.getLogger(__name__)


class Claims(Protocol):
    """Who may connect with which credentials, among the gateways of this machine."""

    def claim(self, platform: str, account: str) -> AbstractAsyncContextManager[None]:
        """Ours while the context is open. Raises `AccountHeld`, which says whose it is."""
        ...


class NoClaims:
    """Where nobody else could want the same accounts."""

    def claim(self, platform: str, account: str) -> AbstractAsyncContextManager[None]:
        return nullcontext()


NO_CLAIMS = NoClaims()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What every line stands on."""

    intake: Intake
    doors: Doors
    claims: Claims
    clock: Clock
    random: Callable[[], float]
    patience: Patience
    tasks: asyncio.TaskGroup
    opened: Callable[[Platform], None]  # told when an account can be sent to,
    gone: Callable[[Platform], None]  # and when it cannot any more


class Line:
    """Owns one account's connection, and how it stands. No trouble of it is another's."""

    def __init__(self, platform: Platform, ground: Ground, *, paused: bool) -> None:
        self.platform = platform
        self.standing = Standing()
        self._ground = ground
        self._backoff = Backoff(ground.patience, random=ground.random)
        self._paused = paused
        self._ending = False
        self._asked = asyncio.Event()  # somebody wants it otherwise than it is
        self._news = asyncio.Event()  # set when it stands differently than before
        self._held: _Held | None = None

    @property
    def name(self) -> str:
        return f"{self.platform.name}:{self.platform.account}"

    async def run(self) -> None:
        """Until `leave`. Never fails: whatever a door does is its account's trouble."""
        while not self._ending:
            self._asked.clear()
            if self._paused:
                await self._rest()
            elif (error := await self._connection()) is not None:
                await self._wait_out(error)
        self._stand(AccountState.CLOSED)

    async def pause(self) -> None:
        """Returns when it has been let go of."""
        if not self._paused:
            self._paused = True
            self._asked.set()
            await self._news.wait()

    async def resume(self) -> None:
        """Try it now, unless it is connected; returns when it is known what came of that."""
        if self._paused or self.standing.state in (AccountState.AWAY, AccountState.PARKED):
            self._paused = False
            self._asked.set()
            await self._news.wait()
        await self.settled()

    def leave(self) -> None:
        self._ending = True
        self._asked.set()

    def lost(self, error: ConnectError) -> None:
        """The line is gone; where there is none, that is known."""
        if self._held is not None:
            self._held.lost(error)

    async def replace(self, error: ConnectError) -> None:
        """The line is gone, and this returns when it has been left."""
        if self._held is not None:
            self._held.lost(error)
            await self._news.wait()

    async def settled(self) -> None:
        """Returns when it is known whether it is connected."""
        while self.standing.state in (AccountState.NEW, AccountState.CONNECTING):
            await self._news.wait()

    async def _rest(self) -> None:
        log.info("%s is paused.", self.name, extra={"action": "platform_paused"})
        self._stand(AccountState.PAUSED)
        await self._asked.wait()

    async def _connection(self) -> Exception | None:
        """One connection, from the attempt to its end; None: somebody wanted it to end."""
        self._stand(AccountState.CONNECTING)
        self._held = held = _Held(self.platform, self._ground, opened=self._opened)
        holding = self._ground.tasks.create_task(held.run(), name=f"platform {self.name}")
        asked = asyncio.ensure_future(self._asked.wait())
        try:
            await asyncio.wait({holding, asked}, return_when=asyncio.FIRST_COMPLETED)
            await held.end(holding)
        finally:
            asked.cancel()
            holding.cancel()  # where this very task is cancelled, nobody waits for it any more
            self._held = None
        self._backoff.held(held.seconds)
        if self._asked.is_set():
            return None
        return LineLost("its task was cancelled") if holding.cancelled() else holding.result()

    async def _wait_out(self, error: Exception) -> None:
        """Until it is worth another try, or somebody asks for one."""
        cause = _cause(error)
        if isinstance(cause, ConnectRefused):
            self._park(cause)
            await self._asked.wait()
            return
        pause = self._backoff.next()
        if isinstance(cause, Throttled):
            pause = max(pause, cause.retry_after)
        self._go_away(cause, pause)
        try:
            async with asyncio.timeout(pause):
                await self._asked.wait()
        except TimeoutError:
            pass

    def _park(self, error: ConnectRefused) -> None:
        remedy = error.remedy or "mend its settings and restart"
        log.error(
            "%s is refused for good, and not tried again until somebody asks for it: %s. %s",
            self.name,
            _told(error),
            remedy,
            extra={"action": "platform_parked"},
        )
        self._stand(AccountState.PARKED, why=_told(error), remedy=remedy)

    def _go_away(self, error: BaseException, pause: float) -> None:
        # A bug in a door looks like any other failure from here; its trace is what finds it.
        known = isinstance(error, ConnectError | OSError | TimeoutError)
        log.warning(
            "%s is not connected: %s. The next try is in %.1f s.",
            self.name,
            _told(error),
            pause,
            exc_info=None if known else error,
            extra={"action": "platform_away"},
        )
        next_try = self._ground.clock.now() + pause
        failures = self._backoff.failures
        self._stand(AccountState.AWAY, why=_told(error), next_try=next_try, failures=failures)

    def _opened(self) -> None:
        log.info("%s is connected.", self.name, extra={"action": "platform_connected"})
        self._stand(AccountState.CONNECTED)

    def _stand(
        self,
        state: AccountState,
        *,
        why: str = "",
        remedy: str = "",
        next_try: float | None = None,
        failures: int = 0,
    ) -> None:
        self.standing = self.standing.to(
            state,
            at=self._ground.clock.now(),
            why=why,
            remedy=remedy,
            next_try=next_try,
            failures=failures,
        )
        self._ground.doors.stands(self.platform, self.standing)
        self._news.set()
        self._news = asyncio.Event()


class _Held:
    """One connection. What its platform enters, the same task leaves: a platform may hold task
    groups and timeouts open meanwhile, and those belong to the task that entered them."""

    def __init__(self, platform: Platform, ground: Ground, *, opened: Callable[[], None]) -> None:
        self._platform = platform
        self._ground = ground
        self._opened = opened
        self._leave = asyncio.Event()
        self._error: ConnectError | None = None
        self._since: float | None = None
        self.seconds = 0.0  # for which it held

    def lost(self, error: ConnectError) -> None:
        self._error = self._error or error
        self._leave.set()

    async def run(self) -> Exception | None:
        """Why it ended; None: it was let go."""
        try:
            async with AsyncExitStack() as entered:
                await self._enter(entered)
                await self._stay()
        # A platform's edge: whatever it does stays its own trouble.
        except Exception as error:  # noqa: BLE001 - told by whoever asked for the connection
            return self._error or error
        finally:
            self._ground.gone(self._platform)
        # A door that ends its own context, without an error and unasked, has lost its line too.
        return self._error or (None if self._leave.is_set() else LineLost("the door closed itself"))

    async def end(self, holding: asyncio.Task[Exception | None]) -> None:
        """Let it go, and see it gone."""
        self._leave.set()
        if self._since is None:
            holding.cancel()  # one that is still on its way in is not waited for
        if not holding.done():
            await asyncio.wait({holding}, timeout=self._ground.patience.close)
        if not holding.done():
            holding.cancel()
            await asyncio.wait({holding})

    async def _enter(self, entered: AsyncExitStack) -> None:
        platform, limit = self._platform, self._ground.patience.connect
        try:
            async with asyncio.timeout(limit) as timer:
                claims = self._ground.claims
                await entered.enter_async_context(claims.claim(platform.name, platform.account))
                await entered.enter_async_context(platform.connect(self._ground.intake))
        except TimeoutError:
            if not timer.expired():
                raise
            raise LineLost(f"it could not be connected within {limit:.0f} s") from None
        self._since = self._ground.clock.monotonic()
        self._opened()
        self._ground.opened(platform)

    async def _stay(self) -> None:
        try:
            while not self._leave.is_set():
                try:
                    async with asyncio.timeout(self._silence_left()):
                        await self._leave.wait()
                except TimeoutError:
                    self._notice_silence()
        finally:
            assert self._since is not None, "only who has entered stays"
            self.seconds = self._ground.clock.monotonic() - self._since
            self._ground.gone(self._platform)  # before its door closes: what is sent now waits

    def _silence_left(self) -> float | None:
        """Seconds until silence means that nobody is there; None: it never does."""
        within = self._platform.capabilities.alive_within
        if not within:
            return None
        assert self._since is not None, "only who has entered listens"
        heard = self._ground.doors.heard(self._platform) or 0.0
        return max(0.0, max(heard, self._since) + within - self._ground.clock.monotonic())

    def _notice_silence(self) -> None:
        if (left := self._silence_left()) is not None and left <= 0:
            within = self._platform.capabilities.alive_within
            self.lost(LineLost(f"nothing was heard of it for {within:.0f} s"))


def _cause(error: BaseException) -> BaseException:
    """What to go by: of many failures at once, the one that no further try would mend."""
    leaves = list(_leaves(error))
    return next((each for each in leaves if isinstance(each, ConnectRefused)), leaves[0])


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in _leaves(each)]
    return [error]


def _told(error: BaseException) -> str:
    """An error in words; one that has none is called by its name."""
    return str(error).rstrip(".") or type(error).__name__
