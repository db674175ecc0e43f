"""Asking a homeserver whose credentials those are."""

from holdfast.core.errors import ConnectRefused, SendRejected
from holdfast.core.ports.door import AccountIdentity, PluginContext
from holdfast.platforms.matrix.api import MatrixBadToken, MatrixClient
from holdfast.platforms.matrix.login import log_in
from holdfast.platforms.matrix.plugin import MatrixSettings
from holdfast.platforms.matrix.wire import MatrixEmptyResponse

_CHECK_TIMEOUT = 20.0  # seconds that an answer may take


async def check_account(context: PluginContext[MatrixSettings]) -> AccountIdentity:
    """With a password, a device is made and taken away again. Raises a `ConnectError` or a
    `SendError`."""
    api = MatrixClient(context.settings.homeserver, timeout=_CHECK_TIMEOUT)
    async with api.open(lambda: None):
        if (token := context.secrets.get("token")) is not None:
            api.set_token(token.reveal())
            try:
                name = (await api.whoami()).user_id
            except MatrixBadToken as error:
                raise ConnectRefused(
                    str(error), remedy="docs/matrix.md says how to get one"
                ) from error
        else:
            name = await _try_password(api, context)
    return AccountIdentity(name=name, chat_link=f"https://matrix.to/#/{name}")


async def _try_password(client: MatrixClient, context: PluginContext[MatrixSettings]) -> str:
    user, password = context.settings.user, context.secrets["password"]
    try:
        given = await log_in(client, user, password, device_name="Holdfast, trying its password")
    except (SendRejected, MatrixBadToken) as error:
        raise ConnectRefused(str(error), remedy="look at the name and the password") from error
    client.set_token(given.access_token)
    await client.call_idempotent("POST", "/logout", MatrixEmptyResponse, body={})
    return given.user_id
