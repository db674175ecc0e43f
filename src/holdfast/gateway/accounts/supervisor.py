"""Keeps one account connected: connects, holds the connection, backs off, pauses and reconnects."""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from holdfast.core.errors import (
    AccountDisconnected,
    AccountInUse,
    ConnectError,
    ConnectRefused,
    HoldfastError,
    SendError,
    Throttled,
    without_errno,
)
from holdfast.core.ops.account import AccountState, ConnectionStatus
from holdfast.core.ports.platform import Platform
from holdfast.core.ports.runtime import Clock
from holdfast.core.text.translatable import NO_TEXT, Translatable
from holdfast.core.text.translation import N_
from holdfast.core.turns.subagent import platform_label
from holdfast.gateway.accounts.connection import (
    AccountConnection,
    ConnectionBackoff,
    ConnectionPolicy,
)
from holdfast.gateway.accounts.registry import PlatformRegistry

log = logging.getLogger(__name__)

_STOPPED_STATES = (AccountState.PAUSED, AccountState.CLOSED)
_IN_USE_REMEDY = Translatable(
    N_("Stop the other program, pause this account, or give it credentials of its own.")
)
_UNKNOWN_REMEDY = Translatable(N_("Correct its settings."))


class NewConnection(Protocol):
    """Makes a connection, with what all of them share."""

    def __call__(
        self, platform: Platform, *, on_opened: Callable[[], None]
    ) -> AccountConnection: ...


class AccountSupervisor:
    """Owns one account's connection and status. Its failures do not affect other accounts."""

    def __init__(
        self,
        platform: Platform,
        *,
        paused: bool,
        platforms: PlatformRegistry,
        policy: ConnectionPolicy,
        clock: Clock,
        tasks: asyncio.TaskGroup,
        redact: Callable[[str], str],  # a platform may quote its credentials in an error text
        new_connection: NewConnection,
    ) -> None:
        self.platform = platform
        self.status = ConnectionStatus()
        self._platforms = platforms
        self._policy = policy
        self._clock = clock
        self._tasks = tasks
        self._redact = redact
        self._new_connection = new_connection
        self._backoff = self._new_backoff()
        self._paused = paused
        self._replacement: Platform | None = None  # the platform that replaces this one
        self._ending = False
        self._wake = asyncio.Event()  # set when the desired state changes
        self._changed = asyncio.Event()  # set when the status changes
        self._current_connection: AccountConnection | None = None

    @property
    def name(self) -> str:
        """The account as people see it, in logs and errors."""
        return f"{platform_label(self.platform.name)}:{self.platform.account}"

    async def run(self) -> None:
        """Run until `close` is called. Never fails: errors of a platform affect its account
        alone."""
        while not self._ending:
            self._wake.clear()
            self._switch_platform()
            if self._paused:
                await self._wait_while_paused()
            elif (error := await self._connect_once()) is not None:
                await self._back_off(error)
        self._set_status(AccountState.CLOSED)

    def replace_platform(self, platform: Platform) -> None:
        """Replace the platform: the account is disconnected, and then connected by the new one.
        This also works for an account that is being closed, as long as it `is_running`."""
        self._replacement = platform
        self._ending = False
        self._wake.set()

    @property
    def is_running(self) -> bool:
        return self.status.state is not AccountState.CLOSED

    def _switch_platform(self) -> None:
        if self._replacement is not None:
            self.platform, self._replacement = self._replacement, None
            self._backoff = self._new_backoff()
            self._platforms.register(self.platform)
            self._platforms.set_status(self.platform, self.status)

    def _new_backoff(self) -> ConnectionBackoff:
        return ConnectionBackoff(self._policy.backoff, random=self._policy.random)

    async def pause(self) -> None:
        """Disconnect the account until `resume`. Returns when it is disconnected, or resumed
        meanwhile."""
        if not self._paused:
            self._paused = True
            self._wake.set()
        while self._paused and self.status.state not in _STOPPED_STATES:
            await self._changed.wait()

    async def resume(self) -> None:
        """Connect a paused account again. Returns when the result of the attempt is known."""
        if self._paused:
            self._paused = False
            self._wake.set()
            await self._changed.wait()
        await self.try_now()

    async def try_now(self) -> None:
        """Try to connect now, unless it is connected or paused. Returns when the result is
        known."""
        if self.status.state in (AccountState.RETRYING, AccountState.BLOCKED):
            self._wake.set()
            await self._changed.wait()
        await self.wait_until_known()

    def close(self) -> None:
        self._ending = True
        self._wake.set()

    async def reconnect(self, error: ConnectError) -> None:
        """Report that the connection is gone, and return when it is closed."""
        if self._current_connection is not None:
            self._current_connection.fail(error)
            await self._changed.wait()

    async def wait_until_known(self) -> None:
        """Return when it is known whether the account is connected."""
        while self.status.state in (AccountState.NEW, AccountState.CONNECTING):
            await self._changed.wait()

    async def _wait_while_paused(self) -> None:
        if self.status.state is AccountState.PAUSED:
            self._notify()  # resumed and paused again at once: wake all waiters
        else:
            log.info("Account %s is paused", self.name, extra={"action": "account_paused"})
            self._set_status(AccountState.PAUSED)
        await self._wake.wait()

    async def _connect_once(self) -> Exception | None:
        """Hold one connection, from the attempt to its end. None if its end was requested."""
        self._set_status(AccountState.CONNECTING)
        self._current_connection = connection = self._new_connection(
            self.platform, on_opened=self._on_connected
        )
        holding = self._tasks.create_task(connection.run(), name=f"platform {self.name}")
        asked = asyncio.ensure_future(self._wake.wait())
        over = asyncio.ensure_future(connection.wait_ended())
        try:
            with self._platforms.connected(self.platform, connection.fail):
                await asyncio.wait({holding, asked, over}, return_when=asyncio.FIRST_COMPLETED)
                await connection.end(holding)
        finally:
            asked.cancel()
            over.cancel()
            holding.cancel()  # if this task is cancelled, no other task waits for it
            self._current_connection = None
        error = _result(holding, connection)
        # Two gateways with the same credentials would disconnect each other every second.
        if not isinstance(error and _cause(error), AccountInUse):
            self._backoff.record_connection(connection.seconds, proven=connection.proven)
        return None if self._wake.is_set() else error

    async def _back_off(self, error: Exception) -> None:
        """Wait until the next attempt is due or requested."""
        cause = _cause(error)
        if isinstance(cause, ConnectRefused):
            self._block(cause)
            await self._wake.wait()
            return
        pause = self._backoff.next_wait()
        if isinstance(cause, Throttled):
            pause = max(pause, cause.retry_after)
        self._record_failure(cause, pause)
        try:
            async with asyncio.timeout(pause):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _block(self, error: ConnectRefused) -> None:
        remedy = error.remedy or _UNKNOWN_REMEDY
        log.error(
            "Account %s was refused (%s); not retried until it is changed or resumed. Remedy: %s",
            self.name,
            _why(error),
            remedy,
            extra={"action": "account_blocked"},
        )
        self._set_status(AccountState.BLOCKED, why=_why(error), remedy=remedy)

    def _record_failure(self, error: BaseException, pause: float) -> None:
        # A bug in a platform looks like any other failure here; the stack trace shows it.
        known = isinstance(error, ConnectError | SendError | OSError)
        log.warning(
            "Account %s is not connected: %s; retrying in %.1f s",
            self.name,
            _why(error),
            pause,
            exc_info=None if known else error,
            extra={"action": "account_disconnected"},
        )
        self._set_status(
            AccountState.RETRYING,
            why=_why(error),
            remedy=_IN_USE_REMEDY if isinstance(error, AccountInUse) else NO_TEXT,
            next_try=self._clock.now() + pause,
            failures=self._backoff.failures,
        )

    def _on_connected(self) -> None:
        log.info("Account %s is connected", self.name, extra={"action": "account_connected"})
        self._set_status(AccountState.CONNECTED)

    def _set_status(
        self,
        state: AccountState,
        *,
        why: Translatable = NO_TEXT,
        remedy: Translatable = NO_TEXT,
        next_try: float | None = None,
        failures: int = 0,
    ) -> None:
        self.status = self.status.transition(
            state,
            at=self._clock.now(),
            why=why.redacted(self._redact),
            remedy=remedy,
            next_attempt_at=next_try,
            failures=failures,
        )
        self._platforms.set_status(self.platform, self.status)
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _result(
    holding: asyncio.Task[Exception | None], connection: AccountConnection
) -> Exception | None:
    """Why a connection has ended. A connection that was still being opened was cancelled, and the
    platform has reported why."""
    if holding.cancelled():
        return connection.error or AccountDisconnected("its task was cancelled")
    return holding.result()


def _cause(error: BaseException) -> BaseException:
    """The decisive error: of several, the one that a retry cannot fix."""
    leaves = list(_leaves(error))
    return next((each for each in leaves if isinstance(each, ConnectRefused)), leaves[0])


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in _leaves(each)]
    return [error]


def _why(error: BaseException) -> Translatable:
    """The text of an error; the name of its class if it has none."""
    if not isinstance(error, HoldfastError):
        return Translatable(without_errno(str(error)).rstrip(".") or type(error).__name__)
    if isinstance(error, AccountInUse) and error.holder:
        return Translatable("{error} ({holder})", {"error": error.text, "holder": error.holder})
    return error.text
