"""Browser login: one-time links, the signed cookie, and the routes `/login` and `/logout`."""

import base64
import hashlib
import hmac
import logging
import secrets
from html import escape
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from aiohttp import hdrs, web

from holdfast.core.errors import HoldfastError
from holdfast.core.people.api_tokens import TokenScope
from holdfast.core.ports.runtime import Clock
from holdfast.core.secrets import Secret
from holdfast.core.text.translation import _, current_language
from holdfast.platforms.api.http import bearer_token
from holdfast.server.auth.rate_limit import LoginRateLimiter, retry_after_header
from holdfast.server.auth.tokens import OWNER, ApiToken, ApiTokens, HttpPrincipal, TokenError
from holdfast.system import state_file

log = logging.getLogger(__name__)


_LINK_LIFETIME = 600.0
_COOKIE_LIFETIME = 30 * 24 * 3600
_MAX_LINKS = 16
PAGE_SCOPES = frozenset({TokenScope.READ, TokenScope.ADMIN})  # whose tokens open the page
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class BrowserLogin:
    """Owns the login links that were created and not used, which are lost with the process, and
    the logins that were ended before their time.

    The cookie is a signed date of expiry with the id of the login: nothing is stored of it until
    it is ended, so it survives a restart. Its key is random and stored (`key`); the token is part
    of it, so a new token ends every login. A cookie that was made with a created token names that
    token, and is invalid once the token is.
    """

    def __init__(
        self, token: Secret, *, tokens: ApiTokens, key: Secret, ended: Path, clock: Clock
    ) -> None:
        """`ended`: the file of the logins that were ended."""
        self._token = token
        self._clock = clock
        self.tokens = tokens
        self._ended_file = ended
        self._ended = _load_ended(ended)
        self.token_limiter = LoginRateLimiter(clock=clock)
        self.link_limiter = LoginRateLimiter(clock=clock)
        self._key = hmac.digest(key.reveal().encode(), token.reveal().encode(), "sha256")
        # Browsers share the cookies of a host between its ports: two gateways on one machine need
        # two names.
        self.cookie_name = f"holdfast_{hmac.digest(self._key, b'name', 'sha256').hex()[:8]}"
        # By the digest of the key: when it expires, and the id of the token, "" for the owner.
        self._links: dict[bytes, tuple[float, str]] = {}

    def create_link(self, address: str, *, token: ApiToken | None = None) -> str:
        """A link that opens the page once, within ten minutes; for the owner, or with a token."""
        if token is not None and token.scope not in PAGE_SCOPES:
            raise TokenError(
                "The token {name!r} has the scope {scope}, which cannot open the page.",
                name=token.name,
                scope=token.scope,
            )
        key = secrets.token_urlsafe(24)
        while len(self._links) >= _MAX_LINKS:
            del self._links[next(iter(self._links))]
        ends = self._clock.monotonic() + _LINK_LIFETIME
        self._links[_digest(key)] = ends, "" if token is None else token.id
        return f"{address}/login?key={key}"

    def redeem(self, key: str) -> HttpPrincipal | None:
        """Use up a link; None: there is none. Looked up by digest, so that the time it takes
        reveals nothing."""
        ends, token_id = self._links.pop(_digest(key), (0.0, ""))
        return self._principal_by_id(token_id) if ends > self._clock.monotonic() else None

    def make_cookie(self, principal: HttpPrincipal) -> str:
        payload = f"{int(self._clock.now()) + _COOKIE_LIFETIME}.{secrets.token_hex(8)}"
        if principal.client is not None:
            payload = f"{payload}.{principal.client.id}"
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
        expires, _mark, ids = payload.partition(".")
        login, _mark, token_id = ids.partition(".")
        if not (expires.isascii() and expires.isdigit() and len(expires) < 12):
            return None
        if (
            not self.is_signed(payload, signature)
            or int(expires) <= self._clock.now()
            or login in self._ended
        ):
            return None
        found = self._principal_by_id(token_id)
        return None if found is None else msgspec.structs.replace(found, login=login)

    async def end_login(self, login: str) -> None:
        """End a login: durable when this returns, also for copies of its cookie and for what it
        has open. Raises `TransientStoreError`."""
        now = self._clock.now()
        left = {each: until for each, until in self._ended.items() if until > now}
        ended = {**left, login: now + _COOKIE_LIFETIME}
        self._ended = ended
        self.tokens.disconnect(login)
        await state_file.save(self._ended_file, ended)

    def token_principal(self, request: web.Request) -> HttpPrincipal | None:
        """The principal of the token in `Authorization: Bearer …`."""
        token = bearer_token(request)
        if token is None:
            return None
        if self._token.matches(token):
            return OWNER
        found = self.tokens.by_token(token)
        return None if found is None else found.principal

    def _principal_by_id(self, token_id: str) -> HttpPrincipal | None:
        if not token_id:
            return OWNER
        found = self.tokens.by_id(token_id)
        return None if found is None else found.principal

    def is_signed(self, payload: str, signature: str) -> bool:
        given, right = signature.encode("utf-8", "replace"), self._sign(payload).encode()
        return hmac.compare_digest(given, right)

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


def _load_ended(path: Path) -> dict[str, float]:
    """By id: until when the cookie would be valid. An invalid file is an error: to start without
    it would make those cookies valid again."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, float])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        raise HoldfastError(
            "{file} cannot be read ({error}). Remove it together with {key}, which ends every "
            "login.",
            file=path,
            error=error,
            key=path.with_name("cookie_key"),
        ) from None


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
        if principal.scope not in PAGE_SCOPES:
            text = _("A token of the scope {scope} cannot open the page.")
            return web.Response(status=403, text=text.format(scope=principal.scope) + "\n")
        response = web.Response(status=204, headers={"Cache-Control": "no-store"})
        return self._log_in(request, principal, response)

    def _log_in(
        self, request: web.Request, principal: HttpPrincipal, response: web.Response
    ) -> web.Response:
        self._login.set_cookie(response, principal, secure=request.secure)
        log.info(
            "Browser at %s logged in as %s",
            request.remote,
            principal.name or "the owner",
            extra={"action": "logged_in"},
        )
        return response

    async def _log_out(self, request: web.Request) -> web.Response:
        if not is_same_origin(request):
            return _not_same_origin()
        principal = self._login.cookie_principal(request)
        if principal is not None:
            await self._login.end_login(principal.login)
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
