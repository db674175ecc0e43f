"""The one question every entry asks: may this principal do this, here? Nobody may until told."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from holdfast.core.errors import NotAllowed
from holdfast.core.ids import PrincipalId
from holdfast.core.settings import PlatformSettings
from holdfast.core.source import Source


class Action(StrEnum):
    TALK = "talk"
    COMMAND = "command"
    OPERATE = "operate"  # commands about the gateway as a whole


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Who is asking. `vouched`: the platform itself checked a credential of ours."""

    id: PrincipalId
    vouched: bool


def principal_of(source: Source) -> Principal:
    name = f"{source.platform}:{source.account}:{source.user_id}"
    # The API and the page hand on only what came with the gateway's own token, or its cookie.
    return Principal(id=PrincipalId(name), vouched=source.platform in ("api", "web"))


class Authority:
    """Owns who is allowed; made from the config, never changed."""

    def __init__(self, platforms: Mapping[str, PlatformSettings]) -> None:
        # Whoever may run the gateway may talk to it. Not the other way round, and "*" does not
        # make an operator of everybody.
        self._allowed = {name: frozenset((*p.allow, *p.operators)) for name, p in platforms.items()}
        self._operators = {name: frozenset(p.operators) for name, p in platforms.items()}

    def authorise(self, principal: Principal, action: Action, source: Source) -> None:
        """Returns, or raises `NotAllowed` with the key that would allow it."""
        if self.may(principal, action, source):
            return
        key = "operators" if action is Action.OPERATE else "allow"
        raise NotAllowed(
            f"{source.user_id!r} may not {action} on {source.platform}: add the id to "
            f"platforms.{source.platform}.{key} in holdfast.toml to let them."
        )

    def operates(self, source: Source) -> bool:
        """Whether whoever asks from there may run the gateway."""
        return self.may(principal_of(source), Action.OPERATE, source)

    def may(self, principal: Principal, action: Action, source: Source) -> bool:
        if principal.vouched:
            return True
        if action is Action.OPERATE:
            return source.user_id in self._operators.get(source.platform, ())
        allowed = self._allowed.get(source.platform, frozenset())
        return source.user_id in allowed or "*" in allowed
