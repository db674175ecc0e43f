"""A mark: the sign on a person's message that it was seen, for as long as it waits."""

import asyncio
import logging

from holdfast.core.errors import NotConnected, Refused, SendError, Throttled
from holdfast.core.outbox import Address
from holdfast.core.ports import Platform, Reacting
from holdfast.core.signs import SEEN
from holdfast.gateway.door_edge import DoorEdge
from holdfast.gateway.posting import Posting
from holdfast.gateway.way import Way

log = logging.getLogger(__name__)

_PATIENCE = 2.0  # seconds: a reply that is ready does not wait longer for this


class Mark:
    """Owns whether the sign is to stand there, and whether it does, as far as is known. It has no
    row, and each of the two calls is made once."""

    def __init__(self, address: Address, message_id: str, *, stands: bool = False) -> None:
        """`stands`: an earlier process may have put it there."""
        self.address = address
        self._message_id = message_id
        self._untried = True
        self._stands = stands
        self.wanted = True

    async def put(self, posting: Posting, platform: Platform, way: Way) -> None:
        """Make of it what is wanted now; one that is not any more when its time comes is never
        seen."""
        if self.wanted and self._untried:
            self._untried = False
            self._stands |= await self._react(platform, SEEN, way)
        if self._stands and not self.wanted:
            await way.passed()  # nothing that is owed behind it could pass sooner
            self._stands = False
            await self._react(platform, None, way)

    async def _react(self, platform: Platform, sign: str | None, way: Way) -> bool:
        """Whether it may have been done."""
        if not isinstance(platform, Reacting):
            return False
        try:
            async with asyncio.timeout(_PATIENCE):
                with DoorEdge(platform):
                    await platform.react(self.address, self._message_id, sign)
        except Throttled as error:
            if error.whole_account:  # else it may be meant for signs alone, and replies go on
                way.blocked(error)
            return _told(error, done=False)
        except (NotConnected, Refused) as error:
            return _told(error, done=False)
        except (SendError, TimeoutError) as error:
            return _told(error, done=True)
        return True


def _told(error: Exception, *, done: bool) -> bool:
    log.debug("A mark is not as it should be: %s", error, extra={"action": "mark"})
    return done
