"""The way to a chat: the gates that everything sent there passes, and what is found out there."""

import asyncio
from collections.abc import Callable

from holdfast.core.errors import NotConnected, Throttled
from holdfast.gateway.outbound.pacing import RateGate

_FIRST_WAIT, _MAX_WAIT = 1.0, 60.0


class SendGate:
    """Owns how often in a row its platform was not there."""

    def __init__(
        self,
        chat: RateGate,
        account: RateGate,
        *,
        connected: asyncio.Event,
        on_unreachable: Callable[[], None],
    ) -> None:
        self._chat = chat
        self._account = account
        self._connected = connected  # set while the account has a line
        self._on_unreachable = on_unreachable  # told when the account cannot be reached
        self._failures = 0

    async def wait(self) -> None:
        await self._chat.wait()
        await self._account.wait()
        await self._connected.wait()

    def hold(self, seconds: float) -> None:
        self._chat.hold(seconds)

    def record_blocked(self, why: Throttled | NotConnected) -> None:
        """Nothing was taken: the next one waits as told, or a little longer than the last."""
        if isinstance(why, Throttled):
            held = self._account if why.whole_account else self._chat
            held.hold(why.retry_after)
            return
        self._on_unreachable()
        if not self._connected.is_set():
            return  # it is waited for until it is there again
        self._chat.hold(min(_FIRST_WAIT * 2**self._failures, _MAX_WAIT))
        self._failures += 1
