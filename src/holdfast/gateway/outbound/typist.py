"""The typist: shows in a chat that an answer is being written, for as long as its turn runs."""

import asyncio
import logging
from collections.abc import Callable

from holdfast.core.errors import NotConnected, SendError, Throttled
from holdfast.core.messages.outbox import Address
from holdfast.core.ports.protocols import Platform, ShowsTyping
from holdfast.gateway.outbound.door_edge import DoorEdge
from holdfast.gateway.outbound.posting import Posting
from holdfast.gateway.outbound.way import Way

log = logging.getLogger(__name__)

_EVERY = 4.0  # seconds: platforms show it for five or more
_PATIENCE = 2.0  # a reply that is ready does not wait longer for this


class Typist:
    """Owns when it is shown next. It has no row: what is not shown now is not shown later."""

    def __init__(self, address: Address, *, show: Callable[["Typist"], bool]) -> None:
        self.address = address
        self._show = show
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        self._show(self)
        self._timer = asyncio.get_running_loop().call_later(_EVERY, self.begin)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def put(self, posting: Posting, platform: Platform, way: Way) -> None:
        if self._timer is None or not isinstance(platform, ShowsTyping):
            return
        try:
            async with asyncio.timeout(_PATIENCE):
                with DoorEdge(platform):
                    await platform.typing(self.address)
        except (Throttled, NotConnected) as error:
            way.blocked(error)
        except (SendError, TimeoutError) as error:
            log.debug("Typing is not shown: %s", error, extra={"action": "typing"})
