"""Login: one-time links that set a cookie, and the cookie that stands for the token."""

import base64
import hashlib
import hmac
import secrets
from collections import deque
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from holdfast.core.ports import Clock
from holdfast.core.secret import Secret
from holdfast.platforms.api.bearer import bears

_LINK_LIVES = 600.0
_COOKIE_LIVES = 30 * 24 * 3600
_MOST_LINKS = 16
_TRIES, _WITHIN = 10, 60.0  # wrong keys that are borne with, and in how many seconds
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Login:
    """Owns the links that were given out and not used; they die with the process.

    The cookie is a signed date of expiry: nothing is kept of it, so it outlives a restart, and
    its key is drawn from the token, so that a new token ends every login.
    """

    def __init__(self, token: Secret, *, clock: Clock) -> None:
        self._token = token
        self._clock = clock
        self._key = hmac.digest(b"holdfast login cookie v1", token.reveal().encode(), "sha256")
        # A browser keeps the cookies of a machine together, whatever the port: two gateways on
        # one machine need two names.
        self.cookie_name = f"holdfast_{hmac.digest(self._key, b'name', 'sha256').hex()[:8]}"
        self._links: dict[bytes, float] = {}  # digest of the key, and when it ends
        self._failures: deque[float] = deque(maxlen=_TRIES)

    def link(self, address: str) -> str:
        """A link that opens the page once, within ten minutes."""
        key = secrets.token_urlsafe(24)
        while len(self._links) >= _MOST_LINKS:
            del self._links[next(iter(self._links))]
        self._links[_digest(key)] = self._clock.monotonic() + _LINK_LIVES
        return f"{address}/login?key={key}"

    def throttled(self) -> bool:
        """Whether too many wrong keys were tried just now to bear with another one."""
        full = len(self._failures) == _TRIES
        return full and self._clock.monotonic() - self._failures[0] < _WITHIN

    def redeem(self, key: str) -> bool:
        """Use a link up. Compared by digest, so that how long it takes tells nothing."""
        ends = self._links.pop(_digest(key), 0.0)
        if ends > self._clock.monotonic():
            return True
        self._failures.append(self._clock.monotonic())
        return False

    def cookie(self) -> str:
        expires = int(self._clock.now()) + _COOKIE_LIVES
        return f"{expires}.{self._sign(str(expires))}"

    def set_cookie(self, response: web.StreamResponse) -> None:
        # Not Secure: on loopback there is no TLS. Behind a proxy SameSite and HttpOnly still hold.
        response.set_cookie(
            self.cookie_name,
            self.cookie(),
            max_age=_COOKIE_LIVES,
            httponly=True,
            samesite="Strict",
            path="/",
        )

    def knows(self, request: web.Request) -> bool:
        """Whether the request brings a cookie of ours that is still good."""
        expires, _, signature = request.cookies.get(self.cookie_name, "").partition(".")
        if not (expires.isascii() and expires.isdigit() and len(expires) < 12):
            return False
        right = hmac.compare_digest(
            signature.encode("utf-8", "replace"), self._sign(expires).encode()
        )
        return right and int(expires) > self._clock.now()

    def bears_token(self, request: web.Request) -> bool:
        return bears(request, self._token)

    def _sign(self, expires: str) -> str:
        signature = hmac.digest(self._key, expires.encode(), "sha256")
        return base64.urlsafe_b64encode(signature).decode().rstrip("=")


def from_own_page(request: web.Request) -> bool:
    """Whether a browser sent this from a page of ours; a cookie alone does not say that.

    Another port of this machine is the same site to a browser, so SameSite does not keep it out.
    """
    site = request.headers.get("Sec-Fetch-Site")
    if request.method in _SAFE:
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
