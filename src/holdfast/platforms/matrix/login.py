"""Logging in: by a password, once, or by an access token that somebody has made."""

import asyncio
import logging
from pathlib import Path

import msgspec

from holdfast.core.config.settings import table_of
from holdfast.core.errors import ConnectRefused, Refused, StoreFailing
from holdfast.core.secret import Secret
from holdfast.platforms.matrix.api import BadToken, ClientApi
from holdfast.platforms.matrix.plugin import MatrixSettings
from holdfast.platforms.matrix.wire import LoggedIn, Whoami
from holdfast.system.state_file import replace

log = logging.getLogger(__name__)

_DEVICE = "Holdfast"  # as people see it in the list of sessions


async def log_in(
    api: ClientApi, user: str, password: Secret, *, device_id: str = "", name: str = _DEVICE
) -> LoggedIn:
    """https://spec.matrix.org/latest/client-server-api/#post_matrixclientv3login"""
    body = {
        "type": "m.login.password",
        "identifier": {"type": "m.id.user", "user": user},
        "password": password.reveal(),
        "initial_device_display_name": name,
        **({"device_id": device_id} if device_id else {}),
    }
    return await api.ask("POST", "/login", LoggedIn, body=body)


class Login:
    """Owns the file of what a login gave. The device is kept with it: encrypted rooms know a
    device, and a server knows by it which message was sent twice."""

    def __init__(
        self,
        api: ClientApi,
        *,
        account: str,
        settings: MatrixSettings,
        token: Secret | None,
        password: Secret | None,
        path: Path,
    ) -> None:
        self._api = api
        self._table = table_of("matrix", account)
        self._user = settings.user
        self._token = token
        self._password = password
        self._path = path

    @property
    def by_password(self) -> bool:
        """A token that holds no longer can then be replaced without a person."""
        return self._password is not None

    async def enter(self) -> Whoami:
        """Who we are. Raises `ConnectRefused`, or a `SendError` where it may go better later."""
        if self._token is not None:
            return await self._by_token(self._token)
        kept = await asyncio.to_thread(_read, self._path)
        if kept is None or kept.user_id != self._user:
            return await self._log_in("")
        self._api.speak_as(kept.access_token)
        try:
            return await self._api.whoami()
        except BadToken:
            self._api.speak_as("")
            return await self._log_in(kept.device_id)

    async def _by_token(self, token: Secret) -> Whoami:
        self._api.speak_as(token.reveal())
        try:
            me = await self._api.whoami()
        except BadToken as error:
            raise self.refused(error) from error
        if me.user_id != self._user:
            raise ConnectRefused(
                f"the access token is that of {me.user_id}, and not of {self._user}",
                remedy=f"set {self._table}.user or {self._table}.token",
            )
        return me

    def refused(self, error: BadToken) -> ConnectRefused:
        return ConnectRefused(
            f"{error}: the access token is wrong, or was revoked",
            remedy=f"get a new one (docs/matrix.md says how) and set {self._table}.token, or set "
            f"{self._table}.password in its place",
        )

    async def _log_in(self, device_id: str) -> Whoami:
        assert self._password is not None, "the settings want a token or a password"
        try:
            given = await log_in(self._api, self._user, self._password, device_id=device_id)
        except (Refused, BadToken) as error:
            raise ConnectRefused(
                f"{self._user} cannot log in: {error}",
                remedy=f"set {self._table}.user and {self._table}.password to what a client logs "
                "in with",
            ) from error
        await self._keep(given)
        self._api.speak_as(given.access_token)
        return Whoami(user_id=given.user_id, device_id=given.device_id)

    async def _keep(self, given: LoggedIn) -> None:
        try:
            await asyncio.to_thread(replace, self._path, msgspec.json.encode(given))
        except OSError as error:
            raise StoreFailing(f"{self._path} cannot be written: {error}") from error


def _read(path: Path) -> LoggedIn | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=LoggedIn)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        log.warning(
            "%s makes no sense (%s): the account logs in again, as a new device.",
            path,
            error,
            extra={"action": "login_unread"},
        )
        return None
