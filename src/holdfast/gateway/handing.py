"""Handing over files on behalf of one turn, to the chat that it works for."""

import asyncio

from holdfast.core.errors import Refused
from holdfast.core.handing import NotHanded
from holdfast.core.ids import DeliveryId, SessionId, TurnId
from holdfast.core.inbox import InboxRow
from holdfast.core.outbox import DeliveryKind, NewDelivery, OwedFile
from holdfast.gateway.house import House
from holdfast.gateway.replies import address_of
from holdfast.gateway.waiting import worked

_NO_FILES = (
    "this chat takes no files. Tell the person where in the workspace the file is: they can "
    "fetch it on the gateway's page"
)

_A_CHILD = "you work for another agent, and it talks to people: name the file in your answer"


class TurnFiles:
    """`core.handing.Handing` for one turn; owns nothing."""

    def __init__(
        self,
        house: House,
        row: InboxRow,
        *,
        session_id: SessionId,
        workspace: SessionId,
        turn_id: TurnId,
    ) -> None:
        self._house = house
        self._row = row
        self._session_id = session_id
        self._workspace = workspace
        self._turn_id = turn_id

    async def hand_over(self, path: str, *, caption: str) -> None:
        house, address = self._house, address_of(self._row)
        if self._row.inbound.child is not None:
            raise NotHanded(_A_CHILD)
        if not house.doors.capabilities(address).attachments_out:
            raise NotHanded(_NO_FILES)
        file = OwedFile(workspace=self._workspace, path=path)
        try:
            await house.outgoing.get(file)  # so that the agent hears now what would fail later
        except Refused as error:
            raise NotHanded(str(error)) from None
        new = NewDelivery(
            id=DeliveryId(house.new_id("dlv")),
            address=address,
            kind=DeliveryKind.FILE,
            text=caption,
            session_id=self._session_id,
            turn_id=self._turn_id,
            file=file,
        )
        await self._owe(new)

    async def _owe(self, new: NewDelivery) -> None:
        """Sent by the commit itself: a turn that is cancelled meanwhile owes it all the same."""
        house = self._house
        writing = asyncio.ensure_future(house.store.add_deliveries((new,), at=house.clock.now()))

        def owed(done: asyncio.Future[None]) -> None:
            if worked(done):
                house.announcer.messages((), (new,))

        writing.add_done_callback(owed)
        await asyncio.shield(writing)
