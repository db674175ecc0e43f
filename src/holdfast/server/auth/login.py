"""Browser login: one-time links, the signed cookie, and the routes `/login` and `/logout`."""

import base64
import hashlib
import hmac
import logging
import secrets
from html import escape
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from holdfast.core.ports.runtime import Clock
from holdfast.core.secrets import Secret
from holdfast.core.text.translation import _, current_language
from holdfast.platforms.api.http import bearer_token
from holdfast.server.auth.rate_limit import LoginRateLimiter, retry_after_header
from holdfast.server.auth.viewers import OWNER, HttpPrincipal, Viewer, ViewerTokens

log = logging.getLogger(__name__)


_LINK_LIFETIME = 600.0
_COOKIE_LIFETIME = 30 * 24 * 3600
_MAX_LINKS = 16
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class BrowserLogin:
    """Owns the login links that were created and not used; they are lost with the process.

    The cookie is a signed date of expiry: nothing is stored of it, so it survives a restart. Its
    key is derived from the token, so a new token ends every login. The cookie of a viewer also
    names the viewer, and is invalid once the viewer's token is revoked.
    """

    def __init__(self, token: Secret, *, viewers: ViewerTokens, clock: Clock) -> None:
        self._token = token
        self._clock = clock
        self.viewers = viewers
        self.token_limiter = LoginRateLimiter(clock=clock)
        self.link_limiter = LoginRateLimiter(clock=clock)
        self._key = hmac.digest(b"holdfast login cookie v1", token.reveal().encode(), "sha256")
        # Browsers share the cookies of a host between its ports: two gateways on one machine need
        # two names.
        self.cookie_name = f"holdfast_{hmac.digest(self._key, b'name', 'sha256').hex()[:8]}"
        # By the digest of the key: when it expires, and the id of the viewer, "" for the owner.
        self._links: dict[bytes, tuple[float, str]] = {}

    def create_link(self, address: str, *, viewer: Viewer | None = None) -> str:
        """A link that opens the page once, within ten minutes; for the owner, or for a viewer."""
        key = secrets.token_urlsafe(24)
        while len(self._links) >= _MAX_LINKS:
            del self._links[next(iter(self._links))]
        ends = self._clock.monotonic() + _LINK_LIFETIME
        self._links[_digest(key)] = ends, "" if viewer is None else viewer.id
        return f"{address}/login?key={key}"

    def redeem(self, key: str) -> HttpPrincipal | None:
        """Use up a link; None: there is none. Looked up by digest, so that the time it takes
        reveals nothing."""
        ends, viewer_id = self._links.pop(_digest(key), (0.0, ""))
        return self._principal_by_id(viewer_id) if ends > self._clock.monotonic() else None

    def make_cookie(self, principal: HttpPrincipal) -> str:
        payload = str(int(self._clock.now()) + _COOKIE_LIFETIME)
        if principal.id:
            payload = f"{payload}.{principal.id}"
        return f"{payload}.{self._sign(payload)}"

    def set_cookie(
        self, response: web.StreamResponse, principal: HttpPrincipal, *, secure: bool
    ) -> None:
        """`secure`: the request came over TLS, at least to the proxy; on loopback there is none."""
        response.set_cookie(
            self.cookie_name,
            self.make_cookie(principal),
            max_age=_COOKIE_LIFETIME,
            secure=secure,
            httponly=True,
            samesite="Strict",
            path="/",
        )

    def cookie_principal(self, request: web.Request) -> HttpPrincipal | None:
        """The principal of the cookie, if it is one of ours and has not expired."""
        payload, _mark, signature = request.cookies.get(self.cookie_name, "").rpartition(".")
        expires, _mark, viewer_id = payload.partition(".")
        if not (expires.isascii() and expires.isdigit() and len(expires) < 12):
            return None
        right = hmac.compare_digest(
            signature.encode("utf-8", "replace"), self._sign(payload).encode()
        )
        return (
            self._principal_by_id(viewer_id) if right and int(expires) > self._clock.now() else None
        )

    def token_principal(self, request: web.Request) -> HttpPrincipal | None:
        """The principal of the token in `Authorization: Bearer …`."""
        token = bearer_token(request)
        if token is None:
            return None
        if self._token.matches(token):
            return OWNER
        viewer = self.viewers.by_token(token)
        return None if viewer is None else viewer.principal

    def _principal_by_id(self, viewer_id: str) -> HttpPrincipal | None:
        if not viewer_id:
            return OWNER
        viewer = self.viewers.by_id(viewer_id)
        return None if viewer is None else viewer.principal

    def _sign(self, payload: str) -> str:
        signature = hmac.digest(self._key, payload.encode("utf-8", "replace"), "sha256")
        return base64.urlsafe_b64encode(signature).decode().rstrip("=")


def is_same_origin(request: web.Request) -> bool:
    """Whether a browser sent this from our own page; a cookie alone does not prove that.

    Another port of this machine is the same site to a browser, so SameSite does not exclude it.
    """
    site = request.headers.get("Sec-Fetch-Site")
    if request.method in _SAFE_METHODS:
        return site in (None, "same-origin", "none")
    origin = request.headers.get(hdrs.ORIGIN)
    if origin is None:
        return site == "same-origin"
    try:
        return urlsplit(origin).netloc == request.host and site in (None, "same-origin")
    except ValueError:
        return False


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


_HTML = """<!doctype html>
<html lang="{language}"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Holdfast: {login}</title>
<h1>{title}</h1>
<p>{text}</p>
<p>{remedy}</p>
</html>
"""


class LoginRoutes:
    """Serves `/login` and `/logout`."""

    def __init__(self, login: BrowserLogin) -> None:
        self._login = login

    def routes(self) -> list[web.RouteDef]:
        # HEAD does not use up the link: link previews send it.
        return [
            web.get("/login", self._open_link, allow_head=False),
            web.post("/login", self._log_in_with_token),
            web.post("/logout", self._log_out),
        ]

    async def _open_link(self, request: web.Request) -> web.Response:
        blocked = self._login.link_limiter.blocked_for(request.remote)
        key = request.query.get("key")
        principal = None if key is None else self._login.redeem(key)
        if principal is not None:
            return self._log_in(request, principal, _redirect_to_page())
        if self._login.cookie_principal(request):
            return _redirect_to_page()
        if key is None:
            return _html_page(
                401, _("Please log in"), _("This page opens with a link that works once.")
            )
        # Only wrong keys are blocked off: no page of elsewhere can lock the owner out by trying.
        if blocked:
            page = _html_page(429, _("Too many attempts"), _("Wait a few seconds, then try again."))
            page.headers.update(retry_after_header(blocked))
            return page
        self._login.link_limiter.record_failure(request.remote, key)
        return _html_page(
            403,
            _("This link is no longer valid"),
            _("A link works once, within ten minutes."),
        )

    async def _log_in_with_token(self, request: web.Request) -> web.Response:
        """Log in with a token instead of a link, as the form of the page does."""
        if not is_same_origin(request):
            return _not_same_origin()
        principal = self._login.token_principal(request)
        if principal is None:
            text = _("This is not a token of this gateway, or it was revoked.")
            return web.Response(
                status=401, text=f"{text}\n", headers={"WWW-Authenticate": "Bearer"}
            )
        response = web.Response(status=204, headers={"Cache-Control": "no-store"})
        return self._log_in(request, principal, response)

    def _log_in(
        self, request: web.Request, principal: HttpPrincipal, response: web.Response
    ) -> web.Response:
        self._login.set_cookie(response, principal, secure=request.secure)
        log.info(
            "Browser at %s logged in as %s",
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
    text = _("This request must come from the gateway's own page.")
    return web.Response(status=403, text=f"{text}\n")


def _redirect_to_page() -> web.Response:
    """A redirect, so that the key is neither in the history nor in a referrer."""
    return web.Response(status=303, headers={"Location": "/", "Cache-Control": "no-store"})


def _html_page(status: int, title: str, text: str) -> web.Response:
    return web.Response(
        status=status,
        text=_HTML.format(
            language=current_language(),
            login=escape(_("login")),
            title=escape(title),
            text=escape(text),
            remedy=escape(
                _("Run {command} on the machine of the gateway, and open the link that it prints.")
            ).format(command="<code>holdfast link</code>"),
        ),
        content_type="text/html",
        headers={"Cache-Control": "no-store"},
    )
