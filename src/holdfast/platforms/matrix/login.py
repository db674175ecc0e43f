"""Logging in: by a password, once, or by an access token that somebody has made."""

import asyncio
import logging
from pathlib import Path

import msgspec

from holdfast.core.config.settings import account_table
from holdfast.core.errors import ConnectRefused, SendRejected, TransientStoreError
from holdfast.core.secret import Secret
from holdfast.platforms.matrix.api import MatrixBadToken, MatrixClient
from holdfast.platforms.matrix.plugin import MatrixSettings
from holdfast.platforms.matrix.wire import MatrixIdentity, MatrixLoginResponse
from holdfast.system.state_file import write_atomically

log = logging.getLogger(__name__)

_DEVICE_NAME = "Holdfast"  # as people see it in the list of sessions


async def log_in(
    client: MatrixClient,
    user: str,
    password: Secret,
    *,
    device_id: str = "",
    device_name: str = _DEVICE_NAME,
) -> MatrixLoginResponse:
    """https://spec.matrix.org/latest/client-server-api/#post_matrixclientv3login"""
    body = {
        "type": "m.login.password",
        "identifier": {"type": "m.id.user", "user": user},
        "password": password.reveal(),
        "initial_device_display_name": device_name,
        **({"device_id": device_id} if device_id else {}),
    }
    return await client.call_idempotent("POST", "/login", MatrixLoginResponse, body=body)


class MatrixLogin:
    """Owns the file of what a login gave. The device is kept with it: encrypted rooms know a
    device, and a server knows by it which message was sent twice."""

    def __init__(
        self,
        client: MatrixClient,
        *,
        account: str,
        settings: MatrixSettings,
        token: Secret | None,
        password: Secret | None,
        path: Path,
    ) -> None:
        self._client = client
        self._table = account_table("matrix", account)
        self._user = settings.user
        self._token = token
        self._password = password
        self._path = path

    @property
    def uses_password(self) -> bool:
        """A token that holds no longer can then be replaced without a person."""
        return self._password is not None

    async def authenticate(self) -> MatrixIdentity:
        """Who we are. Raises `ConnectRefused`, or a `SendError` where it may go better later."""
        if self._token is not None:
            return await self._authenticate_by_token(self._token)
        kept = await asyncio.to_thread(_load_login, self._path)
        if kept is None or kept.user_id != self._user:
            return await self._log_in_by_password("")
        self._client.set_token(kept.access_token)
        try:
            return await self._client.whoami()
        except MatrixBadToken:
            self._client.set_token("")
            return await self._log_in_by_password(kept.device_id)

    async def _authenticate_by_token(self, token: Secret) -> MatrixIdentity:
        self._client.set_token(token.reveal())
        try:
            me = await self._client.whoami()
        except MatrixBadToken as error:
            raise self.bad_token_error(error) from error
        if me.user_id != self._user:
            raise ConnectRefused(
                f"the access token is that of {me.user_id}, and not of {self._user}",
                remedy=f"set {self._table}.user or {self._table}.token",
            )
        return me

    def bad_token_error(self, error: MatrixBadToken) -> ConnectRefused:
        return ConnectRefused(
            f"{error}: the access token is wrong, or was revoked",
            remedy=f"get a new one (docs/matrix.md says how) and set {self._table}.token, or set "
            f"{self._table}.password in its place",
        )

    async def _log_in_by_password(self, device_id: str) -> MatrixIdentity:
        assert self._password is not None, "the settings want a token or a password"
        try:
            given = await log_in(self._client, self._user, self._password, device_id=device_id)
        except (SendRejected, MatrixBadToken) as error:
            raise ConnectRefused(
                f"{self._user} cannot log in: {error}",
                remedy=f"set {self._table}.user and {self._table}.password to what a client logs "
                "in with",
            ) from error
        await self._save(given)
        self._client.set_token(given.access_token)
        return MatrixIdentity(user_id=given.user_id, device_id=given.device_id)

    async def _save(self, login: MatrixLoginResponse) -> None:
        try:
            await asyncio.to_thread(write_atomically, self._path, msgspec.json.encode(login))
        except OSError as error:
            raise TransientStoreError(f"{self._path} cannot be written: {error}") from error


def _load_login(path: Path) -> MatrixLoginResponse | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=MatrixLoginResponse)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        log.warning(
            "%s makes no sense (%s): the account logs in again, as a new device.",
            path,
            error,
            extra={"action": "login_file_invalid"},
        )
        return None
