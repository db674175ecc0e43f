"""The bearer token: whether a request brought the gateway's own."""

from aiohttp import web

from holdfast.core.secret import Secret


def bears(request: web.Request, token: Secret) -> bool:
    kind, _, given = request.headers.get("Authorization", "").partition(" ")
    return kind.lower() == "bearer" and token.matches(given.strip())
