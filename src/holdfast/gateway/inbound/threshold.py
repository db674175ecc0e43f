"""The threshold: what of all that platforms bring is taken in, and what its writer hears else."""

from holdfast.core.errors import NotAllowed
from holdfast.core.ids import PrincipalId
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.source import Author, ChatType, Source
from holdfast.core.ports.protocols import Clock
from holdfast.gateway.inbound.authorise import Action, Authority, Principal, principal_of
from holdfast.gateway.inbound.groups import IN_A_ROW, PAUSE, Groups, LoopFound
from holdfast.gateway.inbound.strangers import Strangers

_LOOP = (
    f"I have answered {IN_A_ROW} messages in a row here with nobody else speaking, and stop now: "
    "it may be a program that answers me. I go on when somebody else speaks, or after "
    f"{PAUSE / 60:.0f} minutes of silence."
)
_REASON = "so many in a row that it may be a program"


class Threshold:
    """Owns nothing: asks whether a message is meant, and then whether its writer may."""

    def __init__(
        self, authority: Authority, groups: Groups, strangers: Strangers, *, clock: Clock
    ) -> None:
        self._authority = authority
        self._groups = groups
        self._strangers = strangers
        self._clock = clock

    async def cross(self, inbound: Inbound) -> PrincipalId:
        """Who it is that talks. Raises `NotAllowed`: whatever its writer was to hear of it is
        durable by then, and the message is to be acknowledged."""
        source = inbound.source
        principal = principal_of(source)
        if _among_others(source):
            await self._hear(inbound, principal)
        if not self._authority.may(principal, Action.TALK, source):
            await self._strangers.turn_away(inbound)
            self._authority.authorise(principal, Action.TALK, source)
        return principal.id

    def crossed(self, source: Source) -> None:
        """What came from there is durable, and will be answered."""
        if _among_others(source):
            self._groups.kept(source, now=self._clock.now())

    def speak(self, inbound: Inbound) -> PrincipalId:
        """As who somebody speaks who runs the gateway, into a chat of others. Raises
        `NotAllowed`."""
        principal = principal_of(inbound.source)
        self._authority.authorise(principal, Action.OPERATE, inbound.source)
        return principal.id

    async def _hear(self, inbound: Inbound, principal: Principal) -> None:
        if inbound.source.author is Author.OPERATOR:
            raise NotAllowed("a door brings the words of others, never those of the operator")
        try:
            self._groups.hear(inbound, now=self._clock.now())
        except LoopFound:
            if self._authority.may(principal, Action.TALK, inbound.source):
                await self._strangers.refuse(inbound, _LOOP, reason=_REASON)
                self._groups.told(inbound.source, now=self._clock.now())
            raise


def _among_others(source: Source) -> bool:
    """Whether somebody else than the agent may be meant, or something else than a person talks."""
    return source.chat_type is not ChatType.DM or source.author is not Author.PERSON
