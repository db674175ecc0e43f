"""The operator's voice: as whose word, and from where, something said over HTTP comes in."""

import msgspec

from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import Accepted, Inbound
from holdfast.core.messages.outbox import Address
from holdfast.core.messages.source import Author, Source, is_shared, parse_route
from holdfast.core.sessions.session import SessionRow
from holdfast.core.turns.subagent import INTERNAL_PLATFORM
from holdfast.gateway.gateway import Gateway
from holdfast.gateway.sessions.resolver import route_of
from holdfast.server.api.errors import conflict

_TOKEN_PLATFORMS = ("web", "api")  # platforms whose messages come in by the gateway's own token
_OPERATOR = "operator"


async def current_session_source(gateway: Gateway, row: SessionRow) -> Source:
    """Where a message to this session comes from; refused where it would not come to it."""
    pointed = gateway.lanes.session_of(row.route)
    if not row.current or (pointed is not None and pointed != row.id):
        why = "was suspended" if row.suspended else "is over: its chat has gone on to another"
        raise conflict(
            f"session {row.id} {why}. It can be read, not spoken to; POST "
            f"/api/v1/sessions/{row.id}/resume goes back to it.",
            code="not_current",
        )
    return await session_source(gateway, row)


async def session_source(gateway: Gateway, row: SessionRow) -> Source:
    """The place of a session, also of one that its chat has left. Of a chat on another platform
    it is the operator who speaks there, and says so."""
    platform, account, kind, chat = parse_route(row.route)
    if platform == INTERNAL_PLATFORM:
        raise conflict(
            f"session {row.id} is the work of an agent for another, or of a job: speak to that.",
            code="not_ours",
        )
    if platform in _TOKEN_PLATFORMS:
        user, author = "owner", Author.PERSON
    else:
        user, author = _user_of(row, platform, account), Author.OPERATOR
    plain = Source(
        platform=platform,
        account=account,
        chat_id=chat,
        chat_type=kind,
        user_id=user,
        author=author,
    )
    return _check_source(
        gateway,
        row,
        plain if platform in _TOKEN_PLATFORMS else await _operator_source(gateway, row.id, plain),
    )


async def accept_message(gateway: Gateway, inbound: Inbound) -> Accepted:
    """Durable when this returns, and admitted like every message."""
    gate = gateway.intake
    if inbound.source.author is Author.OPERATOR:
        return await gate.accept_from_operator(inbound)
    return await gate.accept(inbound)


def _user_of(row: SessionRow, platform: str, account: str) -> str:
    whose = (row.principal or "").removeprefix(f"{platform}:{account}:")
    return whose or _OPERATOR


async def _operator_source(gateway: Gateway, session_id: SessionId, plain: Source) -> Source:
    """The source that last spoke there, which knows the thread and whose session it is. In one
    that people share nobody is spoken for. What was pruned is had from the route."""
    known = await gateway.services.store.last_source(session_id)
    if known is None:
        return plain
    said = msgspec.structs.replace(known, author=Author.OPERATOR, message_id=None)
    settings = gateway.services.settings.sessions
    groups, threads = settings.group_sessions_per_user, settings.thread_sessions_per_user
    if is_shared(known, groups, threads):
        return msgspec.structs.replace(said, user_id=_OPERATOR, user_name=None)
    return said


def _check_source(gateway: Gateway, row: SessionRow, source: Source) -> Source:
    address = Address(platform=source.platform, account=source.account, chat_id=source.chat_id)
    if source.platform not in _TOKEN_PLATFORMS and gateway.services.platforms.find(address) is None:
        raise conflict(
            f"session {row.id} belongs to {source.platform} ({source.account}), which is not "
            "configured any more: nobody there would get the answer.",
            code="not_ours",
        )
    if route_of(source, gateway.services.settings.sessions) != row.route:
        raise conflict(
            f"session {row.id} has a name that only its own platform knows: speak to it there.",
            code="not_ours",
        )
    return source
