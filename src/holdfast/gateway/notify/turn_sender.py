"""Handing over words and files on behalf of one turn, to the people it may speak to."""

from hashlib import sha256

from holdfast.core.errors import NotAllowed, Refused
from holdfast.core.ids import CallId, DeliveryId, SessionId, TurnId
from holdfast.core.messages.handing import Letter, NotHanded
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import Address, DeliveryKind, OwedFile
from holdfast.core.messages.saying import Speaker
from holdfast.gateway.notify.chat_addresses import NoSuchChat, shown_chat
from holdfast.gateway.notify.proactive import Message
from holdfast.gateway.outbound.replies import address_of
from holdfast.gateway.services import House

_NO_FILES = (
    "this chat takes no files. Tell the person where in the workspace the file is: they can "
    "fetch it on the gateway's page"
)
_FETCHED = "nobody is sent anything here: say it in your answer"
_A_CHILD = "you work for another agent, and it talks to people: say it in your answer"


class TurnHanding:
    """`core.handing.Handing` for one turn; owns nothing."""

    def __init__(
        self,
        house: House,
        row: InboxRow,
        *,
        session_id: SessionId,
        workspace: SessionId,
        turn_id: TurnId,
        replies: int,
    ) -> None:
        self._house = house
        self._row = row  # the message that the turn answers
        self._session_id = session_id
        self._workspace = workspace
        self._turn_id = turn_id
        self._replies = replies  # of the model in this turn so far: each names its calls anew

    async def hand_over(self, call_id: CallId, path: str, *, caption: str) -> None:
        self._check_asker()
        address = address_of(self._row)
        if not self._house.doors.capabilities(address).attachments_out:
            raise NotHanded(_NO_FILES)
        await self._bring(call_id, address, caption, path=path, kind=DeliveryKind.FILE)

    async def bring(self, call_id: CallId, letter: Letter) -> str:
        self._check_asker()
        if not letter.text.strip() and not letter.path:
            raise NotHanded("there is nothing to send: give a text, a file, or both")
        try:
            address = self._house.outreach.place(letter.to, self._row)
            self._house.outreach.authorise(address, self._row)
        except (NoSuchChat, NotAllowed) as error:
            raise NotHanded(str(error)) from None
        if self._house.doors.capabilities(address).fetchable:
            raise NotHanded(_FETCHED)
        await self._bring(call_id, address, letter.text, path=letter.path)
        return shown_chat(address)

    async def owed(self, call_id: CallId) -> bool:
        return await self._house.store.delivery(self._id(call_id)) is not None

    def _check_asker(self) -> None:
        if self._row.inbound.child is not None:
            raise NotHanded(_A_CHILD)

    async def _bring(
        self,
        call_id: CallId,
        address: Address,
        text: str,
        *,
        path: str,
        kind: DeliveryKind = DeliveryKind.MESSAGE,
    ) -> None:
        message = Message(
            id=self._id(call_id),
            to=address,
            text=text,
            kind=kind,
            file=OwedFile(workspace=self._workspace, path=path) if path else None,
            speaker=Speaker.AGENT,
            session_id=self._session_id,
            turn_id=self._turn_id,
        )
        try:
            # So that the agent hears now what would fail later.
            await self._house.messenger.check(message)
        except Refused as error:
            raise NotHanded(str(error)) from None
        await self._house.messenger.bring(message)

    def _id(self, call_id: CallId) -> DeliveryId:
        """The same for a call whichever process makes it, so that it is owed once. The model names
        its calls, and may use a name again in its next reply."""
        name = f"{self._turn_id}/{self._replies}/{call_id}"
        return DeliveryId(f"dlv_{sha256(name.encode('utf-8', 'replace')).hexdigest()[:27]}")
