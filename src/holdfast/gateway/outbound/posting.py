"""Posting: deliveries of several messages, and those shown as they grow, brought to a platform."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from holdfast.core.crash_points import Crash, CrashPoint
from holdfast.core.errors import (
    NotConnected,
    OutcomeUnknown,
    Refused,
    SendError,
    StoreError,
    Throttled,
)
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import (
    Address,
    Change,
    Choice,
    DeliveryState,
    Outbound,
    Part,
    Receipt,
    id_of_part,
)
from holdfast.core.ports.journal import Journal
from holdfast.core.ports.protocols import Clock, Editing, Platform
from holdfast.gateway.accounts.registry import Doors
from holdfast.gateway.outbound.door_edge import DoorEdge
from holdfast.gateway.outbound.looking_up import looked_up
from holdfast.gateway.redaction import Redaction

log = logging.getLogger(__name__)

_STORE_WAIT = 1.0


class Post(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a delivery: where it goes and what it is to say by then."""

    delivery_id: DeliveryId
    address: Address
    text: str
    final: bool  # no other words come after these
    choices: tuple[Choice, ...] = ()


class Posting:
    """Puts one part where it belongs: sent the first time, changed after that.

    Each attempt to send is committed before it is made, and what became of it is committed
    before anything else is tried. A change may be made twice, so it needs no such record.
    """

    def __init__(
        self, doors: Doors, *, journal: Journal, clock: Clock, crash: Crash, redact: Redaction
    ) -> None:
        self._doors = doors
        self._redact = redact  # what a door complains of
        self._journal = journal
        self._clock = clock
        self._crash = crash

    async def put(self, post: Post, part: Part, platform: Platform) -> Part:
        """One try; the part as it stands then. Raises the `SendError` after it was recorded; see
        `outcome` for how the part stands then."""
        if part.platform_message_id is None:
            return await self._send(post, part, platform)
        return await self._change(post, part, platform, part.platform_message_id)

    async def _send(self, post: Post, part: Part, platform: Platform) -> Part:
        name, once = id_of_part(post.delivery_id, part.number), platform.capabilities.settles_doubt
        if part.doubtful and (found := await looked_up(name, post.address, platform)):
            return await self._arrived(post, part, platform, found)
        await self._begin(post.delivery_id, part.number)
        self._crash(CrashPoint.ATTEMPT_COMMITTED)
        outbound = Outbound(
            delivery_id=name,
            address=post.address,
            text=post.text,
            choices=post.choices if platform.capabilities.buttons else (),
            maybe_repeated=part.doubtful and not once,
            part=part.number,
        )
        try:
            with DoorEdge(platform):
                receipt = await platform.send(outbound)
        except SendError as error:
            known = outcome(part, error, final=post.final)
            await self.keep(post.delivery_id, known, error=str(error))
            raise
        self._crash(CrashPoint.SENT)
        return await self._arrived(post, part, platform, receipt)

    async def _arrived(self, post: Post, part: Part, platform: Platform, receipt: Receipt) -> Part:
        self._proven(platform)
        # What was taken before may have the words of the attempt before, and is changed then;
        # where nothing can be changed, those are the words that it has.
        earlier = part.doubtful and platform.capabilities.settles_doubt
        sent = msgspec.structs.replace(
            part,
            state=DeliveryState.SENT,
            platform_message_id=receipt.platform_message_id,
            final=post.final and not (earlier and editor_of(platform) is not None),
        )
        await self.keep(post.delivery_id, sent)
        self._crash(CrashPoint.RECEIPT_COMMITTED)
        return sent

    async def _change(self, post: Post, part: Part, platform: Platform, message_id: str) -> Part:
        editor = editor_of(platform)
        assert editor is not None, "what cannot be changed is said anew: `changeable`"
        change = Change(
            delivery_id=id_of_part(post.delivery_id, part.number),
            address=post.address,
            platform_message_id=message_id,
            text=post.text,
        )
        with DoorEdge(platform):
            await editor.edit(change)
        self._crash(CrashPoint.EDIT_SENT)
        return await self.stands(post, part) if post.final else part

    async def stands(self, post: Post, part: Part) -> Part:
        """The platform shows the last words of the part."""
        shown = msgspec.structs.replace(part, state=DeliveryState.SENT, final=True)
        await self.keep(post.delivery_id, shown)
        self._crash(CrashPoint.EDIT_COMMITTED)
        return shown

    async def keep(self, delivery_id: DeliveryId, part: Part, *, error: str = "") -> None:
        """Write what is known of a part, until the store takes it: to try it again instead would
        send what the platform already has."""
        settle, error = self._journal.settle_part, error and self._redact(error)
        await _insist(lambda: settle(delivery_id, part, at=self._clock.now(), error=error))

    async def _begin(self, delivery_id: DeliveryId, number: int) -> None:
        """Sending what cannot be recorded would send it again after a restart."""
        begin = self._journal.begin_part
        await _insist(lambda: begin(delivery_id, number, at=self._clock.now()))

    def _proven(self, platform: Platform) -> None:
        self._doors.proven(platform.name, platform.account)


async def _insist(write: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await write()
            return
        except StoreError as failure:
            log.error("A delivery waits for the store: %s", failure, extra={"action": "outbox"})
            await asyncio.sleep(_STORE_WAIT)


def editor_of(platform: Platform) -> Editing | None:
    """Whoever can change what was sent there; None: nobody."""
    if platform.capabilities.edit and isinstance(platform, Editing):
        return platform
    return None


def changeable(part: Part, platform: Platform) -> Part:
    """Where nobody can change what a part shows any more, it is said anew, once, and says so."""
    if part.platform_message_id is None or editor_of(platform) is not None:
        return part
    resends = 0 if part.state is DeliveryState.SENT else part.resends
    return msgspec.structs.replace(part, platform_message_id=None, doubtful=True, resends=resends)


def outcome(part: Part, error: SendError, *, final: bool) -> Part:
    """The part after an attempt to send that ended so. Words that were refused half-way may be
    taken when they are whole."""
    match error:
        case Throttled() | NotConnected():
            return msgspec.structs.replace(part, state=DeliveryState.PENDING)
        case Refused():
            state = DeliveryState.FAILED if final else DeliveryState.PENDING
            return msgspec.structs.replace(part, state=state)
        case OutcomeUnknown():
            resends = part.resends + part.doubtful
            return msgspec.structs.replace(
                part, state=DeliveryState.UNKNOWN, doubtful=True, resends=resends
            )
    raise error


def restored(part: Part) -> Part:
    """A part as an earlier process left it: an attempt without an outcome was cut between the
    send and its receipt."""
    if part.state is DeliveryState.SENDING:
        return msgspec.structs.replace(part, doubtful=True)
    return part
