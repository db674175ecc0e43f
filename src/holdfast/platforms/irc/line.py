"""The line: a registered connection, on which things are said, asked and heard."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, TypeVar

from holdfast.core.errors import AccountDisconnected, NotConnected, OutcomeUnknown
from holdfast.platforms.irc.greeting import ServerWelcome
from holdfast.platforms.irc.link import IrcSocket
from holdfast.platforms.irc.names import IrcNames
from holdfast.platforms.irc.pacing import FloodLimiter
from holdfast.platforms.irc.wire import IrcMessage, format_line

MessageListener = Callable[[IrcMessage], None]
T = TypeVar("T")

RESPONSE_TIMEOUT = 30.0  # seconds for an answer


class IrcClient:
    """Owns the link, who we are on it, and who listens. Everything but a PONG goes at the pace
    that the server bears."""

    def __init__(
        self,
        socket: IrcSocket,
        welcome: ServerWelcome,
        limiter: FloodLimiter,
        *,
        timeout: float = RESPONSE_TIMEOUT,
    ) -> None:
        self.nick = welcome.nick
        self.capabilities = welcome.capabilities
        self.features = welcome.features
        self.names = IrcNames(welcome.features)
        self.limiter = limiter
        self._socket = socket
        self._timeout = timeout
        self._listeners: list[MessageListener] = []
        self._tokens = count(1)
        self._ended: asyncio.Future[AccountDisconnected] = (
            asyncio.get_running_loop().create_future()
        )

    def is_me(self, nick: str) -> bool:
        return self.names.is_same(nick, self.nick)

    def next_token(self) -> str:
        """One that nothing else on this line has."""
        return f"h{next(self._tokens)}"

    async def listen(self) -> AccountDisconnected:
        """Until the line breaks: why. An answer that somebody waits for will not come then."""
        why = AccountDisconnected("we have left")
        try:
            while True:
                self._dispatch(await self._socket.read_message())
        except AccountDisconnected as error:
            why = error
        finally:
            self._ended.set_result(why)
        return why

    @contextmanager
    def subscribe(self, listener: MessageListener) -> Iterator[None]:
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    async def send(self, command: str, *params: str, tags: Mapping[str, str] | None = None) -> None:
        """Raises `NotConnected`: then nothing was written."""
        await self.limiter.acquire()
        if self._ended.done() or not self._socket.is_open:
            raise NotConnected("there is no connection to the server")
        self._socket.write(format_line(command, *params, tags=tags or {}))

    async def request(self, command: Sequence[str], match: Callable[[IrcMessage], T | None]) -> T:
        """What `answer` makes of something that is said from now on. Raises `NotConnected` where
        nothing was asked, and `OutcomeUnknown` where nothing is answered."""
        found: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def ear(heard: IrcMessage) -> None:
            if not found.done() and (told := match(heard)) is not None:
                found.set_result(told)

        with self.subscribe(ear):
            await self.send(*command)
            return await self.wait_for(found)

    async def wait_for(self, future: asyncio.Future[T]) -> T:
        """Raises `OutcomeUnknown` where the line breaks before it is there, or stays silent."""
        over = self._ended
        either: set[asyncio.Future[Any]] = {future, over}
        await asyncio.wait(either, timeout=self._timeout, return_when=asyncio.FIRST_COMPLETED)
        if future.done():
            return future.result()
        future.cancel()
        why = str(over.result()) if over.done() else f"no answer within {self._timeout:.0f} s"
        raise OutcomeUnknown(f"the server did not say what became of it: {why}")

    async def round_trip(self) -> None:
        """What was said before this has been heard by the server when it returns: a server takes
        the lines of a client in their order."""
        token = self.next_token()
        await self.request(("PING", token), lambda heard: is_pong(heard, token) or None)

    def quit(self) -> None:
        """Say goodbye, at once, and wait for nothing."""
        if self._socket.is_open:
            self._socket.write(format_line("QUIT", "until later"))

    def _dispatch(self, message: IrcMessage) -> None:
        if message.command == "PING":
            self._socket.write(format_line("PONG", message.trailing))
        elif message.command == "ERROR":
            raise AccountDisconnected(f"the server ends the connection: {message.trailing}")
        elif message.command == "NICK" and self.is_me(message.nick):
            self.nick = message.param(0)
        for ear in tuple(self._listeners):
            ear(message)


def is_pong(message: IrcMessage, token: str) -> bool:
    return message.command == "PONG" and message.trailing == token
