"""The login's routes, and the few words for whoever comes with a link that is used up."""

import logging
from html import escape

from aiohttp import web

from holdfast.server.auth.login import BrowserLogin, is_same_origin
from holdfast.server.auth.rate_limit import retry_after_header
from holdfast.server.auth.visitor import HttpPrincipal

log = logging.getLogger(__name__)

_HTML = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Holdfast: login</title>
<h1>{title}</h1>
<p>{text}</p>
<p>Run <code>holdfast link</code> where the gateway runs, and open the link it prints.</p>
</html>
"""


class LoginRoutes:
    """Serves `/login` and `/logout`."""

    def __init__(self, login: BrowserLogin) -> None:
        self._login = login

    def routes(self) -> list[web.RouteDef]:
        # HEAD is not the link's use: programs that look at links before people do send it.
        return [
            web.get("/login", self._open_link, allow_head=False),
            web.post("/login", self._log_in_with_token),
            web.post("/logout", self._log_out),
        ]

    async def _open_link(self, request: web.Request) -> web.Response:
        held = self._login.link_limiter.blocked_for(request.remote)
        key = request.query.get("key")
        visitor = None if key is None else self._login.redeem(key)
        if visitor is not None:
            return self._log_in(request, visitor, _redirect_to_page())
        if self._login.cookie_principal(request):
            return _redirect_to_page()
        if key is None:
            return _html_page(401, "Please log in", "The page opens with a link that works once.")
        # Only wrong keys are held off: no page of elsewhere can lock the owner out by trying.
        if held:
            page = _html_page(429, "Too many tries", "Wait a few seconds, then try again.")
            page.headers.update(retry_after_header(held))
            return page
        self._login.link_limiter.record_failure(request.remote, key)
        return _html_page(
            403, "This link does not work any more", "A link works once, within ten minutes."
        )

    async def _log_in_with_token(self, request: web.Request) -> web.Response:
        """A token in the place of a link, as the page's form sends it."""
        if not is_same_origin(request):
            return _not_same_origin()
        visitor = self._login.token_principal(request)
        if visitor is None:
            text = "this is no token of this gateway, or it was revoked\n"
            return web.Response(status=401, text=text, headers={"WWW-Authenticate": "Bearer"})
        response = web.Response(status=204, headers={"Cache-Control": "no-store"})
        return self._log_in(request, visitor, response)

    def _log_in(
        self, request: web.Request, principal: HttpPrincipal, response: web.Response
    ) -> web.Response:
        self._login.set_cookie(response, principal, secure=request.secure)
        log.info(
            "A browser at %s has logged in: %s",
            request.remote,
            principal.name or principal.role,
            extra={"action": "logged_in"},
        )
        return response

    async def _log_out(self, request: web.Request) -> web.Response:
        if not is_same_origin(request):
            return _not_same_origin()
        response = web.Response(status=204)
        response.del_cookie(self._login.cookie_name, path="/", httponly=True, samesite="Strict")
        return response


def _not_same_origin() -> web.Response:
    return web.Response(status=403, text="this must come from the gateway's own page\n")


def _redirect_to_page() -> web.Response:
    """By a redirect, so that the key is neither in the history nor in a referrer."""
    return web.Response(status=303, headers={"Location": "/", "Cache-Control": "no-store"})


def _html_page(status: int, title: str, text: str) -> web.Response:
    return web.Response(
        status=status,
        text=_HTML.format(title=escape(title), text=escape(text)),
        content_type="text/html",
        headers={"Cache-Control": "no-store"},
    )
