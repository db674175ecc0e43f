"""An OAuth token server over real HTTP, which also tells Dovecot whose a token is.

https://www.rfc-editor.org/rfc/rfc6749 (sections 4.4, 5 and 6) for requests and responses,
https://www.rfc-editor.org/rfc/rfc7662 for token introspection.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import count

from aiohttp import web

ID, SECRET = "app-1", "app-secret"


class TokenServer:
    """Owns who has which token, and every question that was asked."""

    def __init__(self, *, of: str, expires_in: object = 3600) -> None:
        self.mailbox = of  # the address that tokens are for
        self.expires_in = expires_in  # seconds, as a number or a string
        self.refresh_tokens = {"r0"}  # tokens that are good for others
        self.access_tokens: dict[str, str] = {}  # access tokens, and whose they are
        self.requests: list[Mapping[str, str]] = []
        self.rotates = False
        self.status = 0  # of all answers, where it is not well
        self._numbers = count(1)

    @asynccontextmanager
    async def serving(self, port: int) -> AsyncIterator[str]:
        """The address that tokens are asked for at."""
        app = web.Application()
        app.add_routes([web.post("/token", self._token), web.post("/introspect", self._introspect)])
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", port).start()
            yield f"http://127.0.0.1:{port}/token"
        finally:
            await runner.cleanup()

    def is_valid_token(self, user: str, token: str) -> bool:
        return self.access_tokens.get(token) == user

    async def _token(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.requests.append(form)
        if self.status:
            return web.Response(status=self.status, text="<html>not now</html>")
        wrong = self._wrong(form)
        if wrong:
            error = {
                "error": wrong,
                "error_description": "AADSTS70008: it has expired.\r\nTrace: 1",
            }
            return web.json_response(error, status=400)
        number = next(self._numbers)
        self.access_tokens[f"a{number}"] = self.mailbox
        granted = {
            "token_type": "Bearer",
            "access_token": f"a{number}",
            "expires_in": self.expires_in,
        }
        if self.rotates:
            # https://learn.microsoft.com/en-us/entra/identity-platform/refresh-tokens: each use
            # brings another, and the old one is not withdrawn by that.
            self.refresh_tokens.add(f"r{number}")
            granted["refresh_token"] = f"r{number}"
        return web.json_response(granted)

    def _wrong(self, form: Mapping[str, str]) -> str:
        if form.get("client_id") != ID:
            return "invalid_client"
        if form["grant_type"] == "client_credentials":
            return "" if form.get("client_secret") == SECRET else "invalid_client"
        return "" if form.get("refresh_token") in self.refresh_tokens else "invalid_grant"

    async def _introspect(self, request: web.Request) -> web.Response:
        token = str((await request.post())["token"])
        whose = self.access_tokens.get(token)
        return web.json_response({"active": whose is not None, "username": whose or ""})
