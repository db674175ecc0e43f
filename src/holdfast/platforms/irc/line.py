"""The line: a registered connection, on which things are said, asked and heard."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, TypeVar

from holdfast.core.errors import LineLost, NotConnected, OutcomeUnknown
from holdfast.platforms.irc.greeting import Welcome
from holdfast.platforms.irc.link import Link
from holdfast.platforms.irc.names import Names
from holdfast.platforms.irc.pacing import Pace
from holdfast.platforms.irc.wire import Heard, written

Ear = Callable[[Heard], None]
T = TypeVar("T")

PATIENCE = 30.0  # seconds for an answer


class Line:
    """Owns the link, who we are on it, and who listens. Everything but a PONG goes at the pace
    that the server bears."""

    def __init__(
        self, link: Link, welcome: Welcome, pace: Pace, *, patience: float = PATIENCE
    ) -> None:
        self.nick = welcome.nick
        self.enabled = welcome.enabled
        self.features = welcome.features
        self.names = Names(welcome.features)
        self.pace = pace
        self._link = link
        self._patience = patience
        self._ears: list[Ear] = []
        self._numbers = count(1)
        self._over: asyncio.Future[LineLost] = asyncio.get_running_loop().create_future()

    def is_me(self, nick: str) -> bool:
        return self.names.same(nick, self.nick)

    def number(self) -> str:
        """One that nothing else on this line has."""
        return f"h{next(self._numbers)}"

    async def listen(self) -> LineLost:
        """Until the line breaks: why. An answer that somebody waits for will not come then."""
        why = LineLost("we have left")
        try:
            while True:
                self._take(await self._link.hear())
        except LineLost as error:
            why = error
        finally:
            self._over.set_result(why)
        return why

    @contextmanager
    def heard_by(self, ear: Ear) -> Iterator[None]:
        self._ears.append(ear)
        try:
            yield
        finally:
            self._ears.remove(ear)

    async def say(self, verb: str, *params: str, tags: Mapping[str, str] | None = None) -> None:
        """Raises `NotConnected`: then nothing was written."""
        await self.pace.take()
        if self._over.done() or not self._link.is_open:
            raise NotConnected("there is no connection to the server")
        self._link.write(written(verb, *params, tags=tags or {}))

    async def asked(self, question: Sequence[str], answer: Callable[[Heard], T | None]) -> T:
        """What `answer` makes of something that is said from now on. Raises `NotConnected` where
        nothing was asked, and `OutcomeUnknown` where nothing is answered."""
        found: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def ear(heard: Heard) -> None:
            if not found.done() and (told := answer(heard)) is not None:
                found.set_result(told)

        with self.heard_by(ear):
            await self.say(*question)
            return await self.awaited(found)

    async def awaited(self, found: asyncio.Future[T]) -> T:
        """Raises `OutcomeUnknown` where the line breaks before it is there, or stays silent."""
        over = self._over
        either: set[asyncio.Future[Any]] = {found, over}
        await asyncio.wait(either, timeout=self._patience, return_when=asyncio.FIRST_COMPLETED)
        if found.done():
            return found.result()
        found.cancel()
        why = str(over.result()) if over.done() else f"no answer within {self._patience:.0f} s"
        raise OutcomeUnknown(f"the server did not say what became of it: {why}")

    async def round_trip(self) -> None:
        """What was said before this has been heard by the server when it returns: a server takes
        the lines of a client in their order."""
        token = self.number()
        await self.asked(("PING", token), lambda heard: is_pong(heard, token) or None)

    def part(self) -> None:
        """Say goodbye, at once, and wait for nothing."""
        if self._link.is_open:
            self._link.write(written("QUIT", "until later"))

    def _take(self, heard: Heard) -> None:
        if heard.verb == "PING":
            self._link.write(written("PONG", heard.last))
        elif heard.verb == "ERROR":
            raise LineLost(f"the server ends the connection: {heard.last}")
        elif heard.verb == "NICK" and self.is_me(heard.nick):
            self.nick = heard.param(0)
        for ear in tuple(self._ears):
            ear(heard)


def is_pong(heard: Heard, token: str) -> bool:
    return heard.verb == "PONG" and heard.last == token
