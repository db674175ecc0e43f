"""The threshold: what of all that platforms bring is taken in, and what its writer hears else."""

from holdfast.core.errors import NotAllowed
from holdfast.core.ids import PrincipalId
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.source import Author, ChatType, Source
from holdfast.core.ports.protocols import Clock
from holdfast.gateway.inbound.authorise import AccessPolicy, Action, Principal, principal_of
from holdfast.gateway.inbound.groups import (
    LOOP_RESET_AFTER,
    MAX_IN_A_ROW,
    GroupPolicy,
    LoopDetected,
)
from holdfast.gateway.inbound.strangers import PairingRequests

_LOOP_NOTICE = (
    f"I have answered {MAX_IN_A_ROW} messages in a row here with nobody else speaking, and stop now: "
    "it may be a program that answers me. I go on when somebody else speaks, or after "
    f"{LOOP_RESET_AFTER / 60:.0f} minutes of silence."
)
_LOOP_REASON = "so many in a row that it may be a program"


class InboundPolicy:
    """Owns nothing: asks whether a message is meant, and then whether its writer may."""

    def __init__(
        self,
        access: AccessPolicy,
        groups: GroupPolicy,
        pairing_requests: PairingRequests,
        *,
        clock: Clock,
    ) -> None:
        self._access = access
        self._groups = groups
        self._pairing_requests = pairing_requests
        self._clock = clock

    async def check(self, inbound: Inbound) -> PrincipalId:
        """Who it is that talks. Raises `NotAllowed`: whatever its writer was to hear of it is
        durable by then, and the message is to be acknowledged."""
        source = inbound.source
        principal = principal_of(source)
        if _needs_group_check(source):
            await self._check_group(inbound, principal)
        if not self._access.allows(principal, Action.TALK, source):
            await self._pairing_requests.handle_unknown_sender(inbound)
            self._access.authorise(principal, Action.TALK, source)
        return principal.id

    def record_accepted(self, source: Source) -> None:
        """What came from there is durable, and will be answered."""
        if _needs_group_check(source):
            self._groups.record_accepted(source, now=self._clock.now())

    def check_operator(self, inbound: Inbound) -> PrincipalId:
        """As who somebody speaks who runs the gateway, into a chat of others. Raises
        `NotAllowed`."""
        principal = principal_of(inbound.source)
        self._access.authorise(principal, Action.OPERATE, inbound.source)
        return principal.id

    async def _check_group(self, inbound: Inbound, principal: Principal) -> None:
        if inbound.source.author is Author.OPERATOR:
            raise NotAllowed("a door brings the words of others, never those of the operator")
        try:
            self._groups.check(inbound, now=self._clock.now())
        except LoopDetected:
            if self._access.allows(principal, Action.TALK, inbound.source):
                await self._pairing_requests.refuse_with_notice(
                    inbound, _LOOP_NOTICE, reason=_LOOP_REASON
                )
                self._groups.record_loop_notice(inbound.source, now=self._clock.now())
            raise


def _needs_group_check(source: Source) -> bool:
    """Whether somebody else than the agent may be meant, or something else than a person talks."""
    return source.chat_type is not ChatType.DM or source.author is not Author.PERSON
