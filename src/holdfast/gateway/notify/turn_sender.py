"""Sends messages and files on behalf of one turn, to the chats it may send to."""

from hashlib import sha256

from holdfast.core.errors import NotAllowed, SendRejected
from holdfast.core.ids import CallId, DeliveryId, SessionId, TurnId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import (
    Address,
    DeliveryKind,
    OutgoingMessage,
    PendingFile,
    SendInitiator,
    SendNotPossible,
)
from holdfast.gateway.notify.chat_addresses import NoSuchChat, format_chat
from holdfast.gateway.notify.proactive import ProactiveSender, ProactiveSendRequest
from holdfast.gateway.notify.send_policy import SendPolicy
from holdfast.gateway.outbound.delivery import reply_address

_NO_FILES = (
    "this chat takes no files. Tell the person where in the workspace the file is: they can "
    "fetch it on the gateway's page"
)
_FETCHED_ONLY = "messages are not sent to this chat: say it in your answer"
_IS_SUBAGENT = "you work for another agent, and it talks to people: say it in your answer"


class TurnSender:
    """The sending port of one turn's tools; owns nothing."""

    def __init__(
        self,
        sender: ProactiveSender,
        send_policy: SendPolicy,
        row: InboxRow,
        *,
        session_id: SessionId,
        workspace: SessionId,
        turn_id: TurnId,
        replies: int,
    ) -> None:
        self._sender = sender
        self._send_policy = send_policy
        self._row = row  # the message that the turn answers
        self._session_id = session_id
        self._workspace = workspace
        self._turn_id = turn_id
        self._replies = replies  # of the model in this turn so far: each has its own call names

    async def send_file(self, call_id: CallId, path: str, *, caption: str) -> None:
        self._check_not_subagent()
        address = reply_address(self._row)
        if not self._sender.capabilities(address).attachments_out:
            raise SendNotPossible(_NO_FILES)
        await self._send(call_id, address, caption, path=path, kind=DeliveryKind.FILE)

    async def send_message(self, call_id: CallId, message: OutgoingMessage) -> str:
        self._check_not_subagent()
        if not message.text.strip() and not message.path:
            raise SendNotPossible("there is nothing to send: give a text, a file, or both")
        try:
            address = self._send_policy.resolve(message.to, self._row)
            self._send_policy.authorise(address, self._row)
        except (NoSuchChat, NotAllowed) as error:
            raise SendNotPossible(str(error)) from None
        if self._sender.capabilities(address).fetchable:
            raise SendNotPossible(_FETCHED_ONLY)
        await self._send(call_id, address, message.text, path=message.path)
        return format_chat(address)

    async def was_queued(self, call_id: CallId) -> bool:
        return await self._sender.was_queued(self._delivery_id(call_id))

    def _check_not_subagent(self) -> None:
        if self._row.inbound.subagent is not None:
            raise SendNotPossible(_IS_SUBAGENT)

    async def _send(
        self,
        call_id: CallId,
        address: Address,
        text: str,
        *,
        path: str,
        kind: DeliveryKind = DeliveryKind.MESSAGE,
    ) -> None:
        message = ProactiveSendRequest(
            id=self._delivery_id(call_id),
            to=address,
            text=text,
            kind=kind,
            file=PendingFile(workspace=self._workspace, path=path) if path else None,
            initiator=SendInitiator.AGENT,
            session_id=self._session_id,
            turn_id=self._turn_id,
        )
        try:
            # So that the agent learns now what would fail later.
            await self._sender.check(message)
        except SendRejected as error:
            raise SendNotPossible(str(error)) from None
        await self._sender.enqueue(message)

    def _delivery_id(self, call_id: CallId) -> DeliveryId:
        """The same in every process that makes the call, so that it is sent once. The model names
        its calls, and may reuse a name in its next reply."""
        name = f"{self._turn_id}/{self._replies}/{call_id}"
        return DeliveryId(f"dlv_{sha256(name.encode('utf-8', 'replace')).hexdigest()[:27]}")
