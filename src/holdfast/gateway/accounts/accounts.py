"""Accounts: the lines of every platform account, opened, paused, looked at and closed."""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any

from holdfast.config.errors import nearest
from holdfast.core.errors import ConnectError, HoldfastError, LineLost, SendError, Throttled
from holdfast.core.ops.account import AccountState, NoSuchAccount
from holdfast.core.ops.facts import PlatformFacts
from holdfast.core.people.approval import OPERATOR
from holdfast.core.ports.protocols import Platform, Probing
from holdfast.core.turns.subagent import HOUSE
from holdfast.gateway.accounts.connection import Ground
from holdfast.gateway.accounts.paused import Paused
from holdfast.gateway.accounts.supervisor import Line

_PROBE = 10.0  # seconds that an account is given to answer when it is checked
_OWNERS = frozenset({"api", "web"})  # by which one would have to ask for them again


class NotPausable(HoldfastError):
    """This account is one of those by which the gateway itself is run."""


class Accounts:
    """Owns the lines, from the first attempt to the last goodbye."""

    def __init__(self, ground: Ground, paused: Paused) -> None:
        self._ground = ground
        self._paused = paused
        self._lines: dict[tuple[str, str], Line] = {}
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._closed = False

    async def open(self) -> None:
        """Returns when every account of this very process is there. Of the others none is waited
        for: one that hangs would keep the rest from starting."""
        await self._paused.load()
        # Those outside first: one that answers at once is there when this returns.
        platforms = sorted(self._ground.doors, key=_inside)
        for platform in platforms:
            self._begin(platform)
        for line in self._lines.values():
            if _inside(line.platform):
                await line.settled()

    async def close(self) -> None:
        """Let all of them go at once; one that hangs keeps no other."""
        self._closed = True
        running = list(self._running.values())
        for line in self._lines.values():
            line.leave()
        try:
            if running:
                await asyncio.wait(running)
        finally:
            for task in running:
                task.cancel()
            self._running.clear()

    def put(self, platform: Platform) -> None:
        """An account was added, or is set up anew: it is connected by this, once what stood in its
        place has been let go of. No other is touched, and no turn is cut."""
        line = self._lines.get((platform.name, platform.account))
        if self._closed:
            return
        if line is not None and line.lives:
            line.change(platform)
            return
        self._ground.gone(platform)  # what comes to be owed there waits until it is connected
        self._ground.doors.put(platform)
        self._begin(platform)

    def remove(self, name: str, account: str) -> None:
        """An account was taken out of the configuration, or switched off: it is let go of. What
        is owed there waits."""
        if (line := self._lines.get((name, account))) is not None:
            line.leave()

    def _begin(self, platform: Platform) -> None:
        key = platform.name, platform.account
        line = self._lines[key] = Line(platform, self._ground, paused=key in self._paused)
        name = f"line {platform.name}:{platform.account}"
        task = self._ground.tasks.create_task(line.run(), name=name)
        self._running[key] = task
        task.add_done_callback(lambda _: self._ended(key, line))

    def _ended(self, key: tuple[str, str], line: Line) -> None:
        """A stop ends all of them, and whoever looks at one until then is to see how it stands."""
        if not self._closed and self._lines.get(key) is line:
            del self._lines[key], self._running[key]
            self._ground.doors.remove(line.platform)
            self._ground.stirred()

    def lost(self, name: str, account: str, error: ConnectError) -> None:
        line = self._lines.get((name, account))
        if line is not None:
            line.lost(error)

    def facts(self) -> tuple[PlatformFacts, ...]:
        """How every account stands that leads outside."""
        return self._ground.doors.facts()

    async def pause(self, name: str, account: str) -> PlatformFacts:
        """It is let go of and stays so, also over a restart; no turn is cut by that, and what is
        owed there waits. Returns when that is kept."""
        line = self._line(name, account)
        if name in _OWNERS:
            raise NotPausable(
                f"{line.name} is served by the gateway itself; to do without it, set "
                f"platforms.{name}.enabled = false and restart."
            )
        await self._paused.add((name, account), by=OPERATOR)
        return await self._within(line, line.pause())

    async def resume(self, name: str, account: str) -> PlatformFacts:
        """Also one that was refused, or that waits for its next try, is tried now."""
        line = self._line(name, account)
        await self._paused.remove((name, account), by=OPERATOR)
        return await self._within(line, line.resume())

    async def check(self, name: str, account: str) -> PlatformFacts:
        """Have a round trip now, or try to connect now, and say what came of it. A paused account
        is left in peace."""
        line = self._line(name, account)
        if line.standing.state is AccountState.CONNECTED:
            await self._probe(line)
        else:
            await self._within(line, line.try_now())
        return self._ground.doors.facts_of(line.platform)

    async def _within(self, line: Line, change: Coroutine[Any, Any, None]) -> PlatformFacts:
        """How it stands after the change, or on the way to it: a door may take its time."""
        try:
            async with asyncio.timeout(_PROBE):
                await change
        except TimeoutError:
            pass
        return self._ground.doors.facts_of(line.platform)

    async def _probe(self, line: Line) -> None:
        platform = line.platform
        if not isinstance(platform, Probing):
            return
        try:
            async with asyncio.timeout(_PROBE):
                await platform.probe()
        except TimeoutError:
            await line.replace(LineLost(f"no answer within {_PROBE:.0f} s"))
        except ConnectError as error:
            await line.replace(error)
        except Throttled:
            self._ground.doors.proven(platform.name, platform.account)  # that was an answer, too
        except SendError as error:
            await line.replace(LineLost(str(error)))
        else:
            self._ground.doors.proven(platform.name, platform.account)

    def _line(self, name: str, account: str) -> Line:
        line = self._lines.get((name, account))
        if line is None or line.platform.name == HOUSE:
            known = list(self._names())
            near = _near(name, account, known)
            meant = f" Did you mean {near}?" if near else ""
            raise NoSuchAccount(
                f"there is no account {name}:{account} that is switched on; there are: "
                f"{', '.join(known) or 'none'}.{meant}"
            )
        return line

    def _names(self) -> Iterator[str]:
        return (line.name for line in self._lines.values() if line.platform.name != HOUSE)


def _inside(platform: Platform) -> bool:
    """Whether nothing lies between it and this process."""
    return platform.capabilities.fetchable or platform.name == HOUSE


def _near(name: str, account: str, known: Sequence[str]) -> str | None:
    """First by the platform: every account that has no name is called alike."""
    platform = nearest(name, [each.partition(":")[0] for each in known])
    of_it = [each for each in known if each.partition(":")[0] == platform]
    return nearest(f"{platform}:{account}", of_it) if of_it else None
