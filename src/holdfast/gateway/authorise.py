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
        self._allowed = {name: frozenset(p.allow) for name, p in platforms.items()}

    def authorise(self, principal: Principal, action: Action, source: Source) -> None:
        """Returns, or raises `NotAllowed` with the key that would allow it."""
        if principal.vouched:
            return
        allowed = self._allowed.get(source.platform, frozenset())
        if source.user_id in allowed or "*" in allowed:
            return
        raise NotAllowed(
            f"{source.user_id!r} may not {action} on {source.platform}: add the id to "
            f"platforms.{source.platform}.allow in holdfast.toml to let them."
        )
