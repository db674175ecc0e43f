"""The bearer token: what a request brought as one, and whether it is the gateway's own."""

from aiohttp import web

from holdfast.core.secret import Secret


def has_token(request: web.Request, token: Secret) -> bool:
    given = bearer_token(request)
    return given is not None and token.matches(given)


def bearer_token(request: web.Request) -> str | None:
    """The token that the request brings, whoever's it is; None: it brings none."""
    kind, _, given = request.headers.get("Authorization", "").partition(" ")
    return given.strip() if kind.lower() == "bearer" else None
