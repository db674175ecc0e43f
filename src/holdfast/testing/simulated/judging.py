"""What becomes of what a bot does: by what the pretend vendor can do, and by its faults."""

import msgspec

from holdfast.testing.simulated.events import (
    EditRequest,
    Faults,
    ReactRequest,
    SendRequest,
    VendorInfo,
    VendorReply,
    VendorVerdict,
)


class FaultInjector:
    """Owns the faults, and spends them."""

    def __init__(self) -> None:
        self.faults = Faults()

    def consume(self, fault: str) -> bool:
        """Whether this is an occasion on which that goes wrong."""
        left: int = msgspec.structs.asdict(self.faults)[fault]
        if left:
            self.faults = msgspec.structs.replace(self.faults, **{fault: left - 1})
        return left > 0

    def on_send(
        self, outgoing: SendRequest, info: VendorInfo, *, earlier: str | None
    ) -> VendorReply:
        """`earlier`: the message that the same delivery was taken as before."""
        if answer := self._connection_fault() or _length_error(outgoing.text, info):
            return answer
        if self.consume("refusals"):
            return VendorReply(
                verdict=VendorVerdict.REFUSED, error="the chat does not want this message"
            )
        if self.consume("lost_messages"):
            return VendorReply(verdict=VendorVerdict.MESSAGE_LOST)
        if info.idempotent_send and earlier is not None:
            return VendorReply(verdict=VendorVerdict.REPEATED, message_id=earlier)
        lost = self.consume("lost_receipts")
        return VendorReply(verdict=VendorVerdict.RECEIPT_LOST if lost else VendorVerdict.TAKEN)

    def on_edit(self, edit: EditRequest, info: VendorInfo, *, known: bool) -> VendorReply:
        if answer := self._connection_fault() or _length_error(edit.text, info):
            return answer
        if not info.edit:
            return VendorReply(
                verdict=VendorVerdict.REFUSED, error="messages cannot be edited here"
            )
        if not known:
            return VendorReply(
                verdict=VendorVerdict.REFUSED, error=f"no bot sent {edit.message_id}"
            )
        if self.consume("rejected_edits"):
            return VendorReply(
                verdict=VendorVerdict.REFUSED, error="this message is not to be edited"
            )
        taken = VendorVerdict.RECEIPT_LOST if self.consume("lost_edits") else VendorVerdict.TAKEN
        return VendorReply(verdict=taken, message_id=edit.message_id)

    def on_find(self, info: VendorInfo, *, earlier: str | None) -> VendorReply:
        if answer := self._connection_fault():
            return answer
        if not info.lookup:
            return VendorReply(verdict=VendorVerdict.REFUSED, error="nothing can be looked up here")
        verdict = VendorVerdict.NOT_FOUND if earlier is None else VendorVerdict.REPEATED
        return VendorReply(verdict=verdict, message_id=earlier)

    def on_typing(self, info: VendorInfo) -> VendorReply:
        refused = VendorReply(verdict=VendorVerdict.REFUSED, error="typing is not shown here")
        shown = VendorReply(verdict=VendorVerdict.TAKEN, message_id="")
        return self._connection_fault() or (shown if info.typing else refused)

    def on_react(self, react: ReactRequest, info: VendorInfo, *, known: bool) -> VendorReply:
        if answer := self._connection_fault():
            return answer
        if not info.reactions:
            return VendorReply(verdict=VendorVerdict.REFUSED, error="messages bear no signs here")
        if not known:
            return VendorReply(
                verdict=VendorVerdict.REFUSED, error=f"nobody has said {react.message_id}"
            )
        if self.consume("rejected_reactions"):
            return VendorReply(
                verdict=VendorVerdict.REFUSED, error="this message is to bear no sign"
            )
        return VendorReply(verdict=VendorVerdict.TAKEN, message_id=react.message_id)

    def _connection_fault(self) -> VendorReply | None:
        if self.faults.disconnected:
            return VendorReply(
                verdict=VendorVerdict.UNREACHABLE, error="the service is disconnected"
            )
        if self.faults.half_open:
            return VendorReply(verdict=VendorVerdict.MESSAGE_LOST)
        wait = self.faults.retry_after
        if self.consume("account_floods"):
            return VendorReply(verdict=VendorVerdict.FLOOD, retry_after=wait, whole_account=True)
        if self.consume("floods"):
            return VendorReply(verdict=VendorVerdict.FLOOD, retry_after=wait)
        return None


def _length_error(text: str, info: VendorInfo) -> VendorReply | None:
    if info.max_length is None or len(text) <= info.max_length:
        return None
    error = f"text is longer than {info.max_length} characters"
    return VendorReply(verdict=VendorVerdict.REFUSED, error=error)
