"""Scopes of the tokens of the HTTP API, and what the client that has such a token may reach."""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from holdfast.core.ids import PrincipalId, SessionKey
from holdfast.core.messages.source import Source, build_session_key

OWNER_PLATFORMS = frozenset({"api", "web"})  # the gateway's own token or cookie is the owner's
_API = "api"
_CLIENT_PREFIX = "client/"  # of the user id and of the chats of a client
_OWNER = "owner"


class TokenScope(StrEnum):
    """What a token allows, the least first."""

    TALK = "talk"  # the OpenAI API, in sessions of its own, and reading those
    SESSIONS = "sessions"  # the same in the sessions that it names, and in no other
    READ = "read"  # sees everything and changes nothing
    ADMIN = "admin"  # everything, like the owner's own token


class ApiClient(msgspec.Struct, frozen=True, kw_only=True):
    """The holder of a token. `sessions`: names as `X-Holdfast-Session` has them."""

    id: str
    scope: TokenScope
    sessions: tuple[str, ...] = ()

    @property
    def user_id(self) -> str:
        """As whom it talks: an administrator as the owner, every other client as itself."""
        return _OWNER if self.scope is TokenScope.ADMIN else f"{_CLIENT_PREFIX}{self.id}"

    @property
    def principal(self) -> PrincipalId:
        return PrincipalId(f"{_API}:default:{self.user_id}")

    @property
    def chat_prefix(self) -> str:
        """Of the chats that the client opens: no other client can name one of them."""
        return f"{_CLIENT_PREFIX}{self.id}/" if self.scope is TokenScope.TALK else ""

    def may_talk_in(self, chat_id: str) -> bool:
        match self.scope:
            case TokenScope.TALK:
                return chat_id.startswith(self.chat_prefix)
            case TokenScope.SESSIONS:
                return chat_id in (f"session/{name}" for name in self.sessions)
            case TokenScope.READ:
                return False
        return True

    def may_read_session(self, route: SessionKey) -> bool:
        match self.scope:
            case TokenScope.TALK:
                return route.startswith(_route(self.chat_prefix).rstrip(":"))
            case TokenScope.SESSIONS:
                return route in self.named_routes()
        return True

    def named_routes(self) -> Iterable[SessionKey]:
        return [_route(f"session/{name}") for name in self.sessions]


def _route(chat_id: str) -> SessionKey:
    return build_session_key(Source(platform=_API, chat_id=chat_id, user_id=_OWNER))


def is_owner(platform: str, user_id: str) -> bool:
    """Whether a message came with the token or the cookie of the owner or an administrator."""
    return platform in OWNER_PLATFORMS and not user_id.startswith(_CLIENT_PREFIX)


def is_owner_principal(principal: str) -> bool:
    platform, _, rest = principal.partition(":")
    return is_owner(platform, rest.partition(":")[2])


def is_client_principal(principal: str) -> bool:
    platform, _, rest = principal.partition(":")
    return is_client(platform, rest.partition(":")[2])


def is_client(platform: str, user_id: str) -> bool:
    """Whether a message came with a token that allows only to talk."""
    return platform == _API and user_id.startswith(_CLIENT_PREFIX)
