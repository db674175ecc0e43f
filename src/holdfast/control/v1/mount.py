"""Mounting `/api/v1`: the table as routes, and an answer for what is not in it."""

from collections.abc import Iterable

from aiohttp import web

from holdfast.control.v1.endpoint import PREFIX, Endpoint, guarded
from holdfast.control.v1.refusals import Refused, not_found
from holdfast.control.v1.room import Room
from holdfast.control.v1.table import ENDPOINTS
from holdfast.control.visitor import Visitor


def routes(room: Room) -> list[web.RouteDef]:
    """In an order in which a fixed path goes before one with a name in it."""
    ordered = sorted(ENDPOINTS, key=lambda endpoint: endpoint.path.count("{"))

    async def nowhere(request: web.Request) -> web.StreamResponse:
        async def refuse(visitor: Visitor) -> web.StreamResponse:
            raise _missed(request, ENDPOINTS)

        return await guarded(room, request, refuse, looks=True)

    mounted = [endpoint.mount(room) for endpoint in ordered]
    return [*mounted, web.route("*", f"{PREFIX}/{{rest:.*}}", nowhere)]


def _missed(request: web.Request, endpoints: Iterable[Endpoint]) -> Refused:
    parts = request.path.removeprefix(PREFIX).split("/")
    allowed = {endpoint.method for endpoint in endpoints if _fits(endpoint.path, parts)}
    if not allowed:
        text = f"there is no {request.path} here; GET {PREFIX}/openapi.json has all there is."
        return not_found(text)
    names = ", ".join(sorted(allowed))
    text = f"{request.path} takes {names}, not {request.method}."
    refused = Refused(405, text, code="method_not_allowed")
    refused.headers["Allow"] = names
    return refused


def _fits(path: str, parts: list[str]) -> bool:
    wanted = path.split("/")
    return len(wanted) == len(parts) and all(
        part and (want == part or want.startswith("{"))
        for want, part in zip(wanted[1:], parts[1:], strict=True)
    )
