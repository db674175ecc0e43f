"""The gateway as a whole over HTTP: how it is, what it understands, and what was ever said."""

from typing import Annotated

import msgspec
from aiohttp import web

from holdfast import __version__
from holdfast.control.metrics import balance
from holdfast.control.v1.endpoint import Call, NoQuery
from holdfast.control.v1.room import Room
from holdfast.control.v1.views import CommandView, Found, Status
from holdfast.core.commands import CommandSpec

_AROUND = 80  # characters on each side of what was found


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    q: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 20


async def status(room: Room, call: Call[NoQuery, None]) -> web.Response:
    facts = room.facts()
    view = Status(
        state=facts["state"],
        version=__version__,
        address=facts["address"],
        model=room.model(),
        sandboxed=facts["sandboxed"],
        why_unsandboxed=facts["why_unsandboxed"],
        ledger=balance(await room.store.ledger()),
        turns=facts["turns"],
        platforms=facts["platforms"],
    )
    return room.say(view)


async def commands(room: Room, call: Call[NoQuery, None]) -> web.Response:
    listed = room.gateway.desk.listed()
    return room.say([_shown(command) for command in listed])


def _shown(command: CommandSpec) -> CommandView:
    return CommandView(name=command.name, help=command.help, arguments=command.arguments)


async def search(room: Room, call: Call[SearchQuery, None]) -> web.Response:
    found = await room.store.search(call.query.q, limit=call.query.limit)
    return room.say(
        [
            Found(
                session=room.view_of(each.session),
                seq=each.seq,
                at=each.created_at,
                snippet=_snippet(each.text, call.query.q),
            )
            for each in found
        ]
    )


def _snippet(text: str, words: str) -> str:
    at = max(text.lower().find(words.lower()), 0)
    first, last = max(at - _AROUND, 0), at + len(words) + _AROUND
    piece = " ".join(text[first:last].split())
    return f"{'…' if first else ''}{piece}{'…' if last < len(text) else ''}"
