"""A line: what there is of an account's connection over time: tried, held, and tried again."""

import asyncio
import logging

from holdfast.core.errors import (
    AccountHeld,
    ConnectError,
    ConnectRefused,
    LineLost,
    SendError,
    Throttled,
)
from holdfast.core.ops.account import AccountState, Standing
from holdfast.core.ports.protocols import Platform
from holdfast.gateway.accounts.backoff import Backoff
from holdfast.gateway.accounts.connection import Connection, Ground

log = logging.getLogger(__name__)

_ENDED = (AccountState.PAUSED, AccountState.CLOSED)
_ELSEWHERE = "End the other one, pause this account, or give it credentials of its own"


class Line:
    """Owns one account's connection, and how it stands. No trouble of it is another's."""

    def __init__(self, platform: Platform, ground: Ground, *, paused: bool) -> None:
        self.platform = platform
        self.standing = Standing()
        self._ground = ground
        self._backoff = Backoff(ground.patience, random=ground.random)
        self._paused = paused
        self._next: Platform | None = None  # who is to stand in its place
        self._ending = False
        self._asked = asyncio.Event()  # somebody wants it otherwise than it is
        self._news = asyncio.Event()  # set when it stands differently than before
        self._held: Connection | None = None

    @property
    def name(self) -> str:
        return f"{self.platform.name}:{self.platform.account}"

    async def run(self) -> None:
        """Until `leave`. Never fails: whatever a door does is its account's trouble."""
        while not self._ending:
            self._asked.clear()
            self._make_way()
            if self._paused:
                await self._rest()
            elif (error := await self._connection()) is not None:
                await self._wait_out(error)
        self._stand(AccountState.CLOSED)

    def change(self, platform: Platform) -> None:
        """The account is set up anew: it is let go of, and then connected by this. Also one that
        was being let go of for good, as long as it `lives`."""
        self._next = platform
        self._ending = False
        self._asked.set()

    @property
    def lives(self) -> bool:
        return self.standing.state is not AccountState.CLOSED

    def _make_way(self) -> None:
        if self._next is not None:
            self.platform, self._next = self._next, None
            self._backoff = Backoff(self._ground.patience, random=self._ground.random)
            self._ground.doors.put(self.platform)
            self._ground.doors.stands(self.platform, self.standing)

    async def pause(self) -> None:
        """Returns when it has been let go of, or is not to be any more."""
        if not self._paused:
            self._paused = True
            self._asked.set()
        while self._paused and self.standing.state not in _ENDED:
            await self._news.wait()

    async def resume(self) -> None:
        """It is wanted again; returns when it is known what came of that."""
        if self._paused:
            self._paused = False
            self._asked.set()
            await self._news.wait()
        await self.try_now()

    async def try_now(self) -> None:
        """Try it, unless it is connected or paused; returns when it is known what came of that."""
        if self.standing.state in (AccountState.AWAY, AccountState.PARKED):
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
        if self.standing.state is AccountState.PAUSED:
            self._tell()  # it was resumed and paused in one moment: whoever waits is to know
        else:
            log.info("%s is paused.", self.name, extra={"action": "platform_paused"})
            self._stand(AccountState.PAUSED)
        await self._asked.wait()

    async def _connection(self) -> Exception | None:
        """One connection, from the attempt to its end; None: somebody wanted it to end."""
        self._stand(AccountState.CONNECTING)
        self._held = held = Connection(self.platform, self._ground, opened=self._opened)
        holding = self._ground.tasks.create_task(held.run(), name=f"platform {self.name}")
        asked = asyncio.ensure_future(self._asked.wait())
        over = asyncio.ensure_future(held.over())
        try:
            await asyncio.wait({holding, asked, over}, return_when=asyncio.FIRST_COMPLETED)
            await held.end(holding)
        finally:
            asked.cancel()
            over.cancel()
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
        remedy = error.remedy or "mend its settings"
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
        known = isinstance(error, ConnectError | SendError | OSError)
        log.warning(
            "%s is not connected: %s. The next try is in %.1f s.",
            self.name,
            _told(error),
            pause,
            exc_info=None if known else error,
            extra={"action": "platform_away"},
        )
        self._stand(
            AccountState.AWAY,
            why=_told(error),
            remedy=_ELSEWHERE if isinstance(error, AccountHeld) else "",
            next_try=self._ground.clock.now() + pause,
            failures=self._backoff.failures,
        )

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
            why=self._ground.redact(why),
            remedy=remedy,
            next_try=next_try,
            failures=failures,
        )
        self._ground.doors.stands(self.platform, self.standing)
        self._ground.stirred()
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


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
    told = str(error).rstrip(".") or type(error).__name__
    return f"{told} ({error.holder})" if isinstance(error, AccountHeld) and error.holder else told
